// Package claude runs Claude Code, or a program that speaks the same lines, as a child process. Frames go to
// its stdin, and events come from its stdout. For every frame the package reports whether it was taken and
// whether its turn ended.
//
//	p, err := claude.Start(ctx, claude.Options{Command: []string{"claude"}, Dir: dir})
//	… write p.ID() and p.Session() down …
//	frame, err := claude.NewFrame(id, "hello")
//	… write frame.UUID and frame.Line down …
//	err = p.Send(ctx, frame.Line)
//	for event, err := range p.Events(ctx) {
//		… event.Payload is the decoded line, event.Progress has the new states of frames …
//	}
//	err = p.End(ctx, agent.Grace{EOF: 30 * time.Second, Term: 5 * time.Second})
//
// # Exactly once
//
// Claude Code runs each frame's uuid once. If it gets the uuid again, even after a resume, it echoes the
// frame and runs nothing. The exception is a process that was killed after it stored a frame and before it
// echoed it. So look for a frame of unknown fate in the transcript first. If it is not there, send the same
// bytes again:
//
//   - Accepted, then Done, Failed or Cancelled: it runs now, and did not run before.
//   - Known: it was taken before. [Transcript.Turn] shows whether its turn finished or was cut. The frame will not
//     start a cut turn again.
//
// This holds if three rules are kept:
//
//   - One frame at a time. Frames that wait are joined into one turn, and only the last uuid is remembered.
//   - One process at a time. A process whose bridge was killed keeps running: see [process.Predecessor] first.
//   - Resume a session with a transcript, and start one without ([Transcript.Exists]). The transcript is about 0.1 s
//     late: a frame that was Done stays done, even if it is not stored.
//
// A command (a text with "/" in front) may be stored under another id, and another process would run it again.
//
// # Stdin and stdout
//
// One goroutine writes whole lines, each with a deadline. If only part of a line gets through, the process is
// unusable ([WriteError], [ErrUnusable]), and the next frame needs another process.
//
// One goroutine reads, and waits neither for the consumer of [Process.Events], nor for [agent.Permission],
// nor for stdin. [Options.Buffer] describes what happens to a slow consumer.
//
// # The end
//
// The process leads its own process group, which ends with it. When Wait, End or Kill returns, the process is
// reaped, and its goroutines and descriptors are gone. If the bridge is killed, the process finishes its turn
// and exits, since its stdin has ended. The next bridge must look for that process.
//
// # What is not promised
//
// A process that is killed within about 0.1 s after its model answered has not recorded the answer, see
// [Transcript]: its successor calls the tool again, or repeats the turn. [Process.End] does not cause this for a
// process that reads its stdin. [Process.Kill] and [process.Predecessor.End] can.
//
// On Unix systems other than Linux a [process.Predecessor] cannot be distinguished from another process with
// its id, and is left alone. On Windows the process is ended without its children. Processes that tools start
// in sessions of their own, as shell commands do, do not end with the group.
package claude
