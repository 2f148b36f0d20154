package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/view"
	"teambridge/teams"
)

// events answers with a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). The id of an event is
// its position in the journal.
func (s *Server) events(w http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team", "after", "html")
	return s.stream(w, r, p, &eventStream{team: p.text("team"), html: p.flag("html")})
}

// relayEvents answers with what the agent of a relay said and did: a page of envelopes or, to
// a client that accepts one, a stream of server-sent events.
func (s *Server) relayEvents(w http.ResponseWriter, r *http.Request) (any, error) {
	if wantsStream(r) {
		p := parseParams(r, "after")
		agent, err := s.agentOf(r, p)
		if err != nil {
			return nil, err
		}
		return s.stream(w, r, p, &eventStream{team: agent.Team.Team, agent: agent.Inbox})
	}
	p := parseParams(r, "after", "before", "limit")
	q := journal.Query{After: p.number("after", 0), Before: p.number("before", 0)}
	limit := p.limit(api.DefaultMessages, api.MaxMessages)
	agent, err := s.agentOf(r, p)
	if err != nil {
		return nil, err
	}
	ctx := r.Context()
	q.Root, q.Team, q.Inbox = agent.Root, agent.Team.Team, agent.Inbox
	q.Newest = p.text("after") == "" || q.Before != 0
	page := api.Envelopes{Envelopes: []api.Envelope{}}
	if page.Seq, err = s.reads.Last(ctx); err != nil {
		return nil, err
	}
	list, more, err := journal.Take(s.reads.Envelopes(ctx, journal.EnvelopeQuery{Query: q}), limit, bridge.AnswerBytes, func(e *journal.Envelope) int { return 2 * len(e.Raw) }) // it is there as a record, too
	if q.Newest {
		slices.Reverse(list)
	}
	for _, e := range list {
		shown, err := view.Envelope(ctx, s.reads, s.ledger, e)
		if err != nil {
			return nil, err
		}
		page.Envelopes = append(page.Envelopes, shown)
	}
	page.More = more
	return page, err
}

// agentOf returns the inbox of the agent of the relay that r is about, in any team of that
// name. The error is also that of the query.
func (s *Server) agentOf(r *http.Request, p *params) (journal.InboxKey, error) {
	if p.err != nil {
		return journal.InboxKey{}, p.err
	}
	e, err := s.relay(r.Context(), r.PathValue("relay"))
	return journal.InboxKey{Root: s.opts.Root.Path(), Team: teams.Instance{Team: e.Team}, Inbox: e.Member}, err
}

// wantsStream reports whether a request is for a stream of events.
func wantsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), eventStreamType)
}

const eventStreamType = "text/event-stream"

// stream answers with the events that t is for, after those that the request names.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, p *params, t *eventStream) (any, error) {
	from, id := p.text("after"), false
	if last := r.Header.Get("Last-Event-ID"); last != "" { // a browser that connects again
		from, id = last, true
	}
	at, ok := parsePosition(from)
	if !ok {
		p.invalid("after=%.40q is neither a number nor the id of an event", from)
	}
	if p.err != nil {
		return nil, p.err
	}
	over, err := s.lasts()
	if err != nil {
		return nil, err
	}
	defer over()
	// Before anything is read, so that no later change is missed.
	news, done := s.news.subscribe()
	defer done()
	changed, done := s.statuses.changed.subscribe()
	defer done()
	ctx := r.Context()
	at, known, err := s.locate(ctx, at, id)
	if err != nil {
		return nil, err
	}
	t.server, t.w, t.control, t.at = s, w, http.NewResponseController(w), at
	t.ended, _ = ctx.Value(endedKey{}).(<-chan struct{})
	// The deadlines of the server are meant for answers that end.
	if err := t.control.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	w.Header().Set("Content-Type", eventStreamType)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	t.buf.WriteString("retry: 1000\n\n") // in ms; the default of browsers is 3 s or more
	err = t.run(ctx, known, news, changed)
	s.log.Debug("a stream of events ended", "after", t.at, "err", err)
	return nil, nil // the answer has begun
}

// now, as the number of a position without an epoch, is the end of the journal.
const now = -1

// parsePosition parses where a stream begins: after the id of an event, after a number
// of the journal or, if s is empty, now.
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

// locate finds a position in the journal. known is false if the position is from another
// history than the journal's. A number without an epoch is not accepted as the id of an
// event, because it is from an earlier version.
func (s *Server) locate(ctx context.Context, at journal.Position, id bool) (found journal.Position, known bool, err error) {
	last, err := s.reads.Last(ctx)
	switch {
	case err != nil:
		return at, false, err
	case at.Epoch != "":
		known, err := s.reads.Knows(ctx, at)
		return at, known, err
	case at.Seq == now:
		at.Seq = last
	case id, at.Seq > last:
		return at, false, nil
	}
	at, err = s.reads.PositionAt(ctx, at.Seq)
	return at, true, err
}

// eventStream is one stream of events.
type eventStream struct {
	server  *Server
	w       http.ResponseWriter
	control *http.ResponseController
	buf     bytes.Buffer     // sent by flush
	ended   <-chan struct{}  // closed once its client may not read it any more; nil: never
	team    string           // only of this team, unless empty
	agent   string           // only what this agent of the team said and did, unless empty
	html    bool             // whether records and plans have their text as HTML
	at      journal.Position // of the last change that was sent or skipped
	shot    []byte           // the last snapshot
}

var errEnded = errors.New("its token was removed")

