// Package pipe carries values from producers to the one loop that feeds an agent: a [Queue] groups waiting
// values by mode, and a [Stream] passes values on one by one. The agent's output goes the other way through
// an [Outbox], which keeps its order.
//
// A Queue compares modes literally. So push the resolved mode, not the change that a message requests:
//
//	current = current.Merge(change)
//	err := q.Push(message, current)
//
// Otherwise "model: sonnet" followed by "no change" are two batches, although
// both run with the same settings.
//
// # Queue
//
// Values come out in the order they went in, always. [Queue.Next] gives the
// longest run of one mode from the front, within the limits of [Options], as
// one [Batch]; a value of that mode behind one of another waits. An isolated
// value is a batch of its own, which is what a slash command needs.
//
// Guarantees:
//
//   - A value that was accepted comes out once: of Next, or as what
//     [Queue.PushIsolateAndClear] or [Queue.Reset] cleared. A full queue
//     refuses with [ErrFull].
//   - Several may wait in Next at once; they are served in the order they came.
//   - Next prefers a value to [ErrClosed] and the context's error, but not to
//     [ErrReset]. A Next that returns an error has taken nothing.
//   - Pushing n values and taking them out takes time in proportion to n.
//
// Not promised: the queue is in memory. A caller that may die with a batch needs its own record. A caller
// that must prepare before it takes a batch uses [Queue.Peek].
//
// # Stream
//
// A [Stream] has any number of producers and one consumer at a time. What was
// pushed before [Stream.End] or [Stream.Fail] is given out first; then the end,
// or that error, every time. A consumer that stops early leaves the rest to the
// next one. With a limit, [Stream.Push] refuses with [ErrFull] and [Stream.Send]
// waits for room, in the order of arrival.
//
// A context that is done stops a Stream's methods at once, even while values
// are there. What was not read stays to be read.
//
// # Outbox
//
// An [Outbox] passes items to a sink, strictly in order. An item can be held back for a short time, until
// related information arrives; later items wait. [Outbox.Release] ends the hold by an id, and may come before
// the item.
//
// An item that the sink refuses is tried again, with growing waits. After the
// last try it is recorded as skipped, and the next item goes out: a sink that
// refuses one item for ever does not block the others.
//
// Not promised: like a Queue, an Outbox is memory. A sink that takes an item and
// returns an error gets it again.
//
// # Use
//
// All methods of Queue, Stream and Outbox may be called at the same time. None
// starts a goroutine, and none has to be closed to be freed.
package pipe
