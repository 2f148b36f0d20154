// Package simchild is a simulated Claude Code with -p and stream-json, of several versions ([Kinds]), for tests and
// demonstrations: it speaks the lines of 2.1.80 and 2.1.329 as they were measured, and those between by the table of
// package teams, remembers uuids as they do, and does at the worst moment what a [Script] tells it. There is no model in it: a turn does what its text says.
//
// It is the program that it is linked into, run again with an environment variable:
//
//	func TestMain(m *testing.M) {
//		simchild.Main() // does not return in the child
//		os.Exit(m.Run())
//	}
//
//	script := simchild.Script{Version: simchild.Newest, State: t.TempDir()}
//	cmd := exec.Command(os.Args[0], "--session-id", id)
//	cmd.Env = append(os.Environ(), script.Env())
//
// Of the flags it obeys --session-id, --resume, --model and --permission-mode, --agent-id as far as plan mode is
// concerned, ExitPlanMode in --disallowedTools, and a rule to ask about it in --settings. It passes over all others.
//
// # What a text does
//
//	SLEEP:2.5      the answer comes after 2.5 seconds; an interrupt ends that
//	WAIT:name      the answer comes when a file of that name is in the State; an interrupt ends that
//	TOOL:2.5       calls a tool that takes 2.5 seconds, after the echo; an interrupt ends that
//	ASK:Bash       asks (can_use_tool) whether the tool may be used, and answers "allowed" or "denied: " and the reason;
//	               its input can follow, as a JSON object: ASK:Bash {"command": "ls"}
//	CALL:Bash {…}  asks, and calls the tool if it is allowed to, with that input; with a key "fails" it fails. There
//	               can be several
//	ASKS:100       asks that many times, 2 KiB each, and reads the answers when it has asked all
//	TELL:worker    prints that it calls SendMessage to worker; nothing is written there
//	USE:CronCreate prints that it calls that tool; nothing else happens
//	LEAVE          leaves plan mode if it has the tool for that: a member by itself, unless its settings have it
//	               ask, another if it is allowed to
//	FAIL           the model API fails
//	/compact       compacts the conversation; /clear begins another (not in the oldest). Other commands are unknown
//
// Everything else is answered with "ACK: " and the text, unless a [Scene] is for it.
//
// # What it keeps
//
// Below Script.State: the transcripts, in the folder and form of Claude Code, which are also its memory after --resume;
// and a log of what processes did, for counting, see [Log]. A frame is stored at the start of its turn; of frames that
// waited together only the last is stored and remembered. What older versions have stored they do not run again. Newer
// ones do, when they were killed before they echoed the frame: that is in the conversation twice then. A text that
// begins with a teammate's message is not echoed when its turn begins. The oldest never echo a text that holds one, not
// even one that they know.
//
// The real ones differ in more than this package knows. A test that passes with it should have a smaller sibling that
// runs with them.
package simchild
