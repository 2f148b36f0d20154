// Package session makes envelopes of the session protocol from the activity of Claude Code:
// from the lines that a headless process prints ([Fold]), and from the transcripts that all
// processes write ([Read], [Follow]). A Fold also reports the state of each frame that the
// process was given.
//
// # One conversation, the same envelopes
//
// Claude Code gives a line of output and its record in the transcript the same uuid. The id
// of an envelope is derived from the uuid. So an envelope that was seen live has the same id
// when it is read after a crash: a reader that keeps each id once neither loses nor repeats
// one. The order is the same, too, in the conversation itself and in each subagent. Times
// may differ by the time that Claude Code takes to write a record.
//
// # Turns
//
// A turn begins with a prompt, and its id is the uuid of the prompt, which is the uuid of
// the frame. A turn that Claude Code begins by itself, such as after a background task has
// ended, has the uuid of the agent's first line in it, because only transcripts have the
// uuid of its prompt. Each turn has one turn-start and one turn-end:
//
//   - completed: the agent has stopped by itself.
//   - cancelled: somebody interrupted it.
//   - failed: the model API, a limit or the death of its process ended it, and no person did.
//
// A tool call or a subagent that is still open when its turn ends is ended with it. Only
// subagents in the background outlive their turn.
//
// A process that died before it acknowledged a frame leaves a turn-start without an end,
// because the next process runs the frame again under the same id.
//
// # Frames
//
// A frame is identified by its uuid alone:
//
//   - Accepted: lifecycle started, or the echo of its uuid with a timestamp. A frame that is joined with the next is
//     echoed without a timestamp, after lifecycle queued.
//   - The end: lifecycle completed or cancelled. An interrupt and a failure of the model API are both printed as
//     cancelled; the result distinguishes them.
//   - Known: an echo without a timestamp, and without any of these before it.
//
// Claude Code prints the lifecycle of each frame, including commands and messages of teammates, even without
// --replay-user-messages. Other programs may print less:
//
//   - One that echoes frames without a lifecycle: the first result after the echo is the end.
//   - One that has echoed nothing, reported no version and printed a result: Unproven. Its turns belong to the frames
//     in the order sent.
//
// A turn and the frames that it ends have the same end, since one result decides both. They are cancelled if the
// result reports that the turn was aborted, if the process has printed that the user interrupted it, or if the turn
// ended, after our own interrupt, with an error that has no reason.
//
// # What becomes what
//
//   - A prompt is a text of the user. In a transcript, a message from another session or from teambridge is a text of
//     the user, too. Text of the agent is a text; its reasoning is a text with the flag thinking.
//   - The use of a tool is a tool-call-start, its result a tool-call-end. The title describes
//     the use in one line, such as "run `go test ./...`". The outcome is failed if the result
//     is an error, denied if the tool was not allowed, and cut if there is no result.
//   - A file that Write, Edit or NotebookEdit wrote is a file after the tool-call-end. Its ref
//     is its path. Its size is the size of the written content, or 0 where that is not
//     known, as for Edit.
//   - The use of an agent (Task, Agent) begins a subagent, whose id is derived from the id of
//     the tool call. The prompt of the subagent is in the arguments of the call, and not a text.
//   - The output of local commands, other texts of the program rather than of the model,
//     and the note that the conversation was compacted are services.
//   - The usage of a turn is in its turn-end.
//
// A text or an argument of a tool is cut at 256 KiB, and the arguments of one call at 512 KiB.
//
// # What live output and transcript do not share
//
// Both were compared for answers of several blocks, tool calls in parallel, interrupts, frames that were joined or
// given in the middle of a turn, subagents, background tasks, commands, compactions, and resumed sessions:
//
//   - A command, a text with "/" in front, may be kept under another name, such as /usage for /cost.
//   - A transcript does not show that a limit of turns ended a turn. The turn has failed
//     because no record follows.
//   - Transcripts of some versions do not distinguish a call that a person rejected at the
//     terminal from one that was interrupted while it ran: both are cut.
//   - A text of the program next to a command may be printed after the prompt or before.
//     Its envelope always comes after the prompt's.
package session
