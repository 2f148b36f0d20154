// Package session tells what Claude Code does as envelopes of the session protocol: from
// the lines that a headless process prints ([Fold]), and from the transcripts that all
// processes write ([Read], [Follow]). A Fold also tells what became of each frame that the
// process was given.
//
// # One conversation, the same envelopes
//
// Claude Code gives a line of output and the record that it keeps of it the same uuid. The
// id of an envelope is derived from that, so what was seen live and is read again after a
// crash has the same id: whoever keeps each id once neither loses nor repeats anything.
// The order is the same too, in the conversation itself and in each subagent. Times may
// differ by what Claude Code takes to write a record.
//
// # Turns
//
// A turn begins with a prompt, and its id is the uuid of the prompt, which is that of the
// frame. A turn that Claude Code begins by itself, such as after a background task has
// ended, has the uuid of the first thing that the agent says in it, because only
// transcripts tell the uuid of its prompt. Each turn has one turn-start and one turn-end:
//
//   - completed: the agent has stopped by itself.
//   - cancelled: somebody interrupted it.
//   - failed: the model API or a limit ended it, or its process died. Nobody wanted that.
//
// A tool call or a subagent that is still open when its turn ends is ended with it. Only
// subagents in the background outlive their turn.
//
// A process that died before it acknowledged a frame leaves a turn-start without an end,
// because that frame is run again under the same id.
//
// # Frames
//
// A frame is identified by its uuid alone:
//
//   - Accepted: lifecycle started, or the echo of its uuid with a timestamp. A frame that is joined with the next is
//     echoed without a timestamp, after lifecycle queued.
//   - The end: lifecycle completed or cancelled. The result tells an interrupt from a failure of the model API, which
//     are both cancelled.
//   - Known: an echo without a timestamp and with none of these before.
//
// Claude Code prints the lifecycle of each frame, including commands and messages of teammates, even without
// --replay-user-messages. Other programs may print less:
//
//   - One that echoes frames without a lifecycle: the first result after the echo is the end.
//   - One that has echoed nothing, told no version and printed a result: Unproven. Its turns are those of the frames,
//     in the order sent.
//
// A turn and the frames that it ends come to the same end, since one result decides about both: cancelled if the result
// says that the turn was aborted, if the process has printed that the user interrupted it, or if the turn ended with an
// error that has no reason after our own interrupt.
//
// # What becomes what
//
//   - A prompt is a text of the user. In a transcript, a message from another session or from teambridge is one, too. Text of
//     the agent is a text; its reasoning is one with the flag thinking.
//   - The use of a tool is a tool-call-start, its result a tool-call-end. The title says in
//     one line what is to be done, "run `go test ./...`", and the outcome how that ended: failed
//     if the result is an error, denied if the tool was not allowed, cut if there is no result.
//   - A file that Write, Edit or NotebookEdit wrote is a file after the tool-call-end. Its ref
//     is its path. Its size is that of the content that was written, or 0 where that is not
//     known, as for Edit.
//   - The use of an agent (Task, Agent) begins a subagent, whose id is derived from that of
//     the tool call. Its prompt is in the arguments of the call, and not a text.
//   - The output of local commands, other texts that come from the program and not from
//     the model, and the note that the conversation was compacted are services.
//   - The usage of a turn is in its turn-end.
//
// A text or an argument of a tool is cut at 256 KiB, and the arguments of one call at 512 KiB.
//
// # What live output and transcript do not share
//
// Of conversations with answers of several blocks, tool calls in parallel, interrupts, frames that were joined or given in
// the middle of a turn, subagents, background tasks, commands, compactions, and resumed sessions:
//
//   - A command, a text with "/" in front, may be kept under another name, such as /usage for /cost.
//   - A transcript does not tell that a limit of turns ended a turn. It has failed because
//     nothing followed.
//   - Transcripts of some versions do not tell a call that a person rejected at the terminal
//     from one that was interrupted while it ran: both are cut.
//   - What the program itself says next to a command may be printed after the prompt or
//     before; it is always told after it.
package session
