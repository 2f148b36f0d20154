package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// Bounds of what run keeps of an output that nobody reads. The longest line that is
// taken from an agent has 16 MiB, so that a reader who keeps up gets every line whole.
const (
	maxQueuedBytes  = 32 << 20
	maxQueuedWrites = 100_000
)

// How long run waits for the reader of its output once it was told to end.
const (
	drainStall = 2 * time.Second  // without any progress
	drainTotal = 10 * time.Second // in all
)

// writeStep is how much is written at a time, so that a reader who is slow can be told
// from one who does not read.
const writeStep = 4 << 10

// writeQueue is a writer that never waits: what is written to it is queued, and one
// goroutine writes it to the real one. A relay must not stop because somebody pages
// through its output.
//
// When the queue is full, what is new is left out, until the reader has taken half of
// what waits; then one notice tells how much is missing, in the place where it would
// have been. So what was accepted stays in order and without holes, and a reader who
// pauses misses one piece and not every other line.
type writeQueue struct {
	w        io.Writer
	notice   func(missing) []byte // called in the place of what is missing; the result is written
	failed   func(error)          // called once, with the first error of w
	maxBytes int
	maxItems int

	mu     sync.Mutex
	more   sync.Cond // an item was added, or closed set
	items  []queued  // the first is being written
	bytes  int
	full   bool
	closed bool // no more writes are accepted
	over   bool // nothing is written any more: w has failed, or nobody reads it

	moved chan struct{} // w has taken something
	ended chan struct{} // closed when everything is written, or over
}

// queued is one write, or the place of those that were left out.
type queued struct {
	data    []byte
	missing missing
}

// missing counts what was left out, or not read.
type missing struct {
	Lines int `json:"lines"`
	Bytes int `json:"bytes"`
}

// String is "3 lines (270003 bytes)".
func (m missing) String() string {
	return fmt.Sprintf("%s (%s)", plural(m.Lines, "line"), plural(m.Bytes, "byte"))
}

func (m *missing) add(data []byte) {
	m.Lines += bytes.Count(data, []byte("\n"))
	m.Bytes += len(data)
}

// newWriteQueue returns a queue in front of w and starts its goroutine, which
// [writeQueue.drain] ends. notice and failed are called by that goroutine.
func newWriteQueue(w io.Writer, notice func(missing) []byte, failed func(error)) *writeQueue {
	q := &writeQueue{
		w: w, notice: notice, failed: failed, maxBytes: maxQueuedBytes, maxItems: maxQueuedWrites,
		moved: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	q.more.L = &q.mu
	go q.run()
	return q
}

// Write queues b, or leaves it out. It never fails: whether the real writer does is not
// known yet.
func (q *writeQueue) Write(b []byte) (int, error) {
	q.offer(b, false)
	return len(b), nil
}

// offer queues b, and reports whether it did. What is urgent has as much room again.
func (q *writeQueue) offer(b []byte, urgent bool) bool {
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
	} else if q.bytes+len(b) > q.maxBytes || len(q.items) >= q.maxItems {
		q.full = true
	}
	fits := !q.full || urgent && q.bytes+len(b) <= 2*q.maxBytes && len(q.items) < 2*q.maxItems
	if fits {
		q.items = append(q.items, queued{data: bytes.Clone(b)})
		q.bytes += len(b)
	} else {
		// Data that waits is in front of it, so the last item is not being written.
		if last := len(q.items) - 1; q.items[last].data != nil {
			q.items = append(q.items, queued{})
		}
		q.items[len(q.items)-1].missing.add(b)
	}
	q.more.Signal()
	return fits
}

// run writes what is queued, one item at a time.
func (q *writeQueue) run() {
	defer close(q.ended)
	for {
		item, ok := q.first()
		if !ok {
			return
		}
		data := item.data
		if item.missing != (missing{}) {
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

// first waits for an item, and returns the first, which stays in the queue. It returns
// false when there is nothing more to write.
func (q *writeQueue) first() (queued, bool) {
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

// done takes the first item out of the queue.
func (q *writeQueue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over {
		return
	}
	q.bytes -= len(q.items[0].data)
	q.items[0] = queued{}
	q.items = q.items[1:]
	if q.bytes <= q.maxBytes/2 && len(q.items) <= q.maxItems/2 {
		q.full = false
	}
}

// abandon empties the queue for good, and returns what was in it.
func (q *writeQueue) abandon() missing {
	q.mu.Lock()
	defer q.mu.Unlock()
	var lost missing
	for _, item := range q.items {
		lost.add(item.data)
		lost.Lines += item.missing.Lines
		lost.Bytes += item.missing.Bytes
	}
	q.items, q.over = nil, true
	q.more.Signal()
	return lost
}

// drain accepts no more writes, waits until what is queued is written, and returns what
// was not. While ctx lasts it waits for as long as the reader takes, as every program
// does that writes to a pipe. After that it gives up when nothing was read for 2 s, and
// after 10 s in all.
func (q *writeQueue) drain(ctx context.Context) missing {
	q.mu.Lock()
	q.closed = true
	q.more.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
		return missing{}
	case <-ctx.Done():
	}
	total, stall := time.NewTimer(drainTotal), time.NewTimer(drainStall)
	defer total.Stop()
	defer stall.Stop()
	for {
		select {
		case <-q.ended:
			return missing{}
		case <-q.moved:
			stall.Reset(drainStall)
		case <-stall.C:
			return q.abandon()
		case <-total.C:
			return q.abandon()
		}
	}
}

// queueErrors puts a queue in front of stderr, for a command whose work must not wait for
// whoever reads that.
func (a *app) queueErrors() *writeQueue {
	q := newWriteQueue(a.stderr, func(m missing) []byte {
		return a.warning(fmt.Sprintf("%s were dropped here, since nobody read them", m))
	}, func(error) {}) // there is nowhere to tell it
	a.stderr = q
	a.drain = func(ctx context.Context) { q.drain(ctx) }
	return q
}