func (t *eventStream) run(ctx context.Context, known bool, news, changed <-chan struct{}) error {
	if !known {
		if err := t.reset(ctx); err != nil {
			return err
		}
	}
	if err := t.snapshot(ctx); err != nil {
		return err
	}
	alive := time.NewTicker(t.server.limits.heartbeat)
	defer alive.Stop()
	for {
		more, err := t.catchUp(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.server.ending:
			return nil
		case <-t.ended:
			return errEnded
		case <-news:
		case <-changed:
			if err := t.snapshot(ctx); err != nil {
				return err
			}
		case <-alive.C:
			t.buf.WriteString(": alive\n\n")
			if err := t.flush(); err != nil {
				return err
			}
		}
	}
}

// pageOfChanges is the number of changes that are read at once. Messages can have
// 100 KiB: 20 streams that nobody read took 160 MB with pages of 100, and take 14 MB with 10.
const pageOfChanges = 10

// catchUp sends a page of new changes.
func (t *eventStream) catchUp(ctx context.Context) (more bool, err error) {
	select {
	case <-t.server.ending:
		return false, nil
	case <-t.ended:
		return false, errEnded
	default:
	}
	list, err := t.server.reads.Changes(ctx, t.at.Seq, pageOfChanges)
	if errors.Is(err, journal.ErrPruned) {
		if err := t.reset(ctx); err != nil {
			return false, err
		}
		return false, t.snapshot(ctx)
	}
	if err != nil {
		return false, err
	}
	for _, c := range list {
		t.at = journal.Position{Epoch: c.Epoch, Seq: c.Seq}
		if err := t.change(ctx, c); err != nil {
			return false, err
		}
	}
	return len(list) == pageOfChanges, t.flush()
}

// change sends one change, if the stream is for it.
func (t *eventStream) change(ctx context.Context, c journal.Change) error {
	switch c.Kind {
	case journal.Appeared, journal.Read, journal.Gone:
		if t.wants(c.Message.Root, c.Message.Team.Team, "") {
			m := api.MessageEvent{Seq: c.Seq, Change: string(c.Kind), Message: view.Record(c.Message, nil)}
			if t.html {
				view.AddHTML(&m.Message)
			}
			return t.event(api.EventMessage, t.at, m)
		}
	case journal.Receipted:
		if t.wants(c.Receipt.Root, c.Receipt.Team, "") {
			return t.event(api.EventReceipt, t.at, view.Receipt(c.Receipt))
		}
	case journal.Relaying:
		if t.wants(c.RelayEvent.Root, c.RelayEvent.Team.Team, "") {
			e := view.RelayEvent(c.RelayEvent)
			if e.Person {
				var err error
				if _, e.Pane, err = t.server.ledger.PaneMessage(ctx, e.Delivery); err != nil {
					return err
				}
			}
			return t.event(api.EventRelay, t.at, e)
		}
	case journal.Said:
		if t.wants(c.Envelope.Root, c.Envelope.Team.Team, c.Envelope.Inbox) {
			e, err := view.Envelope(ctx, t.server.reads, t.server.ledger, c.Envelope)
			if err != nil {
				return err
			}
			if t.html && e.Record != nil {
				view.AddHTML(e.Record)
			}
			return t.event(api.EventEnvelope, t.at, e)
		}
	}
	return nil
}

// wants reports whether the stream has what an agent of a team said and did or, if agent is
// empty, other changes of the team.
func (t *eventStream) wants(root, team, agent string) bool {
	return root == t.server.opts.Root.Path() && (t.team == "" || team == t.team) && (t.agent == "" || agent == t.agent)
}

// snapshot sends the current state, if it has changed, with the position of the stream. The
// stream of one agent has none.
func (t *eventStream) snapshot(ctx context.Context) error {
	if t.agent != "" {
		return nil
	}
	shot, err := t.server.statuses.snapshot(ctx, t.team)
	if err != nil {
		return err
	}
	if t.html {
		addPlanHTML(shot.Attention)
	}
	data, err := json.Marshal(shot)
	if err != nil || bytes.Equal(data, t.shot) {
		return err
	}
	t.shot = data
	if err := t.event(api.EventSnapshot, t.at, json.RawMessage(data)); err != nil {
		return err
	}
	return t.flush()
}

// reset tells the client to read everything again, and goes on from the end of the journal.
func (t *eventStream) reset(ctx context.Context) error {
	at, _, err := t.server.locate(ctx, journal.Position{Seq: now}, false)
	if err != nil {
		return err
	}
	t.at, t.shot = at, nil
	return t.event(api.EventReset, at, api.Reset{Seq: at.Seq})
}

// maxBuffer is how much is kept before it is sent, in bytes.
const maxBuffer = 64 << 10

func (t *eventStream) event(name string, id journal.Position, v any) error {
	data, err := json.Marshal(v) // on one line
	if err != nil {
		return err
	}
	fmt.Fprintf(&t.buf, "event: %s\nid: %s\ndata: %s\n\n", name, id, data)
	if t.buf.Len() >= maxBuffer {
		return t.flush()
	}
	return nil
}

// flush sends the buffer. It fails if the client does not take it in time.
func (t *eventStream) flush() error {
	if t.buf.Len() == 0 {
		return nil
	}
	if err := t.control.SetWriteDeadline(time.Now().Add(t.server.limits.write)); err != nil {
		return err
	}
	if _, err := t.w.Write(t.buf.Bytes()); err != nil {
		return err
	}
	t.buf.Reset()
	return t.control.Flush()
}
