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
	// Bounds of unread output. The longest line of an agent has 16 MiB, so a reader who
	// keeps up gets every line whole.
	maxQueuedBytes  = 32 << 20
	maxQueuedWrites = 100_000

	// How long Drain waits for the reader after its context has ended.
	drainStall = 2 * time.Second  // without any progress
	drainTotal = 10 * time.Second // in all

	// How many bytes are written at a time. Small writes show that a slow reader reads.
	writeStep = 4 << 10
)

// Queue is a writer that never waits: one goroutine writes what is queued, so that a
// relay goes on while somebody pages through its output.
//
// When the queue is full, new writes are dropped until half of it has been written. One
// notice takes their place, so that a slow reader misses one piece and not every other
// line.
type Queue struct {
	MaxBytes int // how much may be unread; to be set before the first write

	w        io.Writer
	notice   func(Missing) []byte // its result is written in the place of dropped writes
	failed   func(error)          // called once, with the first error of w
	maxItems int

	mu     sync.Mutex
	more   sync.Cond // an item was added, or closed set
	items  []queued  // the first is being written
	bytes  int
	full   bool
	closed bool // no more writes are accepted
	over   bool // nothing more is written: w has failed, or nobody reads it

	moved chan struct{} // w has taken something
	ended chan struct{} // closed when everything is written, or over
}

// queued is one write, or the place of those that were dropped.
type queued struct {
	data    []byte
	missing Missing
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
	q := &Queue{
		w: w, notice: notice, failed: failed, MaxBytes: maxQueuedBytes, maxItems: maxQueuedWrites,
		moved: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	q.more.L = &q.mu
	go q.run()
	return q
}

// Write queues b, or drops it. It never fails, since w has not been written to yet.
func (q *Queue) Write(b []byte) (int, error) {
	q.Offer(b, false)
	return len(b), nil
}

// Offer queues b, and reports whether it did. Urgent writes have twice the room.
func (q *Queue) Offer(b []byte, urgent bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.over {
		return false
	}
	if len(b) == 0 {
		return true
	}
	if q.bytes == 0 {
		q.full = false
	} else if q.bytes+len(b) > q.MaxBytes || len(q.items) >= q.maxItems {
		q.full = true
	}
	fits := !q.full || urgent && q.bytes+len(b) <= 2*q.MaxBytes && len(q.items) < 2*q.maxItems
	if fits {
		q.items = append(q.items, queued{data: bytes.Clone(b)})
		q.bytes += len(b)
	} else {
		// Data is queued before it, so the last item is not being written.
		if last := len(q.items) - 1; q.items[last].data != nil {
			q.items = append(q.items, queued{})
		}
		q.items[len(q.items)-1].missing.add(b)
	}
	q.more.Signal()
	return fits
}

// run writes what is queued, one item at a time.
func (q *Queue) run() {
	defer close(q.ended)
	for item, ok := q.first(); ok; item, ok = q.first() {
		data := item.data
		if item.missing != (Missing{}) {
			data = q.notice(item.missing)
		}
		for len(data) > 0 {
			n, err := q.w.Write(data[:min(len(data), writeStep)])
			if err != nil {
				q.abandon()
				q.failed(err)
				return
			}
			data = data[n:]
			select {
			case q.moved <- struct{}{}:
			default:
			}
		}
		q.done()
	}
}

// first waits for an item and returns it without removing it; false if nothing is left to
// write.
func (q *Queue) first() (queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed && !q.over {
		q.more.Wait()
	}
	if len(q.items) == 0 || q.over {
		return queued{}, false
	}
	return q.items[0], true
}

func (q *Queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.bytes -= len(q.items[0].data)
	q.items[0] = queued{}
	q.items = q.items[1:]
	if q.bytes <= q.MaxBytes/2 && len(q.items) <= q.maxItems/2 {
		q.full = false
	}
}

// abandon empties the queue for good, and returns what was in it.
func (q *Queue) abandon() Missing {
	q.mu.Lock()
	defer q.mu.Unlock()
	var lost Missing
	for _, item := range q.items {
		lost.add(item.data)
		lost.Lines += item.missing.Lines
		lost.Bytes += item.missing.Bytes
	}
	q.items, q.over = nil, true
	q.more.Signal()
	return lost
}

// Drain stops accepting writes, waits until the queue is written, and returns what was not.
// Until ctx ends it waits without a limit, then for drainStall without progress and
// drainTotal in all.
func (q *Queue) Drain(ctx context.Context) Missing {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
		return Missing{}
	case <-ctx.Done():
	}
	total, stall := time.NewTimer(drainTotal), time.NewTimer(drainStall)
	defer total.Stop()
	defer stall.Stop()
	for {
		select {
		case <-q.ended:
			return Missing{}
		case <-q.moved:
			stall.Reset(drainStall)
		case <-stall.C:
			return q.abandon()
		case <-total.C:
			return q.abandon()
		}
	}
}
