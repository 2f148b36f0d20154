package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// Now starts a stream with the next event.
const Now = ""

// After starts a stream after a number of the journal, such as the Seq of an [api.Page]. If you have the ID of an
// event, use that instead: with it, the service notices that the journal was lost or restored.
func After(seq int64) string { return strconv.FormatInt(seq, 10) }

// Event is one event of a stream.
type Event = api.Event

// Events yields the events of one team, or of all teams if the name is empty. It begins after the event with the ID
// after; see also [Now] and [After]. The first event is a snapshot, and another one follows whenever the state
// changes. Messages, receipts, relay events and envelopes come once each, in the order of the journal.
//
// If the connection breaks, Events connects again, after 0.1 s to 5 s, and continues
// without a gap or a repeat. If events were pruned or the journal is another one, it
// yields an api.EventReset: the caller must read everything again. It ends with a
// *[api.Problem] or a *[SkewError] if connecting again is of no use, and without an error
// if ctx ends.
func (c *Client) Events(ctx context.Context, team, after string) iter.Seq2[Event, error] {
	return c.lasting(ctx, after, func(after string) iter.Seq2[Event, error] { return c.Stream(ctx, team, after) })
}

// EnvelopeEvents is Events for the agent of a relay. It yields envelopes, and perhaps an api.EventReset.
func (c *Client) EnvelopeEvents(ctx context.Context, id, after string) iter.Seq2[Event, error] {
	return c.lasting(ctx, after, func(after string) iter.Seq2[Event, error] {
		return c.stream(ctx, &op.EnvelopeEvents.Route, op.EnvelopeEventsQuery{OfRelay: op.OfRelay{Relay: id}, After: after}, after)
	})
}

// lasting yields the events of stream, and connects again when that breaks.
func (c *conn) lasting(ctx context.Context, after string, stream func(after string) iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		wait := c.back.first
		for {
			for e, err := range stream(after) {
				if err != nil {
					if final(err) {
						yield(Event{}, err)
						return
					}
					if c.broken != nil {
						c.broken(err)
					}
					break // an error is the last thing that Stream yields
				}
				wait = c.back.first
				after = e.ID
				if !yield(e, nil) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			wait = min(2*wait, c.back.most)
		}
	}
}

// backOff is the first and the longest delay between two attempts.
type backOff struct{ first, most time.Duration }

// final reports whether another attempt would fail in the same way.
func final(err error) bool {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		return p.Status < 500 // a service that is ending, or has too many streams, may answer later
	}
	return errors.As(err, new(*SkewError))
}

// Stream is [Client.Events] over one connection. It ends with an error if that breaks,
// with io.EOF if the service ends the stream, and without an error if ctx ends.
func (c *Client) Stream(ctx context.Context, team, after string) iter.Seq2[Event, error] {
	return c.stream(ctx, &op.Events.Route, op.EventsQuery{Team: team, After: after}, after)
}

func (c *conn) stream(ctx context.Context, r *op.Route, q any, after string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		fail := func(err error) {
			if ctx.Err() == nil {
				yield(Event{}, err)
			}
		}
		running, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		silent := time.AfterFunc(c.silence, func() {
			cancel(&UnreachableError{Where: c.where, Err: fmt.Errorf("nothing was received for %s", c.silence)})
		})
		defer silent.Stop()
		path, _, _, err := request(r, q)
		if err != nil {
			fail(err)
			return
		}
		last, ok := seqOf(after)
		if !ok {
			last = -1
		}
		res, err := c.open(running, http.MethodGet, path, http.Header{"Accept": {op.EventStream}}, nil, op.EventStream, "stream")
		if err != nil {
			fail(err)
			return
		}
		defer res.Body.Close()
		in := reader{in: bufio.NewReader(res.Body), alive: func() { silent.Reset(c.silence) }}
		for {
			e, err := in.next()
			if err != nil {
				switch {
				case errors.Is(err, errUndecodable):
					err = c.skewed(nil, "%v", err)
				case err != io.EOF:
					err = c.unreachable(running, true, err)
				}
				fail(err)
				return
			}
			if e.Seq <= last && e.Snapshot == nil && e.Reset == nil && e.Question == nil {
				continue // a repeated event
			}
			last = e.Seq
			if !yield(e, nil) {
				return
			}
		}
	}
}

var errUndecodable = errors.New("an event cannot be read")

// maxEvent limits the bytes of an event. An inbox of 32 MiB, as JSON, fits.
const maxEvent = 256 << 20

// reader reads server-sent events with the fields event, id and data, one line each.
type reader struct {
	in    *bufio.Reader
	alive func()
}

func (r *reader) next() (Event, error) {
	var e Event
	for {
		line, err := r.line()
		if err != nil {
			return e, err
		}
		r.alive()
		if len(line) == 0 {
			if e.Name == "" {
				continue // after a comment
			}
			return e, decode(&e)
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.Name = string(value)
		case "id":
			var ok bool
			if e.Seq, ok = seqOf(string(value)); !ok {
				return e, fmt.Errorf("%w: its id is %.40q", errUndecodable, value)
			}
			e.ID = string(value)
		case "data":
			e.Data = bytes.Clone(value)
		}
	}
}

// line returns one line without its newline.
func (r *reader) line() ([]byte, error) {
	var whole []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			if whole = append(whole, part...); len(whole) > maxEvent {
				return nil, fmt.Errorf("%w: it has more than %d bytes", errUndecodable, maxEvent)
			}
			r.alive()
			continue
		}
		if err != nil {
			return nil, err // an incomplete event is dropped
		}
		if whole != nil {
			part = append(whole, part...)
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(part, []byte("\n")), []byte("\r")), nil
	}
}

// seqOf returns the number at the end of an id.
func seqOf(id string) (int64, bool) {
	n, err := strconv.ParseUint(id[strings.LastIndexByte(id, '-')+1:], 10, 63)
	return int64(n), err == nil
}

func decode(e *Event) error {
	if e.ID == "" {
		return fmt.Errorf("%w: %.40q has no id", errUndecodable, e.Name)
	}
	v := e.Payload() // Unmarshal allocates it
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("%w: %s: %w", errUndecodable, e.Name, err)
	}
	return nil
}
