package pipe

import (
	"errors"
	"fmt"
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

// CallbackError says that [Options.OnMessage] failed. The value is in the
// queue: it must not be pushed again.
type CallbackError struct {
	Err   error  // what OnMessage returned, or what it panicked with
	Stack []byte // where it panicked; nil if it returned
}

func (e *CallbackError) Error() string {
	return fmt.Sprintf("pipe: push: the value is queued, but OnMessage failed: %v", e.Err)
}

func (e *CallbackError) Unwrap() error { return e.Err }

// ModeError says what is wrong with the JSON form of a [Mode].
type ModeError struct {
	Key string // the key it is about; "" where the JSON as a whole is wrong
	Err error
}

func (e *ModeError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("pipe: mode: %v", e.Err)
	}
	// The key is anybody's text, of any length.
	return fmt.Sprintf("pipe: mode: %.64q: %v", e.Key, e.Err)
}

func (e *ModeError) Unwrap() error { return e.Err }
