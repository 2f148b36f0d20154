package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
)

// A client that does not read is dropped, delays no other client, and may continue later at its position.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, func(s *Server) { s.limits.write = 2 * time.Second })
	slow := r.listen(t, "", "")
	first, err := slow.next()
	must(t, err)
	quick := r.listen(t, "", "")
	// More than the buffers of two sockets hold.
	const many, size = 20, 90 << 10
	text := strings.Repeat("x", size)
	for n := range many {
		w.Send(older, "worker", "user", fmt.Sprintf("%d %s", n, text))
		if m := as[api.MessageEvent](t, quick.until(api.EventMessage, nil)); !strings.HasPrefix(m.Message.Text, fmt.Sprintf("%d ", n)) {
			t.Fatalf("the quick one got %.10s for message %d", m.Message.Text, n)
		}
	}
	// Until it is dropped; its buffers then have whole events, and perhaps a part of one.
	for over := time.After(patience / 2); len(r.streams) > 1; {
		select {
		case <-over:
			t.Fatal("the slow client is not dropped")
		case <-time.After(time.Millisecond):
		}
	}
	last, n := first.id, 0
	for {
		ev, err := slow.next()
		if err != nil {
			break
		}
		if ev.name == api.EventMessage {
			if m := as[api.MessageEvent](t, ev); !strings.HasPrefix(m.Message.Text, fmt.Sprintf("%d ", n)) {
				t.Fatalf("the slow one got %.10s for message %d", m.Message.Text, n)
			}
			n++
		}
		last = ev.id
	}
	if n >= many {
		t.Fatalf("the slow client got all %d messages", n)
	}
	for again := r.listen(t, "", last); n < many; n++ {
		if m := as[api.MessageEvent](t, again.until(api.EventMessage, nil)); !strings.HasPrefix(m.Message.Text, fmt.Sprintf("%d ", n)) {
			t.Fatalf("it went on with %.10s, want message %d", m.Message.Text, n)
		}
	}
}

func TestHeartbeatAndEnd(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, func(s *Server) { s.limits.heartbeat = 5 * time.Millisecond; s.limits.streams = 1 })
	e := r.listen(t, "", "")
	if _, err := e.next(); err != nil {
		t.Fatal(err)
	}
	problem(t, r.ask(t, "GET", "/v1/events", ""), api.CodeTooMany)
	for !strings.Contains(e.past, "alive") {
		line, err := e.in.ReadString('\n')
		must(t, err)
		e.past += line
	}
	problem(t, r.ask(t, "GET", "/v1/events?after=x", ""), api.CodeUsage)
	for _, id := range []string{"-1", "x", "a-", "a-x", "-", "99999999999999999999"} {
		problem(t, r.ask(t, "GET", "/v1/events?after="+id, ""), api.CodeUsage)
		problem(t, r.ask(t, "GET", "/v1/events", "", "Last-Event-ID", id), api.CodeUsage)
	}
	r.end(t) // in spite of the stream
	for {
		if _, err := e.next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the stream ended with %v", err)
		}
	}
}
