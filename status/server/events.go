package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"teambridge/status/api"
	"teambridge/status/api/op"
	"teambridge/status/history"
)

// events answers with a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). The id of an event is
// its position in the journal.
func (s *Server) events(w http.ResponseWriter, r *http.Request, q *op.EventsQuery) (any, error) {
	return s.stream(w, r, history.EventQuery{Team: q.Team, After: q.After}, q.LastEventID)
}

// relayEvents answers with the output of a relay's agent: a page of envelopes or, for a client that accepts
// one, a stream of server-sent events.
func (s *Server) relayEvents() handler {
	page := typed(&op.Envelopes, func(_ http.ResponseWriter, r *http.Request, q *op.EnvelopesQuery) (any, error) {
		return s.local.Work(r.Context(), q.Relay, api.MessageQuery{After: q.After, Forward: q.Forward, Before: q.Before, Limit: q.Limit})
	})
	stream := typed(&op.EnvelopeEvents, func(w http.ResponseWriter, r *http.Request, q *op.EnvelopeEventsQuery) (any, error) {
		e, err := s.local.Relay(r.Context(), "", q.Relay)
		if err != nil {
			return nil, err
		}
		return s.stream(w, r, history.EventQuery{Team: e.Team, Agent: e.Member, After: q.After}, q.LastEventID)
	})
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		if wantsStream(r) {
			return stream(w, r)
		}
		return page(w, r)
	}
}

// wantsStream reports whether a request is for a stream of events.
func wantsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), op.EventStream)
}

// stream answers with the events that q selects. If last is set, it is the id of the last event that the client has
// seen, and replaces q.After.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, q history.EventQuery, last string) (any, error) {
	if last != "" { // a browser reconnects
		q.After, q.IsID = last, true
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	ctx, done, err := s.lasting(w, r, op.Events.Lasts)
	if err != nil {
		return nil, err
	}
	defer done()
	stream, err := s.local.Stream(ctx, q)
	if err != nil {
		return nil, err
	}
	e := &eventWriter{w: w, control: http.NewResponseController(w), write: s.limits.write}
	w.Header().Set("Content-Type", op.EventStream)
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	e.buf.WriteString("retry: 1000\n\n") // in ms; the default of browsers is 3 s or more
	err = stream.Run(ctx, history.Sink{Event: e.event, Flush: e.flush, Alive: e.alive, Heartbeat: s.limits.heartbeat})
	s.log.Debug("a stream of events ended", "err", err)
	return nil, nil // the answer has begun
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	write   time.Duration // limits each write
	buf     bytes.Buffer  // events that flush sends
}

// maxBuffer is the number of buffered bytes at which events are sent.
const maxBuffer = 64 << 10

func (e *eventWriter) event(v api.Event) error {
	data, err := []byte(v.Data), error(nil)
	if data == nil {
		data, err = json.Marshal(v.Payload()) // on one line
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

func (e *eventWriter) alive() error {
	e.buf.WriteString(": alive\n\n")
	return e.flush()
}

// flush sends the buffer. It fails if the client does not read it in time.
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
	if err := e.control.Flush(); err != nil {
		return err
	}
	return e.control.SetWriteDeadline(time.Time{}) // HTTP/2 resets a stream whose deadline passes, even if nothing is written
}
