package history

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/view"
)

// EventQuery selects events.
type EventQuery struct {
	Team  string // the name of a team; empty: all teams
	Agent string // only events of this agent of the team; empty: all events
	After string // begin after this event id, or this number of the journal; empty: now
	IsID  bool   // After must be an event id; a bare number is from an earlier version
}

// Check returns [api.CodeUsage] if After is invalid.
func (q *EventQuery) Check() error {
	if _, ok := parsePosition(q.After); !ok {
		return api.Decide(api.CodeUsage, seeDocument, "after=%.40q is neither a number nor the id of an event", q.After)
	}
	return nil
}

// A Stream yields events. Make one with [Archive.Stream], and run it once.
type Stream struct {
	l       *Archive
	q       EventQuery
	rec     *Recorder
	shown   <-chan struct{} // signals that a snapshot would differ; nil: no signal
	done    func()
	root    string
	at      journal.Position         // of the last change, sent or skipped
	known   bool                     // this journal has the start position
	shot    []byte                   // the last snapshot
	asked   map[string]api.Attention // the questions in shot, by id
	sink    Sink
	checked time.Time // when the state was last read
}

// Sink receives the events of a [Stream].
type Sink struct {
	Event func(api.Event) error
	Flush func() error // called before the stream waits; may be nil
	Alive func() error // called after each Heartbeat without an event; may be nil

	Heartbeat time.Duration
}

// Stream returns a stream of events from now on. In a command, it records the inboxes until it has run. The
// errors are [api.CodeUsage] for a bad After, and the errors of [Archive.Record].
func (l *Archive) Stream(ctx context.Context, q EventQuery) (*Stream, error) {
	at, _ := parsePosition(q.After)
	if err := q.Check(); err != nil {
		return nil, err
	}
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	// Recording starts before anything is read, so no later change is missed.
	rec, err := l.Record(ctx, q.Team)
	if err != nil {
		return nil, err
	}
	s := &Stream{l: l, q: q, rec: rec, root: root.Path()}
	s.shown, s.done = l.rec.Shown()
	if s.at, s.known, err = locate(ctx, rec.journal, at, rec.after, q.IsID); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.known {
		rec.after = s.at.Seq
	}
	return s, nil
}

// Events yields events; see [api.Bridge].
func (l *Archive) Events(ctx context.Context, team, after string) iter.Seq2[api.Event, error] {
	return func(yield func(api.Event, error) bool) {
		s, err := l.Stream(ctx, EventQuery{Team: team, After: after})
		if err == nil {
			err = s.Run(ctx, Sink{Event: func(e api.Event) error {
				if !yield(e, nil) {
					return errEnough
				}
				return nil
			}})
		}
		if err != nil && !errors.Is(err, errEnough) && ctx.Err() == nil {
			yield(api.Event{}, err)
		}
	}
}

const seeDocument = "see GET /openapi.json"

// now is the number that stands for the end of the journal in a position without an epoch.
const now = -1

// parsePosition parses the start of a stream: the id of an event, a number of the journal, or, if s is empty, now.
func parsePosition(s string) (at journal.Position, ok bool) {
	if s == "" {
		return journal.Position{Seq: now}, true
	}
	if at, ok := journal.ParsePosition(s); ok {
		return at, true
	}
	n, err := strconv.ParseUint(s, 10, 63)
	return journal.Position{Seq: int64(n)}, err == nil
}

// locate finds a position in a journal. now means after the number end. known is false if the position is from
// another history than the journal's. With id, a number without an epoch is not accepted, because it is from an
// earlier version.
func locate(ctx context.Context, j *journal.Journal, at journal.Position, end int64, id bool) (found journal.Position, known bool, err error) {
	last, err := j.Last(ctx)
	switch {
	case err != nil:
		return at, false, err
	case at.Epoch != "":
		known, err := j.Knows(ctx, at)
		return at, known, err
	case at.Seq == now:
		at.Seq = end
	case id, at.Seq > last:
		return at, false, nil
	}
	at, err = j.PositionAt(ctx, at.Seq)
	return at, true, err
}

func (s *Stream) close() error {
	s.done()
	return s.rec.Close()
}

