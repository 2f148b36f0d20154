package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status/api"
)

// What happens is told: first how things are, then what comes, with numbers.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	e := r.listen(t, "", "")
	first, err := e.next()
	if err != nil || first.name != api.EventSnapshot {
		t.Fatalf("first comes %s, %v", first.name, err)
	}
	shot := as[api.Snapshot](t, first)
	if len(shot.Teams) != 2 || len(shot.Status) != 4 {
		t.Errorf("snapshot %+v", shot)
	}
	sent := of[api.Sent](t, r.ask(t, "POST", "/v1/teams/"+older+"/members/worker/messages", `{"text":"hello"}`), http.StatusCreated)
	// Whoever records first: the one who sends, or the one who watches.
	var message api.MessageEvent
	var receipt api.Receipt
	for message.Seq == 0 || receipt.Seq == 0 {
		switch ev, err := e.next(); {
		case err != nil:
			t.Fatal(err)
		case ev.name == api.EventMessage:
			message = as[api.MessageEvent](t, ev)
		case ev.name == api.EventReceipt:
			receipt = as[api.Receipt](t, ev)
		}
	}
	if message.Change != api.Appeared || message.Message.ID != sent.ID || message.Message.Text != "hello" {
		t.Errorf("message %+v", message)
	}
	if receipt.ID != sent.ID || receipt.State != api.Verified || receipt.Member != "worker" {
		t.Errorf("receipt %+v", receipt)
	}
	// The agent takes it, as an older one does.
	if _, err := w.Inbox(older, "worker").MarkRead(t.Context(), sent.ID); err != nil {
		t.Fatal(err)
	}
	var read, taken bool
	for !read || !taken {
		ev, err := e.next()
		if err != nil {
			t.Fatal(err)
		}
		switch ev.name {
		case api.EventMessage:
			m := as[api.MessageEvent](t, ev)
			read = m.Change == api.Read && m.Message.ID == sent.ID && m.Message.Read
		case api.EventReceipt:
			taken = as[api.Receipt](t, ev).State == api.Consumed
		}
	}
	page := get[api.Page](t, r, "/v1/teams/"+older+"/messages?inbox=worker&limit=1")
	if m := page.Messages[0]; m.Receipt == nil || m.Receipt.State != api.Consumed || m.Receipt.ConsumedAt == nil {
		t.Errorf("in the history: %+v", m)
	}
	// A state that changes, and a team that goes.
	w.Send(older, "worker", "team-lead", "back again")
	e.until(api.EventSnapshot, func(ev event) bool {
		return slices.ContainsFunc(as[api.Snapshot](t, ev).Status, func(s api.Status) bool {
			return s.Team == older && s.Member == "worker" && s.State == "ACTIVE"
		})
	})
	if err := os.RemoveAll(filepath.Join(w.Root.Path(), "teams", newer)); err != nil {
		t.Fatal(err)
	}
	e.until(api.EventSnapshot, func(ev event) bool { return len(as[api.Snapshot](t, ev).Teams) == 1 })
}

// A client that comes again goes on where it was, wherever that is: what all its
// streams told is what one stream tells, each once and in order.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	begin := get[api.Page](t, r, "/v1/teams/"+older+"/messages").Seq
	for n := range 30 {
		w.Send(older, "worker", "user", fmt.Sprintf("message %d", n))
	}
	const whole = 30
	var all []string
	for e := r.listen(t, fmt.Sprintf("?after=%d", begin), ""); len(all) < whole; {
		all = append(all, as[api.MessageEvent](t, e.until(api.EventMessage, nil)).Message.Text)
	}
	var got []string
	last := fmt.Sprint(begin)
	for n := 0; len(got) < whole; n++ {
		query := ""
		if n%2 == 0 { // as a page does that begins anew
			query = "?after=" + last
		}
		e := r.listen(t, query, map[bool]string{true: last}[n%2 == 1])
		for range n%4 + 1 { // with n%4 of 0 the snapshot alone
			ev, err := e.next()
			if err != nil {
				t.Fatal(err)
			}
			if ev.name == api.EventMessage {
				got = append(got, as[api.MessageEvent](t, ev).Message.Text)
			}
			last = ev.id
		}
		e.close()
	}
	if !slices.Equal(got, all) {
		t.Errorf("in parts %v\nat once  %v", got, all)
	}
}

