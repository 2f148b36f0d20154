package pipe

import (
	"errors"
)

// What the methods of Queue, Stream and Outbox answer, for [errors.Is].
var (
	// ErrClosed says that the queue or the outbox was closed: to Push, and to
	// Next once nothing is left in it. Whoever gets it is done with it.
	ErrClosed = errors.New("closed")

	// ErrReset says to those who waited in Next that the queue was emptied
	// under them. It can be used as before; whether to wait again is for the
	// waiting to decide, who may belong to what the reset was meant to end.
	ErrReset = errors.New("queue was reset")

	// ErrFull says that the value was not taken, for want of room. It may be
	// pushed again when something was taken out.
	ErrFull = errors.New("full")

	// ErrEnded says that the value was not taken, because the stream has ended
	// or failed.
	ErrEnded = errors.New("stream has ended")

	// ErrBusy says that the stream is being read by another consumer, or that
	// the outbox is being run already.
	ErrBusy = errors.New("another consumer is active")
)
