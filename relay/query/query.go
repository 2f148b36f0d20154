package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/wire"
)

// query is a running query.
type query struct {
	client *Client
	in     Input
	yield  func(Event, error) bool

	id     string   // of the session
	run    *running // the agent; nil once it has ended
	result Result
	seen   map[string]bool // ids of yielded envelopes
	missed bool            // the conversation has more of this turn than the agent's events
	failed error           // the error of the first failed turn, which was already reported
	left   bool            // the loop was left: yield must not be called again
	cut    bool            // ctx has ended, or the loop was left
}

// errLeft ends a query whose loop was left.
var errLeft = errors.New("the loop was left")

// conclude yields the result of the query.
func (q *query) conclude(err error) {
	if q.left {
		return
	}
	q.result.Status = Completed
	if err != nil {
		q.result.Status, q.result.Failure = Failed, err.Error()
	}
	switch {
	case q.cut:
		q.result.Status = Interrupted
	case err != nil && !errors.Is(err, q.failed) && !q.emit(Event{Error: &Failure{Message: err.Error()}}):
		return
	}
	q.yield(Event{Result: &q.result}, err)
}

func (q *query) do(ctx context.Context, more iter.Seq[Message]) (err error) {
	if err := q.in.check(); err != nil {
		return err
	}
	config, err := q.in.config()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(q.client.closing, func() { cancel(ErrClosed) })()
	defer func() { q.cut = q.cut || err != nil && ctx.Err() != nil }()
	if q.client.closing.Err() != nil {
		return ErrClosed
	}
	q.id = cmp.Or(q.in.SessionID, uuid.NewString())
	s, r, err := q.client.acquire(ctx, q.id)
	if err != nil {
		return err
	}
	q.run = r
	returned := false
	defer func() {
		if q.in.SessionID == "" && q.result.Turns == 0 {
			q.result.SessionID = "" // the session has no messages, so it was not stored
		}
		switch {
		case q.run == nil:
		case !returned: // the loop's body has panicked, in the middle of a turn
			q.left = true
			err = errors.Join(err, q.end(agent.Grace{Term: grace.Term}))
		case q.result.SessionID != q.id: // the agent has begun another session, or none
			err = errors.Join(err, q.end(grace))
		}
		err = errors.Join(err, q.client.release(s, q.run))
	}()
	err = q.converse(ctx, config, more)
	returned = true
	return err
}

// converse sends the prompt and the messages to the agent. It starts an agent if it cannot reuse one.
func (q *query) converse(ctx context.Context, config string, more iter.Seq[Message]) (err error) {
	if q.run != nil {
		q.run.reused = true
		if q.run.config != config {
			if err := q.end(grace); err != nil {
				return err
			}
		}
	}
	if q.run == nil {
		if q.run, err = q.start(ctx, q.id, config); err != nil {
			return err
		}
	}
	q.result.SessionID = q.id
	if q.in.Prompt != "" {
		if err := q.next(ctx, q.in.Prompt); err != nil {
			return err
		}
	}
	if !q.in.StreamingInput || more == nil {
		return q.failed
	}
	messages := pull(ctx, more)
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return q.failed
			}
			if !utf8.ValidString(m.Text) {
				return invalid("text", "is not valid UTF-8")
			}
			if err := q.next(ctx, m.Text); err != nil {
				return err
			}
		case e, ok := <-q.run.events:
			if !ok {
				return q.died()
			}
			if !q.take(e) {
				return q.interrupt("")
			}
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), q.interrupt(""))
		}
	}
}

// pull sends the messages of a sequence, which may block, until ctx ends.
func pull(ctx context.Context, more iter.Seq[Message]) <-chan Message {
	messages := make(chan Message)
	go func() {
		defer close(messages)
		for m := range more {
			select {
			case messages <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	return messages
}

// next runs a turn. The session continues after a failed turn, and after a message that cannot be sent, but
// not after a prompt that cannot be sent.
func (q *query) next(ctx context.Context, text string) error {
	err := q.turn(ctx, text)
	unsent := errors.As(err, new(*InputError)) && (q.result.Turns > 0 || q.in.Prompt == "")
	if !unsent && !errors.As(err, new(*TurnError)) {
		return err
	}
	if q.failed == nil {
		q.failed = err
	}
	if !q.emit(Event{Error: &Failure{Message: err.Error()}}) {
		return q.interrupt("")
	}
	return nil
}

// turn sends a text to the agent, and follows its turn to the end.
func (q *query) turn(ctx context.Context, text string) error {
	id, began := uuid.NewString(), time.Now()
	line, err := q.run.runtime.Encode(id, text)
	if err != nil {
		return invalid("prompt", "cannot be sent: %w", err)
	}
	q.missed = false
	q.result.Turns++
	if err := q.send(ctx, line); err != nil {
		r := q.run
		if r == nil {
			return err
		}
		ended := q.end(agent.Grace{Term: grace.Term})
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), ended)
		}
		err = errors.Join(err, ended)
		return fmt.Errorf("query: %w", cmp.Or(r.agent.Wait(context.Background()), err)) // its exit error says more than the error of Send
	}
	begun := false
	for {
		select {
		case e, ok := <-q.run.events:
			if !ok {
				return q.died()
			}
			begun = begun || e.Start != nil
			over, err := q.progress(id, e)
			if !q.take(e) {
				if over {
					id = ""
				}
				return q.interrupt(id)
			}
			if over {
				return cmp.Or(q.readMissed(ctx, began), err)
			}
		case <-ctx.Done():
			if !begun { // an interrupt would have no effect
				return errors.Join(context.Cause(ctx), q.end(agent.Grace{Term: grace.Term}))
			}
			return errors.Join(context.Cause(ctx), q.interrupt(id))
		}
	}
}