// Only of one team, and the numbers go on over what is of others.
func TestEventsOfATeam(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	e := r.listen(t, "?team="+newer, "")
	first, err := e.next()
	if err != nil {
		t.Fatal(err)
	}
	if shot := as[api.Snapshot](t, first); len(shot.Teams) != 1 || shot.Teams[0].Team != newer || len(shot.Status) != 2 {
		t.Errorf("snapshot %+v", shot)
	}
	w.Send(older, "worker", "user", "not for us")
	w.Send(newer, "worker", "team-lead", "for us")
	if m := as[api.MessageEvent](t, e.until(api.EventMessage, nil)); m.Message.Text != "for us" {
		t.Errorf("message %+v", m)
	}
}

// A client that does not read is dropped, keeps nobody waiting, and may go on
// later where it was.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, func(s *Server) { s.limits.write = 5 * time.Second })
	slow := r.listen(t, "", "")
	first, err := slow.next()
	if err != nil {
		t.Fatal(err)
	}
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
	// Until it is dropped; what it finds in its buffers then is whole events, and
	// perhaps a part of one.
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

// What was forgotten cannot be told: the client is told that.
func TestEventsThatAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	if err := os.WriteFile(w.Inbox(older, "user").Path(), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.listen(t, "?after=0", "").until(api.EventMessage, func(e event) bool { return as[api.MessageEvent](t, e).Change == api.Gone })
	j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if p, err := j.Prune(t.Context(), time.Now().Add(time.Hour), 0); err != nil || p.Messages == 0 {
		t.Fatalf("pruned %+v, %v", p, err)
	}
	// Also a number that the journal has not come to: it was made anew.
	for _, last := range []string{"0", fmt.Sprint(int64(math.MaxInt64))} {
		e := r.listen(t, "?after="+last, "")
		reset := e.until(api.EventReset, nil)
		if seq := as[api.Reset](t, reset).Seq; seq != number(t, reset) {
			t.Errorf("reset to %d with id %s", seq, reset.id)
		}
		if ev, err := e.next(); err != nil || ev.name != api.EventSnapshot {
			t.Errorf("then comes %s, %v", ev.name, err)
		}
		w.Send(older, "worker", "user", "behind it "+last)
		if m := as[api.MessageEvent](t, e.until(api.EventMessage, nil)); m.Message.Text != "behind it "+last {
			t.Errorf("then comes %+v", m)
		}
	}
}

// The journal was moved away, or an older copy of it put back, and has come past
// the number that a client had seen: it is told to begin again, and not given what
// has other numbers by now.
func TestEventsOfAnotherJournal(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]bool{"moved away": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			r := w.start(t)
			r.end(t)
			path := filepath.Join(w.State, "journal.db")
			backup, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			r = w.start(t)
			e := r.listen(t, "", "")
			const many = 3
			for range many {
				w.Send(older, "worker", "user", "old")
			}
			var last event
			for range many {
				last = e.until(api.EventMessage, nil)
			}
			if at, ok := journal.ParsePosition(last.id); !ok || at.Seq != as[api.MessageEvent](t, last).Seq {
				t.Errorf("id %q of event %s", last.id, last.data)
			}
			r.end(t)
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if restore {
				if err := os.WriteFile(path, backup, 0o600); err != nil {
					t.Fatal(err)
				}
			}

			r = w.start(t)
			e = r.listen(t, "", "")
			for range 4 * many {
				w.Send(older, "worker", "user", "new")
			}
			e.until(api.EventMessage, func(ev event) bool { return number(t, ev) > number(t, last) })
			come := func(query, header string) *events {
				t.Helper()
				e := r.listen(t, query, header)
				ev, err := e.next()
				if err != nil || ev.name != api.EventReset || number(t, ev) < number(t, last) {
					t.Errorf("%s %s: first comes %s %s, %v", query, header, ev.name, ev.id, err)
				}
				return e
			}
			come("?after="+last.id, "")
			come("", fmt.Sprint(number(t, last))) // as an earlier version numbered its events
			again := come("", last.id)
			w.Send(older, "worker", "user", "newest")
			again.until(api.EventMessage, func(ev event) bool { return as[api.MessageEvent](t, ev).Message.Text == "newest" })
			// A number that somebody gives is believed.
			e = r.listen(t, "?after=1", "")
			e.until(api.EventMessage, nil)
		})
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
		if err != nil {
			t.Fatal(err)
		}
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