// Run sends events to the sink until ctx ends or the sink fails: first a snapshot, unless the stream is limited
// to one agent, and then changes.
func (s *Stream) Run(ctx context.Context, sink Sink) (err error) {
	end := s.l.Attend(ctx, s.q.Team)
	defer func() { err = errors.Join(err, end(), s.close()) }()
	s.sink = sink
	if !s.known {
		if err := s.reset(ctx); err != nil {
			return err
		}
	}
	if err := s.snapshot(ctx); err != nil {
		return err
	}
	beat := sink.Heartbeat
	if beat == 0 {
		beat = Recheck
	}
	alive := time.NewTicker(beat)
	defer alive.Stop()
	for {
		more, err := s.catchUp(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if s.shown == nil { // nothing signals a changed state, so check it
			if err := s.snapshot(ctx); err != nil {
				return err
			}
		}
		if sink.Flush != nil {
			if err := sink.Flush(); err != nil {
				return err
			}
		}
		beat, shown, err := s.rec.await(ctx, alive.C, s.shown)
		switch {
		case err != nil:
		case shown:
			err = s.snapshot(ctx)
		case beat && sink.Alive != nil:
			err = sink.Alive()
		}
		if err != nil {
			return err
		}
	}
}

// catchUp sends one page of new changes.
func (s *Stream) catchUp(ctx context.Context) (more bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	list, more, err := s.rec.take(ctx)
	if errors.Is(err, journal.ErrPruned) {
		if err := s.reset(ctx); err != nil {
			return false, err
		}
		return false, s.snapshot(ctx)
	}
	if err != nil {
		return false, err
	}
	for _, c := range list {
		s.at = journal.Position{Epoch: c.Epoch, Seq: c.Seq}
		if err := s.change(ctx, c); err != nil {
			return false, err
		}
	}
	return more, nil
}

// change sends a change if the stream selects it.
func (s *Stream) change(ctx context.Context, c journal.Change) error {
	e := s.event("")
	switch c.Kind {
	case journal.Appeared, journal.Read, journal.Gone:
		if s.wants(c.Message.Root, c.Message.Team, "") {
			e.Name, e.Message = api.EventMessage, &api.MessageEvent{Seq: c.Seq, Change: string(c.Kind), Message: view.Record(c.Message, nil)}
		}
	case journal.Receipted:
		if s.wants(c.Receipt.Root, c.Receipt.Team, "") {
			e.Name, e.Receipt = api.EventReceipt, new(view.Receipt(c.Receipt))
		}
	case journal.Relaying:
		if s.wants(c.RelayEvent.Root, c.RelayEvent.Team, "") {
			var pane bool
			if l := s.rec.Ledger(ctx); c.RelayEvent.Person && l != nil {
				var err error
				if _, pane, err = l.PaneMessages.Message(ctx, c.RelayEvent.Delivery); err != nil {
					return err
				}
			}
			e.Name, e.Relay = api.EventRelay, new(view.RelayEvent(c.RelayEvent, pane))
		}
	case journal.Said:
		if s.wants(c.Envelope.Root, c.Envelope.Team, c.Envelope.Inbox) {
			shown, err := view.Envelope(ctx, s.rec.journal, s.rec.Ledger(ctx), c.Envelope)
			if err != nil {
				return err
			}
			e.Name, e.Envelope = api.EventEnvelope, &shown
		}
	}
	if e.Name == "" {
		return nil
	}
	return s.sink.Event(e)
}

// event returns an event at the position of the stream.
func (s *Stream) event(name string) api.Event {
	return api.Event{Name: name, ID: s.at.String(), Seq: s.at.Seq}
}

// wants reports whether the stream selects events of an agent of a team or, if agent is empty, other changes of
// the team.
func (s *Stream) wants(root, team, agent string) bool {
	return root == s.root && (s.q.Team == "" || team == s.q.Team) && (s.q.Agent == "" || agent == s.q.Agent)
}

// Gather is the least time between two snapshots.
const Gather = 200 * time.Millisecond

// snapshot sends the present state, if it has changed, with the position of the stream. The stream of one agent
// has no snapshots.
func (s *Stream) snapshot(ctx context.Context) error {
	if s.q.Agent != "" {
		return nil
	}
	if s.shown == nil && time.Since(s.checked) < Gather {
		return nil // the next check is soon
	}
	s.checked = time.Now()
	var shot api.Snapshot
	var err error
	if lg := s.rec.Ledger(ctx); lg == nil { // Ledger has warned
		shot, err = s.l.opts.WithoutLedger(ctx, s.q.Team)
	} else if states, failed := s.l.Cache(ctx, lg, s.q.Team); failed != nil {
		return failed
	} else {
		shot, err = states.Snapshot(ctx, s.q.Team, s.l.rec.Gather)
	}
	if err != nil {
		return err
	}
	return s.show(shot)
}

// show sends a snapshot if it differs from the last one.
func (s *Stream) show(shot api.Snapshot) error {
	data, err := json.Marshal(shot)
	if err != nil || bytes.Equal(data, s.shot) {
		return err
	}
	first := s.shot == nil
	s.shot = data
	e := s.event(api.EventSnapshot)
	e.Snapshot, e.Data = &shot, data
	if err := s.sink.Event(e); err != nil {
		return err
	}
	return s.questions(shot.Attention, first)
}

// questions sends an event for each new question, and one for each that is no longer open.
func (s *Stream) questions(open []api.Attention, first bool) error {
	var news []api.QuestionEvent
	asked := map[string]api.Attention{}
	for _, a := range open {
		if a.Question == nil {
			continue
		}
		asked[a.ID] = a
		if _, known := s.asked[a.ID]; !known {
			news = append(news, api.QuestionEvent{Change: api.QuestionAsked, Question: a})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.asked)) {
		if _, still := asked[id]; !still {
			news = append(news, api.QuestionEvent{Change: api.QuestionAnswered, Question: s.asked[id]})
		}
	}
	if s.asked = asked; first {
		return nil
	}
	for i := range news {
		e := s.event(api.EventQuestion)
		e.Question = &news[i]
		if err := s.sink.Event(e); err != nil {
			return err
		}
	}
	return nil
}

// reset makes the client read everything again, and continues at the end of the journal.
func (s *Stream) reset(ctx context.Context) error {
	last, err := s.rec.journal.Last(ctx)
	if err != nil {
		return err
	}
	at, err := s.rec.journal.PositionAt(ctx, last)
	if err != nil {
		return err
	}
	s.at, s.shot, s.rec.after = at, nil, at.Seq
	e := s.event(api.EventReset)
	e.Reset = &api.Reset{Seq: at.Seq}
	return s.sink.Event(e)
}
