package stdio

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"teambridge/status/plain"
)

const (
	// How much may be unread. The longest line of an agent has 16 MiB, so a reader who keeps up gets every line whole.
	maxUnread = 32 << 20

	patience = 3 * time.Second

	// How many bytes are written at a time, and so how exactly it is known what was read.
	writeStep = 64 << 10
)

// Queue is a writer that never waits: one goroutine writes what is queued. Without it, an agent stands still, with the messages
// that wait for it, while somebody pages through its output or has stopped the terminal.
//
// When the queue is full, new writes are dropped until all of it is written. One notice takes their place, so that a slow
// reader misses one piece and not every other line.
type Queue struct {
	// To be set before the first write.
	MaxBytes int           // how much may be unread
	Patience time.Duration // how long Drain waits for the reader after its context has ended

	w      io.Writer
	notice func(Missing) []byte // its result is written in the place of dropped writes; it must not write to the queue
	failed func(error)          // called once, with the first error of w

	mu      sync.Mutex
	more    sync.Cond // something waits, or the queue has ended
	waits   []byte    // its beginning is being written
	missing Missing   // what was dropped behind it
	closed  bool      // no more writes are accepted
	over    bool      // nothing more is written: w has failed, or nobody reads it

	ended chan struct{} // closed when everything is written, or over
}

// Missing counts what was dropped, or not read.
type Missing struct {
	Lines int `json:"lines"`
	Bytes int `json:"bytes"`
}

func (m Missing) String() string {
	return fmt.Sprintf("%s (%s)", plain.Plural(m.Lines, "line"), plain.Plural(m.Bytes, "byte"))
}

func (m *Missing) add(data []byte) {
	m.Lines += bytes.Count(data, []byte("\n"))
	m.Bytes += len(data)
}

// NewQueue returns a queue in front of w and starts its goroutine, which calls notice
// and failed, and which [Queue.Drain] ends.
func NewQueue(w io.Writer, notice func(Missing) []byte, failed func(error)) *Queue {
	q := &Queue{w: w, notice: notice, failed: failed, MaxBytes: maxUnread, Patience: patience, ended: make(chan struct{})}
	q.more.L = &q.mu
	go q.run()
	return q
}

// Write queues b, or drops it. It never fails, since w has not been written to yet.
func (q *Queue) Write(b []byte) (int, error) {
	q.Offer(b)
	return len(b), nil
}

// Offer queues b, and reports whether it did. A single write is never too large.
func (q *Queue) Offer(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed || q.over:
		return false
	case q.missing != (Missing{}), len(q.waits) > 0 && len(q.waits)+len(b) > q.MaxBytes:
		q.missing.add(b)
		return false
	}
	q.waits = append(q.waits, b...)
	q.more.Signal()
	return true
}

// run writes what is queued.
func (q *Queue) run() {
	defer close(q.ended)
	for data := q.next(); data != nil; data = q.next() {
		_, err := q.w.Write(data)
		q.mu.Lock()
		if err != nil {
			q.over = true
		} else if !q.over {
			q.waits = q.waits[len(data):]
		}
		q.mu.Unlock()
		if err != nil {
			q.failed(err)
		}
	}
}

// next waits for something to write, and returns it without removing it; nil if nothing more comes.
func (q *Queue) next() []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.over {
		switch {
		case len(q.waits) > 0:
			return q.waits[:min(len(q.waits), writeStep)]
		case q.missing != (Missing{}):
			q.waits, q.missing = q.notice(q.missing), Missing{}
		case q.closed:
			return nil
		default:
			q.more.Wait()
		}
	}
	return nil
}

// Drain stops accepting writes, waits until the queue is written, and returns what was not.
// Until ctx ends it waits without a limit, then for Patience.
func (q *Queue) Drain(ctx context.Context) (lost Missing) {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
		return Missing{}
	case <-ctx.Done():
	}
	select {
	case <-q.ended:
		return Missing{}
	case <-time.After(q.Patience):
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	lost, q.over = q.missing, true
	lost.add(q.waits)
	return lost
}
