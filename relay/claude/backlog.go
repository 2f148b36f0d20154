package claude

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"teambridge/relay/agent"
	"teambridge/relay/pipe"
)

// backlog holds unread events, so that the reader of stdout never waits for the consumer. Over its limit it
// first leaves out bulky events, then fails.
type backlog struct {
	limit  int64
	events pipe.Stream[kept]

	mu    sync.Mutex
	bytes int64 // size of all events
	gap   Gap   // not reported yet
}

type kept struct {
	event agent.Event
	bytes int64
}

// perEvent is roughly the memory of an event besides its line.
const perEvent = 300

// add keeps an event, or counts it in a gap. An error means that there is no room even for that.
func (b *backlog) add(e agent.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := int64(len(e.Line)) + perEvent
	if b.bytes+size > b.limit {
		switch p := e.Payload.(type) {
		case Assistant, Other, Skipped:
			b.gap.Events++
			b.gap.Bytes += int64(len(e.Line))
			return nil
		case Result:
			size = int64(len(p.Text)) + perEvent
		case ControlRequest:
			size = int64(len(p.Body)) + perEvent
		case ControlResponse:
			size = int64(len(p.Body)) + perEvent
		default:
			size = perEvent
		}
		e.Line, e.Missed = nil, true
		if b.bytes+size > 2*b.limit {
			return fmt.Errorf("claude: %d bytes of output were not read: %w", b.bytes, ErrOverrun)
		}
	}
	b.report(e)
	b.push(e, size)
	return nil
}

// last appends an event that belongs to no line.
func (b *backlog) last(e agent.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report(e)
	b.push(e, perEvent)
}

// end lets the consumer stop after the last event.
func (b *backlog) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.report(agent.Event{})
	b.events.End()
}

// report inserts the pending gap before the event that follows it.
func (b *backlog) report(e agent.Event) {
	if b.gap.Events > 0 {
		b.push(agent.Event{At: e.At, Payload: b.gap, Missed: true}, perEvent)
		b.gap = Gap{}
	}
}

func (b *backlog) push(e agent.Event, size int64) {
	b.bytes += size
	_ = b.events.Push(kept{e, size}) // no limit, and not ended before end
}

func (b *backlog) all(ctx context.Context) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for k, err := range b.events.All(ctx) {
			b.mu.Lock()
			b.bytes -= k.bytes
			b.mu.Unlock()
			if !yield(k.event, err) {
				return
			}
		}
	}
}
