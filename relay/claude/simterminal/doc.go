// Package simterminal is a simulated interactive Claude Code, for tests of what runs one in a terminal. It does with its
// terminal, its transcript and its other files what was measured on 2.1.80 and 2.1.329. There is no model in it: a turn does what its
// text says.
//
// It is the program that it is linked into, run again with the variable of package simchild. With -p that program is
// the headless agent of simchild, which has the same transcripts and the same log:
//
//	func TestMain(m *testing.M) {
//		simterminal.Main() // does not return in an interactive child
//		simchild.Main()    // nor this in a headless one
//		os.Exit(m.Run())
//	}
//
//	script := simchild.Script{Version: simchild.Newest, State: root}
//	cmd := exec.Command(os.Args[0], "--resume", id, "--prefill", "a draft")
//	cmd.Env = append(os.Environ(), script.Env(), "CLAUDE_CONFIG_DIR="+root) // in a pty
//
// Of the flags it obeys --session-id, --resume, --prefill, --permission-mode, --dangerously-skip-permissions and, in
// --settings, hooks SessionStart and UserPromptSubmit that are shell commands. It passes over all others.
//
// # Keys
//
// What is typed or pasted is the draft. Enter runs it, or in a turn puts it into a queue that only this process
// knows. Ctrl-J adds a line, Backspace deletes a character, Ctrl-U all. Ctrl-G runs $VISUAL or $EDITOR with a file that holds the
// draft, also in a turn and not in a dialog. The newer version omits a "!" at its beginning. Esc ends a
// turn or a dialog. Shift-Tab changes the permission mode. Ctrl-C deletes the draft, and ends the program if there is none.
//
// # What a text does
//
//	SLEEP:2.5      the answer comes after 2.5 seconds
//	WAIT:name      the answer comes when a file of that name is in the State
//	ASK:Bash       a dialog asks about the tool; y allows it, n or Esc does not
//	SPAWN:worker   a teammate of that name lives from now on in the team of the process, and keeps nobody busy
//	! SLEEP:2      as a shell command of the person: the status is "shell"
//	/clear         begins another session; /exit ends the program
//
// The answer is "ACK: " and the text.
//
// # What it keeps
//
// Below Script.State, which has to be $CLAUDE_CONFIG_DIR: the transcript, history.jsonl, sessions/PID.json (in the older version
// with an id that is not the session's, and without a status), the log of simchild, and teams. Newer versions have
// one from their start if CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS is set, up to 2.1.310 under a random id if the session
// was given. Its end deletes the team with all inboxes.
//
// What was entered is in history.jsonl at once, and in the transcript 100 ms later, or after [simchild.Script.Lag]: a signal in between
// loses it there.
//
// At SIGTERM, SIGHUP and SIGINT it resets the terminal, tells how to resume the session, and exits with 143, 129 and 0.
// Killed, it leaves the terminal and the files as they are. A session in which nothing was said cannot be resumed.
package simterminal
