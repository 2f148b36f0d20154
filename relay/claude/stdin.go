package claude

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"teambridge/relay/pipe"
)

// stdin writes whole lines, one at a time, from one goroutine.
type stdin struct {
	file    *os.File
	timeout time.Duration
	kill    func() // ends the process if a write cannot have a deadline
	lines   *pipe.Stream[*line]
	gone    atomic.Bool // the process is gone: nothing more is written
}

// line is a queued line.
type line struct {
	uuid string // of its frame
	data []byte // without the newline
	// before is called right before the first byte is written; if it fails, the line is not written.
	// unwritten is called if nothing was written after all. Both may be nil.
	before    func() error
	unwritten func()
	done      chan error  // gets one value
	claimed   atomic.Bool // by the writer, or by a sender that cancels it
}

// send queues a line and waits until it is written. The end of ctx cancels a line that the writer has not
// begun; the write itself has its own deadline.
func (s *stdin) send(ctx context.Context, l *line) error {
	l.done = make(chan error, 1)
	if err := s.lines.Send(ctx, l); err != nil {
		return closed(err)
	}
	select {
	case err := <-l.done:
		return err
	case <-ctx.Done():
	}
	if l.claim() {
		return fmt.Errorf("claude: write: nothing was written: %w", context.Cause(ctx))
	}
	return <-l.done
}

// post queues a line without waiting. It fails with pipe.ErrFull if too many wait.
func (s *stdin) post(data []byte) error {
	return closed(s.lines.Push(&line{data: data, done: make(chan error, 1)}))
}

// closed converts the stream's end error for callers.
func closed(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUnusable), errors.Is(err, ErrEnded):
		return err
	case errors.Is(err, pipe.ErrEnded):
		return fmt.Errorf("claude: write: stdin was closed: %w", ErrEnded)
	}
	return fmt.Errorf("claude: write: %w", err)
}

// run writes until the stream ends, and closes the file.
func (s *stdin) run() {
	defer s.file.Close()
	var broken error
	for l := range s.lines.All(context.Background()) {
		if l == nil {
			continue // the stream's failure, as its last value
		}
		if broken != nil {
			l.done <- broken
			continue
		}
		err := s.write(l)
		var torn *WriteError
		if errors.As(err, &torn) && torn.Torn() {
			broken = fmt.Errorf("claude: write: %w", ErrUnusable)
			s.lines.Fail(broken)
		}
		l.done <- err
	}
}

func (s *stdin) write(l *line) error {
	if !l.claim() {
		return nil // the sender has cancelled it
	}
	if s.gone.Load() {
		return fmt.Errorf("claude: write: %w", ErrEnded)
	}
	if l.before != nil {
		if err := l.before(); err != nil {
			return err
		}
	}
	switch err := s.file.SetWriteDeadline(time.Now().Add(s.timeout)); {
	case errors.Is(err, os.ErrNoDeadline):
		timer := time.AfterFunc(s.timeout, s.kill)
		defer timer.Stop()
	case err != nil:
		return s.failed(l, 0, err)
	}
	if s.gone.Load() { // abandon may have set its deadline before this one
		return s.failed(l, 0, ErrEnded)
	}
	// One write of the whole line: a pipe takes up to 4 KiB all or nothing.
	n, err := s.file.Write(append(l.data[:len(l.data):len(l.data)], '\n'))
	if err != nil {
		return s.failed(l, n, err)
	}
	return nil
}

func (s *stdin) failed(l *line, n int, err error) error {
	if n == 0 && l.unwritten != nil {
		l.unwritten()
	}
	return &WriteError{UUID: l.uuid, Written: n, Size: len(l.data) + 1, Err: err}
}

// close accepts no more lines. Queued lines are still written; then the process sees the end of its stdin.
func (s *stdin) close() { s.lines.End() }

// abandon is close for a process that is gone: queued lines are not written.
func (s *stdin) abandon() {
	s.gone.Store(true)
	s.lines.Fail(fmt.Errorf("claude: write: %w", ErrEnded))
	// Another process may hold the other end without reading.
	_ = s.file.SetWriteDeadline(time.Now())
}

// claim reports whether the caller owns the line: the writer to write it, or the sender to cancel it.
func (l *line) claim() bool { return l.claimed.CompareAndSwap(false, true) }
