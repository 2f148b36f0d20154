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
// Values always come out in the order in which they were pushed. [Queue.Next] returns the longest run of one mode
// from the front, within the limits of [Options], as one [Batch]; a value behind one of another mode waits. An
// isolated value is a batch of its own, which a slash command needs.
//
// Guarantees:
//
//   - Each accepted value comes out once: from Next, or from the [Queue.PushIsolateAndClear] or [Queue.Reset] that
//     cleared it. A full queue refuses with [ErrFull].
//   - Several consumers may wait in Next at once; they are served in the order of arrival.
//   - Next prefers a value to [ErrClosed] and the context's error, but not to
//     [ErrReset]. A Next that returns an error has taken nothing.
//   - Pushing n values and taking them out takes time in proportion to n.
//
// Not promised: the queue is in memory. A caller that may die with a batch needs its own record. A caller
// that must prepare before it takes a batch uses [Queue.Peek].
//
// # Stream
//
// A [Stream] has any number of producers and one consumer at a time. The values that were pushed before [Stream.End]
// or [Stream.Fail] come out first; then every read returns the end or that error. If a consumer stops early, the next
// one gets the rest. With a limit, [Stream.Push] refuses with [ErrFull] and [Stream.Send] waits for room, in the
// order of arrival.
//
// A context that is done stops a Stream's methods at once, even if values are waiting. Unread values can be read
// later.
//
// # Outbox
//
// An [Outbox] passes items to a sink, strictly in order. An item can be held back for a short time, until
// related information arrives; later items wait. [Outbox.Release] ends the hold by an id, and may come before
// the item.
//
// An item that the sink refuses is sent again, with growing waits. After the last try it is recorded as skipped, and
// the next item is sent: an item that is always refused does not block the others.
//
// Not promised: like a Queue, an Outbox is in memory. If a sink takes an item and returns an error, it gets the item
// again.
//
// # Use
//
// All methods of Queue, Stream and Outbox may be called concurrently. They start no goroutines, and need no Close to
// be freed.
package pipe
