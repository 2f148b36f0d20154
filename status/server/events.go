package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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
	return s.stream(w, r, p, bridge.EventQuery{Team: p.text("team"), HTML: p.flag("html")})
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
		return s.stream(w, r, p, bridge.EventQuery{Team: agent.Team.Team, Agent: agent.Inbox})
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
	e, err := s.local.Relay(r.Context(), "", r.PathValue("relay"))
	return journal.InboxKey{Root: s.opts.Root.Path(), Team: teams.Instance{Team: e.Team}, Inbox: e.Member}, err
}

// wantsStream reports whether a request is for a stream of events.
func wantsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), eventStreamType)
}

const eventStreamType = "text/event-stream"

// stream answers with the events that q is for, after those that the request names.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, p *params, q bridge.EventQuery) (any, error) {
	q.After = p.text("after")
	if last := r.Header.Get("Last-Event-ID"); last != "" { // a browser that connects again
		q.After, q.IsID = last, true
	}
	if err := cmp.Or(p.err, q.Check()); err != nil {
		return nil, err
	}
	ctx, done, err := s.lasting(w, r, "connect again")
	if err != nil {
		return nil, err
	}
	defer done()
	stream, err := s.local.Stream(ctx, q)
	if err != nil {
		return nil, err
	}
	e := &eventWriter{w: w, control: http.NewResponseController(w), write: s.limits.write}
	w.Header().Set("Content-Type", eventStreamType)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e.buf.WriteString("retry: 1000\n\n") // in ms; the default of browsers is 3 s or more
	err = stream.Run(ctx, bridge.Sink{Event: e.event, Flush: e.flush, Alive: e.alive, Heartbeat: s.limits.heartbeat})
	s.log.Debug("a stream of events ended", "err", err)
	return nil, nil // the answer has begun
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	write   time.Duration // for the client to take what is written
	buf     bytes.Buffer  // sent by flush
}

// maxBuffer is how much is kept before it is sent, in bytes.
const maxBuffer = 64 << 10

func (e *eventWriter) event(v api.Event) error {
	data, err := []byte(v.Data), error(nil)
	if data == nil {
		data, err = json.Marshal(eventData(v)) // on one line
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(&e.buf, "event: %s\nid: %s\ndata: %s\n\n", v.Name, v.ID, data)
	if e.buf.Len() >= maxBuffer {
		return e.flush()
	}
	return nil
}

// eventData is what an event has.
func eventData(v api.Event) any {
	switch v.Name {
	case api.EventSnapshot:
		return v.Snapshot
	case api.EventMessage:
		return v.Message
	case api.EventReceipt:
		return v.Receipt
	case api.EventRelay:
		return v.Relay
	case api.EventEnvelope:
		return v.Envelope
	}
	return v.Reset
}

func (e *eventWriter) alive() error {
	e.buf.WriteString(": alive\n\n")
	return e.flush()
}

// flush sends the buffer. It fails if the client does not take it in time.
func (e *eventWriter) flush() error {
	if e.buf.Len() == 0 {
		return nil
	}
	if err := e.control.SetWriteDeadline(time.Now().Add(e.write)); err != nil {
		return err
	}
	if _, err := e.w.Write(e.buf.Bytes()); err != nil {
		return err
	}
	e.buf.Reset()
	return e.control.Flush()
}
