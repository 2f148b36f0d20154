package opencode

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/process"
)

// flight is a message that was sent and has not ended.
type flight struct {
	uuid        string
	line        json.RawMessage
	at          time.Time // when it was last sent
	promoted    bool
	interrupted bool
}

// Events yields the agent's events, in order, until the agent has ended. It continues where the last loop
// stopped. Only one loop may run at a time.
func (a *Agent) Events(ctx context.Context) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		tell := func() bool {
			for e, ok := a.next(); ok; e, ok = a.next() {
				if !yield(e, nil) {
					return false
				}
			}
			return true
		}
		a.reading.Lock()
		defer a.reading.Unlock()
		following, stop := context.WithCancel(ctx)
		records := make(chan record)
		var helpers sync.WaitGroup
		helpers.Go(func() { a.stream(following, records) })
		helpers.Go(func() { a.watchPermissions(following) })
		defer helpers.Wait()
		defer stop()
		tick := time.NewTimer(pollActive)
		defer tick.Stop()
		wait := pollActive
		for tell() {
			ending := false
			select {
			case r := <-records:
				ending = a.take(r)
			case <-a.wake:
				ending = true
			case <-tick.C:
				wait = min(2*wait, pollActive)
				if err := a.check(ctx); err != nil {
					wait = pollRetry
				}
				tick.Reset(wait)
			case <-a.life.Done():
				a.cut()
				tell()
				return
			case <-ctx.Done():
				yield(agent.Event{}, context.Cause(ctx))
				return
			}
			if ending {
				wait = pollEnding
				tick.Reset(wait)
			}
		}
	}
}

// cut reports that the conversation may have more of the running turn than was reported, because the server's
// last events may not have arrived.
func (a *Agent) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.adapter.turn != "" {
		a.adapter.turn = ""
		a.pending = append(a.pending, agent.Event{At: time.Now().UTC(), Missed: true})
	}
}

// next removes and returns the next pending event.
func (a *Agent) next() (agent.Event, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) == 0 {
		return agent.Event{}, false
	}
	e := a.pending[0]
	a.pending = a.pending[1:]
	return e, true
}

// stream passes on the server's events, and reconnects if necessary.
func (a *Agent) stream(ctx context.Context, records chan<- record) {
	a.mu.Lock()
	after := a.seen
	a.mu.Unlock()
	for ctx.Err() == nil {
		for r, err := range a.follow(ctx, a.id, after) {
			if err != nil {
				break
			}
			after = max(after, r.Seq)
			select {
			case records <- r:
			case <-ctx.Done():
				return
			}
		}
		if pause(ctx, a.server.gone()) != nil {
			return
		}
	}
}

// take processes an event. ending reports whether the event may end the turn.
func (a *Agent) take(r record) (ending bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Seq <= a.seen {
		return false
	}
	a.seen = r.Seq
	e := agent.Event{At: time.Now().UTC(), Line: r.raw, Payload: r.Event, Missed: r.missed, Envelopes: a.adapter.event(r.Event)}
	if p, ok := r.Data.(*Prompted); ok {
		a.finish(&e) // a message is promoted only after the end of the one before it
		a.turn = turn{}
		uuid, _ := UUID(p.MessageID)
		for _, f := range a.flights {
			if f.uuid == uuid {
				f.promoted = true
				e.Progress = append(e.Progress, agent.Progress{UUID: uuid, State: agent.Accepted})
			}
		}
		e.Start = &agent.Start{Session: a.session}
	}
	a.turn.add(r)
	a.pending = append(a.pending, e)
	return a.turn.over()
}

// finish ends the message of the running turn, if any. The caller holds a.mu.
func (a *Agent) finish(e *agent.Event) {
	f := a.running()
	if f == nil {
		return
	}
	p := agent.Progress{UUID: f.uuid}
	result := agent.Result{Text: a.turn.text}
	switch {
	case a.turn.failure == "" && a.turn.over():
		p.State = agent.Done
	case f.interrupted:
		p.State, result.Failure = agent.Cancelled, "interrupted"
	case a.turn.failure != "":
		p.State, result.Failure = agent.Failed, a.turn.failure
	default:
		p.State, result.Failure = agent.Failed, "OpenCode ended the turn without an answer"
	}
	p.Result = &result
	e.Result = &result
	e.Progress = append(e.Progress, p)
	a.flights = slices.DeleteFunc(a.flights, func(o *flight) bool { return o == f })
	a.turn = turn{}
	a.settle()
}

// running returns the message of the running turn, or nil. The caller holds a.mu.
func (a *Agent) running() *flight {
	for _, f := range a.flights {
		if f.promoted {
			return f
		}
	}
	return nil
}

// check asks the server whether the running turn has ended, because no event reports that. It ends a server
// that has not answered for too long.
func (a *Agent) check(ctx context.Context) error {
	a.mu.Lock()
	running := a.running()
	var unpromoted *flight
	if running == nil && len(a.flights) > 0 && time.Since(a.flights[0].at) > pollActive {
		unpromoted = a.flights[0]
	}
	over := a.turn.over()
	a.mu.Unlock()
	if running == nil && unpromoted == nil {
		return nil
	}
	active, err := a.active(ctx, a.id)
	if err == nil && !active && running != nil && !over && !running.interrupted {
		// The turn may be between two steps.
		if pause(ctx, a.server.gone()) != nil {
			return nil
		}
		active, err = a.active(ctx, a.id)
	}
	if err != nil {
		return a.unheard(ctx, err)
	}
	a.mu.Lock()
	a.heard = time.Now()
	head := a.seen
	a.mu.Unlock()
	if active {
		return nil
	}
	for r, err := range a.history(ctx, a.id, head) {
		if err != nil {
			return a.unheard(ctx, err)
		}
		a.take(r)
	}
	a.mu.Lock()
	if running != nil && a.running() == running && !a.killed {
		e := agent.Event{At: time.Now().UTC()}
		e.Envelopes = a.adapter.end(e.At)
		a.finish(&e)
		a.pending = append(a.pending, e)
	}
	again := unpromoted != nil && !unpromoted.promoted
	if again {
		unpromoted.at = time.Now()
	}
	a.mu.Unlock()
	if again {
		// The server may have been about to go idle when the message arrived. Sending it again wakes the
		// server.
		_, err = a.prompt(ctx, a.id, unpromoted.line)
	}
	return err
}

// unheard kills a server that has not answered for too long. It returns err.
func (a *Agent) unheard(ctx context.Context, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.server != nil && ctx.Err() == nil && time.Since(a.heard) > deaf {
		a.server.child.Signal(process.KillGroup)
	}
	return err
}
