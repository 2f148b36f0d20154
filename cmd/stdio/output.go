// Package stdio is standard input and output as a command uses them: lines of bounded length come
// in, and what goes out waits for no reader, fits a terminal, and tells when nobody reads it.
package stdio

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
)

// Output is standard output. It remembers the first error of writing to it, and that its reader has gone away.
type Output struct {
	W io.Writer

	mu   sync.Mutex
	err  error
	gone bool // the reader went away, which was seen without writing
}

// Write writes to o.W.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.W.Write(b)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = cmp.Or(o.err, err)
	return n, err
}

// Err returns the first error. It may be called while a Write is stuck.
func (o *Output) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Unread reports whether the reader has gone away.
func (o *Output) Unread() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone || closedPipe(o.err)
}

// errUnread ends a command that waits for something to print that nobody would read.
var errUnread = errors.New("nobody reads the output any more")

// WhileRead returns a context that ends when the reader goes away, which hangUp waits for, as
// [HangUp] does; nil: it is not known. Call stop at the end.
func (o *Output) WhileRead(ctx context.Context, hangUp func(context.Context) bool) (reading context.Context, stop func()) {
	reading, cancel := context.WithCancelCause(ctx)
	if hangUp == nil {
		return reading, func() { cancel(nil) }
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if hangUp(reading) {
			o.mu.Lock()
			o.gone = true
			o.mu.Unlock()
			cancel(errUnread)
		}
	}()
	return reading, func() {
		cancel(nil)
		<-done
	}
}

// BecauseUnread reports whether err means only that the reader went away.
func (o *Output) BecauseUnread(err error) bool {
	if !o.Unread() {
		return false
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(err error) bool { return !o.BecauseUnread(err) })
	}
	if inner := errors.Unwrap(err); inner != nil {
		return o.BecauseUnread(inner)
	}
	// The error of the write, or of what the end of WhileRead interrupted.
	return closedPipe(err) && errors.Is(o.Err(), err) || errors.Is(err, errUnread) || errors.Is(err, context.Canceled)
}
