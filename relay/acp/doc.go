// Package acp runs agents that speak the Agent Client Protocol, version 1, on their standard input and
// output. It gives each message to them once.
//
// Agents do not store message ids, and work twice on a prompt that they get twice. So the prompt's text
// includes the id. If the id is later found in the session, the agent has the message:
//
//   - The text of a prompt begins with a line that has the message's id. See [Envelope].
//   - Before a prompt is written, a record in the state directory says, flushed to the disk, in
//     which session of the agent it was begun.
//   - One prompt is in flight at a time. A second one would make agents join the two, or cancel
//     the first.
//   - One process works on a session at a time: it holds a lock, and first ends the remains of
//     an earlier one. On Linux these include processes that have left its process group; their
//     environment identifies them.
//   - If a prompt has no answer, the next process to load the session searches the agent's
//     replay. If the replay has the id, the agent took the message, and it is not sent again. If
//     not, the agent did not take it, and no process works on it any more.
//
// # What is not promised
//
// A replay shows that a message was taken, but not whether its turn has ended. If the agent or this process is
// killed before the answer, only the agent's own record can prove the end of the turn. This package reads the
// records of Codex, Claude Code and Qwen Code (finished.go). Qwen Code records a prompt some milliseconds
// after its model has it. If it is killed in between, the model may be asked twice; no tool has run by then.
//
// Version 2 of the protocol, a draft, promises no more. Of the measured agents, only the one of Claude Code
// speaks it, next to version 1. It answers a prompt with the id of the message once the conversation has it,
// and reports the end of the turn later. But that id is the agent's, so without the answer the text has to be
// searched for, too, and a replay does not show the end of a turn either.
//
// Without /proc, if an agent alone is killed, descendants that have left its process group can outlive it.
package acp
