// Package claude runs Claude Code, or a program that speaks the same lines, as a child process: frames in on its stdin,
// events out of its stdout, and for every frame an answer to the one question that matters: was it taken, and did its
// turn end? Versions differ in what they print (see package teambridge/teams, Trait); it works with all of them without being told
// which one it runs.
//
//	p, err := claude.Start(ctx, claude.Options{Command: []string{"claude"}, Dir: dir})
//	… write p.Predecessor() and p.Session() down …
//	frame, err := claude.NewFrame(claude.Message{Text: "hello"})
//	… write frame.UUID() and frame.Bytes() down …
//	err = p.Send(ctx, frame)
//	for event, err := range p.Events(ctx) {
//		… event.Payload is what was printed, event.Progress what became of frames …
//	}
//	err = p.End(ctx, agent.Grace{EOF: 30 * time.Second, Term: 5 * time.Second})
//
// # Exactly once
//
// A frame has a uuid. Claude Code runs a uuid once: given it again, in the same process or in one that resumed the
// session, it echoes the frame and runs nothing. Only a newer version that was killed after it stored a frame and before it
// echoed it runs it again, and has it in the conversation twice. So a frame whose fate is not known is looked for in the transcript
// first. If it is not stored, it may be sent again, with the same bytes; what comes back is its fate:
//
//   - Accepted, then Done, Failed or Cancelled: it runs now, and ran before not at all.
//   - Known: it was taken before. [Transcript.Turn] tells whether its turn finished or was cut. A cut turn does not go on
//     by itself, and the frame will not start it again.
//
// This holds if three rules are kept:
//
//   - One frame at a time. Of frames that wait, newer versions make one turn and remember only the last of them.
//   - One process at a time. A process whose bridge was killed goes on; see [Predecessor] before resuming.
//   - Resume what has a transcript, start what has none ([Transcript.Exists]). It is written about 0.1 s late: a frame that
//     was Done and is then not stored was done all the same.
//
// A command (a text with "/" in front) is weaker on older versions: it is not echoed and not stored, so that it ends by the result
// of the turn that follows it, and another process would run it again.
//
// # Stdin
//
// One goroutine writes, each line whole and with a deadline. Nothing but JSON objects in one line can be written, for
// Claude Code exits at anything else. A line that went in only in part makes the process unusable: everything later
// would become part of it. [WriteError] and [ErrUnusable] say so, and the next frame belongs to another process.
//
// # Stdout
//
// One goroutine reads, and waits for nobody: not for the consumer of [Process.Events], not for [Permission.Ask], not for
// stdin. What is not read is kept up to [Options.Buffer]; then bulky events are left out, with a [Gap] in their place,
// but never those that decide a frame's fate. A line over 16 MiB is skipped and said so. Questions of the process are
// answered by [Options.Permission]; those not known here with an error.
//
// # The end
//
// The process leads a process group of its own, which ends with it. [Process.End] closes stdin, then sends SIGTERM, then
// SIGKILL. When Wait, End or Kill has returned, the process is reaped, and no goroutine and no descriptor of it is left.
//
// A bridge that is killed leaves the process behind, with its stdin at its end: it finishes its turn and exits. That is
// wanted, its work is not lost, and is why the next bridge has to look for it.
//
// # What is not promised
//
// A process that is killed within about 0.1 s after its model answered has not written that down, see [Transcript]. A
// tool that was called then is called again, or the whole turn is run again if it had only begun: nothing that can be
// seen from outside tells it from one that did not get as far. [Process.End] does not do this to a process that reads
// its stdin, [Process.Kill] and a [Predecessor] that is ended can.
//
// Process groups and start times are Linux's; on other Unix systems a [Predecessor] is not told from another process of
// its id and is left alone, on Windows the process is ended without what it started. What tools the agent started in
// sessions of their own (Claude Code does that with shell commands) is not ended by ending the group.
package claude
