// Package standin runs the real Claude Code, in the versions of .ci/versions, and the real OpenCode in tests: offline,
// without an account, in a home of their own, against a stand-in for the model API that does what the test says.
//
// # A team
//
// [ForEach] runs a test with each version. [StartTeam] brings up a lead and a teammate `worker` in about a second: in a
// terminal. From there messages travel through the real inbox files:
//
//	team := standin.StartTeam(t, v, nil)
//	… append a row to team.Inbox("worker") that says "hello [m-1]" …
//	err := team.API.WaitCount(ctx, "worker", "[m-1]", 1)
//	… later: team.API.Count("worker", "[m-1]") is 1: neither lost nor twice
//
// A row makes the worker act if it holds a CALL line, see [Script] and [CallLine]:
//
//	standin.CallLine("SendMessage", map[string]string{"to": "user", "message": "hi", "summary": "s"})
//
// [StartHeadless] and [StartTerminal] start single sessions; [NewHome] makes the surroundings, whose [Home.Env] also
// serves for a Claude Code that the code under test starts, as the command of [Require].
//
// [Home.OpenCode] gives the home to OpenCode as well; [StartOpenCode] starts a server of it.
//
// # The model
//
// [API] answers by a [Responder], [Script] if none is given, and records every call. A conversation is sent again with
// every call, so a text that is in a call was not necessarily given to the agent then: [API.Count] and [API.Counts]
// tell how often it was given, [API.Turns] how often it was answered. What they promise stands with [API.Count].
//
// Agents are told apart by the headers that Claude Code sends. The outdated versions of lane taken send none, so their teammates are known
// by the prompt they were started with: give each a prompt of its own, as [Team.Spawn] does.
//
// # What has to be there
//
// .ci/install installs the versions, OpenCode and proper-lockfile to .interop; [EnvInterop] names that folder. Unset, no
// program is run. What is missing skips the test, naming what to run; with [EnvRequired] set to 1 it fails it. Versions
// in JavaScript and proper-lockfile need node, terminals need tmux. [EnvVersions] selects other versions.
//
// # What stays behind
//
// Nothing. When a test ends, its processes are asked to end and killed after 3 seconds, and on Linux so is whatever
// else they started; the tmux server is ended; the folders are removed. A test binary that dies is followed by what it
// started, through a shell that waits for its death; only its temporary folders stay. Linux is what this is tested on.
// Elsewhere commands of the Bash tool may outlive their agent; on Windows nothing starts in a terminal.
//
// # What is not promised
//
// The stand-in knows nothing: no tokens are counted, no limit is enforced, no model is told from another. What a real
// model would say to a message, and whether it would act on it, cannot be tested with it.
package standin
