// Package claude runs Claude Code, or a program that speaks the same lines, as a child process. Frames go to its stdin,
// events come from its stdout, and for every frame the package tells whether it was taken and whether its turn ended.
//
//	p, err := claude.Start(ctx, claude.Options{Command: []string{"claude"}, Dir: dir})
//	… write p.ID() and p.Session() down …
//	frame, err := claude.NewFrame(id, "hello")
//	… write frame.UUID and frame.Line down …
//	err = p.Send(ctx, frame.Line)
//	for event, err := range p.Events(ctx) {
//		… event.Payload is what was printed, event.Progress what became of frames …
//	}
//	err = p.End(ctx, agent.Grace{EOF: 30 * time.Second, Term: 5 * time.Second})
//
// # Exactly once
//
// Claude Code runs the uuid of a frame once. Given it again, also after a resume, it echoes the frame and runs nothing.
// The exception is a process that was killed after it stored a frame and before it echoed it. So look for a frame
// of unknown fate in the transcript first. If it is not stored, send the same bytes again:
//
//   - Accepted, then Done, Failed or Cancelled: it runs now, and did not run before.
//   - Known: it was taken before. [Transcript.Turn] tells whether its turn finished or was cut. The frame will not start
//     a cut turn again.
//
// This holds if three rules are kept:
//
//   - One frame at a time. Frames that wait are joined into one turn, and only the last uuid is remembered.
//   - One process at a time. A process whose bridge was killed keeps running; see [process.Predecessor] before resuming.
//   - Resume what has a transcript, start what has none ([Transcript.Exists]). The transcript is about 0.1 s late: a frame
//     that was Done stays done, even if it is not stored.
//
// A command (a text with "/" in front) may be stored under another id, and another process would run it again.
//
// # Stdin and stdout
//
// One goroutine writes, each line whole and with a deadline. If a line goes in only in part, the process is unusable
// ([WriteError], [ErrUnusable]), and the next frame belongs to another process.
//
// One goroutine reads, and waits neither for the consumer of [Process.Events], nor for [agent.Permission], nor for stdin.
// See [Options.Buffer] for a consumer that is behind.
//
// # The end
//
// The process leads a process group of its own, which ends with it. When Wait, End or Kill has returned, the process is
// reaped, and no goroutine and no descriptor of it is left. If the bridge is killed, the process finishes its turn and
// exits, since its stdin has ended. The next bridge has to look for it.
//
// # What is not promised
//
// A process that is killed within about 0.1 s after its model answered has not written that down, see [Transcript]: the
// tool is called again, or the turn is run again. [Process.End] does not do this to a process that reads its stdin.
// [Process.Kill] and [process.Predecessor.End] can.
//
// On Unix systems other than Linux a [process.Predecessor] cannot be told from another process of its id and is left alone. On
// Windows the process is ended without what it started. What tools have started in sessions of their own, as shell
// commands are, is not ended with the group.
package claude
