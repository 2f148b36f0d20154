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

// stdin writes lines, one at a time and whole, from one goroutine.
type stdin struct {
	file    *os.File
	timeout time.Duration
	kill    func() // ends the process where a write cannot be given a deadline
	lines   *pipe.Stream[*line]
	gone    atomic.Bool // the process is: nothing is written any more
}

// line is one that waits to be written.
type line struct {
	uuid string // of a frame
	data []byte // without the newline
	// before is called right before the first byte is written; an error leaves the line unwritten. unwritten takes it
	// back if not a byte went in. Both may be nil.
	before    func() error
	unwritten func()
	done      chan error  // gets one value
	claimed   atomic.Bool // by the writer, or by the sender that takes it back
}

func newStdin(file *os.File, timeout time.Duration, kill func()) *stdin {
	return &stdin{file: file, timeout: timeout, kill: kill, lines: pipe.NewStream[*line](waiting)}
}

// send hands a line to the writer and waits until it was written. A context that ends before the writer has begun with
// it takes it back; one that ends later changes nothing: the write has a deadline of its own.
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

// post hands a line to the writer without waiting. There can be too many: pipe.ErrFull.
func (s *stdin) post(data []byte) error {
	return closed(s.lines.Push(&line{data: data, done: make(chan error, 1)}))
}

// closed says for the end of the stream what it means here.
func closed(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUnusable), errors.Is(err, ErrEnded):
		return err
	case errors.Is(err, pipe.ErrEnded):
		return fmt.Errorf("claude: write: stdin was closed: %w", ErrEnded)
	}
	return fmt.Errorf("claude: write: %w", err)
}

// run writes until the stream has ended, and closes the file.
func (s *stdin) run() {
	defer s.file.Close()
	var broken error
	for l := range s.lines.All(context.Background()) {
		if l == nil {
			continue // the end by Fail, as a value
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
		return nil // nobody waits for it
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
	if s.gone.Load() { // behind the setting of the deadline, which abandon's may not come before
		return s.failed(l, 0, ErrEnded)
	}
	// One write of the whole line: a pipe takes up to 4 KiB of it all or not at all.
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

// close lets no more lines in. What waits is still written, then the process sees the end of its stdin.
func (s *stdin) close() { s.lines.End() }

// abandon is close for a process that is gone: what waits is not written.
func (s *stdin) abandon() {
	s.gone.Store(true)
	s.lines.Fail(fmt.Errorf("claude: write: %w", ErrEnded))
	// Somebody else may hold the other end, and not read.
	_ = s.file.SetWriteDeadline(time.Now())
}

// claim reports whether the line is the caller's: the writer's to write, or the sender's to take back.
func (l *line) claim() bool { return l.claimed.CompareAndSwap(false, true) }
