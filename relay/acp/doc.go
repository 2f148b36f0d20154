// Package acp runs agents that speak the Agent Client Protocol, version 1, on their standard input and output, and
// gives each message to them once.
//
// No agent keeps an id of ours, and one that gets a prompt twice works twice. So what proves that a message was taken
// is its id in the text of the prompt:
//
//   - The text of a prompt begins with a line that has the id of the message. See [Envelope].
//   - Before a prompt is written, the state directory has, flushed to the disk, that it was begun in which session of
//     the agent.
//   - One prompt is in flight at a time. Agents join a second one with the first, or cancel the first.
//   - One process works on a session at a time: it holds a lock, and what an earlier one left behind is ended first. On
//     Linux that includes what has left its process group; it is found by its environment.
//   - A prompt without an answer is looked for in what the agent replays when another process loads the session. If its
//     id is there, the agent has taken it, and it is not given again. If not, it was not taken: nobody works on it any
//     more.
//
// # What is not promised
//
// No replay says whether a turn came to its end. So of a turn whose answer did not come because the agent or this
// process was killed it is known that it was taken, and not whether it is finished, unless the agent's own record proves
// it: those of Codex, Claude Code and Qwen Code are read (finished.go). An agent that records a prompt only after the model has it (Qwen Code, some
// milliseconds) can ask the model twice if it is killed in between; no tool has run by then.
//
// Of an agent that was killed alone, processes can outlive it where there is no /proc and they have left its group.
package acp
