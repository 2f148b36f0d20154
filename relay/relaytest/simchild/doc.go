// Package simchild is a simulated Claude Code, for tests: with -p and stream-json, or at a terminal.
// It does what current versions were measured to do. It remembers uuids as they do, and does at the worst moment what a
// [Script] tells it. There is no model in it: a turn does what its text says.
//
// It is the program that it is linked into, run again with an environment variable:
//
//	func TestMain(m *testing.M) {
//		simchild.MainTerminal() // does not return in the program at a terminal
//		simchild.Main()         // nor this in the headless one
//		os.Exit(m.Run())
//	}
//
//	script := simchild.Script{State: t.TempDir()}
//	cmd := exec.Command(simchild.Program(), "--session-id", id)
//	cmd.Env = append(os.Environ(), script.Env())
//
// Of the flags it obeys --session-id, --resume and --permission-mode. Headless also --model, --agent-id as far as plan
// mode is concerned, ExitPlanMode in --disallowedTools, and a rule to ask about it in --settings; at a terminal also
// --prefill, --dangerously-skip-permissions and, in --settings, hooks SessionStart and UserPromptSubmit that are shell
// commands. It ignores all others.
//
// # What a text does
//
//	SLEEP:2.5      the answer comes after 2.5 seconds; an interrupt ends that
//	WAIT:name      the answer comes when a file of that name is in the State; an interrupt ends that
//	ASK:Bash       asks (can_use_tool, or with a dialog) whether the tool may be used, and answers "allowed", or "denied"
//	               and the reason; headless its input can follow, as a JSON object: ASK:Bash {"command": "ls"}
//	/clear         begins another session
//
// Headless:
//
//	TOOL:2.5       calls a tool that takes 2.5 seconds, after the echo; an interrupt ends that
//	CALL:Bash {…}  asks, and calls the tool if it is allowed to, with that input; with a key "fails" it fails. There
//	               can be several
//	ASKS:100       asks that many times, 2 KiB each, and reads the answers when it has asked all
//	USE:Tool {…}   prints that it calls that tool; nothing else happens
//	LEAVE          leaves plan mode if it has the tool for that: a member by itself, unless its settings have it
//	               ask, another if it is allowed to
//	FAIL           the model API fails
//	/compact       compacts the conversation. Other commands are unknown
//
// At a terminal:
//
//	SPAWN:worker   a teammate of that name lives from now on in the team of the process, and keeps nobody busy
//	/exit          ends the program
//
// Everything else is answered with "ACK: " and the text, unless a [Scene] is for it.
//
// # Keys
//
// What is typed or pasted is the draft. Enter runs it, or in a turn puts it into a queue that only this process knows.
// Ctrl-J adds a line, Backspace deletes a character, Ctrl-U all. Ctrl-G runs $VISUAL or $EDITOR with a file that holds
// the draft, also in a turn and not in a dialog; a "!" at its beginning is left out. In a dialog y allows,
// and n does not. Esc ends a turn. Shift-Tab changes the permission mode. Ctrl-C deletes the draft, and ends the program
// if there is none.
//
// # What it keeps
//
// Below Script.State: the transcripts, in the folder and form of Claude Code, which are also its memory after --resume;
// and a log of what processes did, for counting, see [Log]. Headless, a frame is stored at the start of its turn; of
// frames that waited together only the last is stored and remembered. A frame that was stored
// and not echoed when its process was killed is run again, and is in the conversation twice then. A text that begins
// with a teammate's message is not echoed when its turn begins.
//
// At a terminal State has to be $CLAUDE_CONFIG_DIR, and it also has history.jsonl, sessions/PID.json, and, if
// CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS is set, a team from its start. Its end deletes the team with all inboxes. What was
// entered is in history.jsonl at once, and in the transcript 100 ms later, or after [Script.Lag]: a signal in between
// loses it there. At SIGTERM, SIGHUP and SIGINT it resets the terminal, tells how to resume the session, and exits with
// 143, 129 and 0. Killed, it leaves the terminal and the files as they are. A session in which nothing was said cannot be
// resumed.
//
// The real ones differ in more than this package knows. A test that passes with it should have a smaller sibling that
// runs with them.
package simchild