// send sends a line to the agent. If the agent has ended since the last query, send starts it again; the
// line's id ensures that it runs once.
func (q *query) send(ctx context.Context, line []byte) error {
	err := q.run.agent.Send(ctx, line)
	if err == nil || !q.run.reused || ctx.Err() != nil {
		return err
	}
	config := q.run.config
	if err := q.end(agent.Grace{Term: grace.Term}); err != nil {
		return err
	}
	q.in.SessionID = q.id
	if q.run, err = q.start(ctx, q.id, config); err != nil {
		return err
	}
	return q.run.agent.Send(ctx, line)
}

// progress reports whether an event ends the turn of a message. err is the error of a failed turn.
func (q *query) progress(id string, e agent.Event) (over bool, err error) {
	for _, p := range e.Progress {
		if p.UUID != id || p.State.InFlight() {
			continue
		}
		r := agent.Result{}
		if p.Result != nil {
			r = *p.Result
		} else if e.Result != nil {
			r = *e.Result
		}
		q.result.Text = r.Text
		switch p.State {
		case agent.Failed:
			return true, &TurnError{Reason: cmp.Or(r.Text, r.Failure, "the agent gave no reason")}
		case agent.Cancelled:
			return true, &TurnError{Reason: "it was interrupted"}
		}
		return true, nil
	}
	return false, nil
}

// take yields the envelopes of an event. It reports whether to continue.
func (q *query) take(e agent.Event) bool {
	if e.Start != nil && e.Start.Session != "" {
		q.result.SessionID = e.Start.Session
	}
	q.missed = q.missed || e.Missed
	for _, envelope := range e.Envelopes {
		if !q.tell(envelope) {
			return false
		}
	}
	return true
}

func (q *query) tell(e wire.Envelope) bool {
	if q.seen[e.ID] {
		return true
	}
	q.seen[e.ID] = true
	if _, end := e.Event.(*wire.TurnEnd); end && e.Usage != nil {
		q.result.Usage = q.result.Usage.Add(e.Usage)
	}
	return q.emit(Event{Envelope: &e})
}

// emit yields an event. It reports whether to continue.
func (q *query) emit(e Event) bool {
	if !q.left && !q.yield(e, nil) {
		q.left, q.cut = true, true
	}
	return !q.left
}

// readMissed yields the parts of a turn that only the conversation has, such as lines that were too long to
// read.
func (q *query) readMissed(ctx context.Context, began time.Time) error {
	if !q.missed {
		return nil
	}
	for e, err := range q.run.runtime.Conversation(ctx, q.result.SessionID, began, false) {
		if err != nil {
			return fmt.Errorf("query: read the unreported part of the turn: %w", err)
		}
		if e.Time >= float64(began.UnixMilli()) && !q.tell(e) {
			return q.interrupt("")
		}
	}
	return nil
}

// interrupt stops the turn of a message, if id is not empty, and ends the agent. It returns errLeft if the
// loop was left, or the error of the end.
func (q *query) interrupt(id string) error {
	q.cut = true
	g := grace
	if id != "" && !q.stopTurn(id) {
		g.EOF = 0
	}
	if err := q.end(g); err != nil {
		return err
	}
	if q.left {
		return errLeft
	}
	return nil
}

// stopTurn interrupts the turn of a message, and reports whether it has ended.
func (q *query) stopTurn(id string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), interruptWait)
	defer cancel()
	refused := make(chan error, 1)
	go func() {
		// If the agent refuses the interrupt, stop waiting.
		if err := q.run.agent.Interrupt(ctx, id); err != nil {
			refused <- err
		}
	}()
	for {
		select {
		case e, ok := <-q.run.events:
			if !ok {
				return false
			}
			over, _ := q.progress(id, e) // ignore the error: the turn was interrupted
			q.take(e)
			if over {
				return true
			}
		case <-refused:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// end ends the agent, and yields its remaining output.
func (q *query) end(g agent.Grace) error {
	r := q.run
	q.run = nil
	return r.end(g, func(e agent.Event) { q.take(e) })
}

// died returns the error of an agent that has ended unexpectedly.
func (q *query) died() error {
	r := q.run
	q.run = nil
	err := fmt.Errorf("query: %w", ErrAgentEnded)
	if why := r.agent.Wait(context.Background()); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return errors.Join(err, r.done())
}
