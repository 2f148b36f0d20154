package pipe

import "errors"

// What the methods of Queue, Stream and Outbox answer, for [errors.Is].
var (
	// ErrClosed says that the queue or the outbox was closed: to Push, and to
	// Next once nothing is left in it.
	ErrClosed = errors.New("closed")

	// ErrReset says to those who waited in Next that the queue was emptied. It
	// can be used as before.
	ErrReset = errors.New("queue was reset")

	// ErrFull says that the value was not taken, for want of room.
	ErrFull = errors.New("full")

	// ErrEnded says that the value was not taken: the stream has ended or failed.
	ErrEnded = errors.New("stream has ended")

	// ErrBusy says that the stream is being read, or the outbox run, already.
	ErrBusy = errors.New("another consumer is active")
)