// A message that another program overwrites, provably, is lost, and stays out of the
// inbox until it is sent again by force.
func TestLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	e := r.listen(t, "", "")
	to := "/v1/teams/" + older + "/members/worker/messages"
	of[api.Sent](t, r.ask(t, "POST", to, `{"text":"in front"}`), http.StatusCreated)
	const id = "job-1"
	send := func(body string) answer { return r.ask(t, "POST", to, body, "Idempotency-Key", id) }
	of[api.Sent](t, send(`{"text":"hello"}`), http.StatusCreated)
	box := w.Inbox(older, "worker")
	clobber(t, box, id)
	becomes := func(state string) api.Receipt {
		t.Helper()
		return as[api.Receipt](t, e.until(api.EventReceipt, func(ev event) bool {
			rc := as[api.Receipt](t, ev)
			return rc.ID == id && rc.State == state
		}))
	}
	if got := becomes(api.Lost); got.Reason == "" || got.LostAt == nil {
		t.Errorf("receipt %+v", got)
	}
	problem(t, send(`{"text":"hello"}`), api.CodeUnknown)
	if rows, err := box.Read(t.Context()); err != nil || slices.ContainsFunc(rows, func(r inbox.Row) bool { return r.ID() == id }) {
		t.Errorf("it is back in the inbox: %v, %v", rows, err)
	}
	of[api.Sent](t, send(`{"text":"hello","force":true}`), http.StatusCreated)
	if got := becomes(api.Verified); got.Reason != "" || got.LostAt != nil {
		t.Errorf("receipt %+v", got)
	}
	if _, err := box.MarkRead(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	becomes(api.Consumed)
}

// What a service had sent before it ended is followed by the next one.
func TestFollowedOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	to := func(member string) string { return "/v1/teams/" + older + "/members/" + member + "/messages" }
	early := of[api.Sent](t, r.ask(t, "POST", to("worker"), `{"text":"taken while nobody looks"}`), http.StatusCreated)
	late := of[api.Sent](t, r.ask(t, "POST", to("worker"), `{"text":"taken later"}`), http.StatusCreated)
	r.listen(t, "?after=0", "").until(api.EventReceipt, func(ev event) bool { return as[api.Receipt](t, ev).ID == late.ID })
	last := get[api.Page](t, r, "/v1/teams/"+older+"/messages").Seq
	r.end(t)
	box := w.Inbox(older, "worker")
	if _, err := box.MarkRead(t.Context(), early.ID); err != nil {
		t.Fatal(err)
	}
	r = w.start(t)
	e := r.listen(t, fmt.Sprintf("?after=%d", last), "")
	if got := as[api.Receipt](t, e.until(api.EventReceipt, nil)); got.ID != early.ID || got.State != api.Consumed {
		t.Errorf("receipt %+v", got)
	}
	if _, err := box.MarkRead(t.Context(), late.ID); err != nil {
		t.Fatal(err)
	}
	if got := as[api.Receipt](t, e.until(api.EventReceipt, nil)); got.ID != late.ID || got.State != api.Consumed {
		t.Errorf("receipt %+v", got)
	}
}
