// Package acp runs agents that speak the Agent Client Protocol, version 1, on their standard input and output, and
// gives each message to them once.
//
// Agents do not store message ids, and work twice if they get a prompt twice. So the id is put into the
// prompt's text, and finding it there later proves that the message was taken:
//
//   - The text of a prompt begins with a line that has the id of the message. See [Envelope].
//   - Before a prompt is written, the state directory records, flushed to the disk, in which session of the
//     agent it was begun.
//   - One prompt is in flight at a time. Agents join a second one with the first, or cancel the first.
//   - One process works on a session at a time: it holds a lock, and first ends the remains of an earlier
//     one. On Linux that includes processes that have left its process group; they are found by their
//     environment.
//   - A prompt without an answer is searched for in the agent's replay when another process loads the
//     session. If its id is there, the agent has taken it, and it is not sent again. If not, it was not
//     taken, and no process works on it any more.
//
// # What is not promised
//
// A replay does not show whether a turn ended. If the agent or this process is killed before the answer, the
// turn is known to be taken, but not whether it finished, unless the agent's own record proves it: the
// records of Codex, Claude Code and Qwen Code are read (finished.go). An agent that records a prompt only
// after the model has it (Qwen Code, some milliseconds) can ask the model twice if it is killed in between;
// no tool has run by then.
//
// Without /proc, descendants that have left the process group can outlive an agent that is killed alone.
package acp
