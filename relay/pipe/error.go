package pipe

import "errors"

// Errors of the methods of Queue, Stream and Outbox, for [errors.Is].
var (
	// ErrClosed means that the queue or the outbox is closed. Next returns it once the queue is empty.
	ErrClosed = errors.New("closed")

	// ErrReset means that the queue was emptied while Next waited. It can be used as before.
	ErrReset = errors.New("queue was reset")

	// ErrFull means that there is no room for the value.
	ErrFull = errors.New("full")

	// ErrEnded means that the stream has ended or failed, so the value was not accepted.
	ErrEnded = errors.New("stream has ended")

	// ErrBusy means that another consumer is already reading the stream or running the outbox.
	ErrBusy = errors.New("another consumer is active")
)
