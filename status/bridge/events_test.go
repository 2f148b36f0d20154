package bridge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/history"
	"teambridge/teams/teamstest"
)

// message reads up to the next event of a message.
func (e *stream) message() *api.MessageEvent {
	e.w.Helper()
	return e.until(func(v api.Event) bool { return v.Message != nil }).Message
}

// receipt reads up to the next receipt of a message, in a state.
func (e *stream) receipt(id, state string) *api.Receipt {
	e.w.Helper()
	return e.until(func(v api.Event) bool { return v.Receipt != nil && v.Receipt.ID == id && v.Receipt.State == state }).Receipt
}

// A client that reconnects continues at any position: all its streams together are equal to one stream, with
// each event once and in order.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	begin := fmt.Sprint(w.page(older, api.MessageQuery{}).Seq)
	const whole = 30
	for n := range whole {
		w.Send(older, "worker", "user", fmt.Sprintf("message %d", n))
	}
	var all, got []string
	for e := w.events("", begin); len(all) < whole; {
		all = append(all, e.message().Message.Text)
	}
	for n, last := 0, begin; len(got) < whole; n++ {
		e := w.events("", last)
		for range n%4 + 1 { // with n%4 of 0 the snapshot alone
			v := e.next()
			if v.Message != nil {
				got = append(got, v.Message.Message.Text)
			}
			last = v.ID
		}
		e.close()
	}
	if !slices.Equal(got, all) {
		t.Errorf("in parts %v\nat once  %v", got, all)
	}
}

// Pruned events are lost, and so are events that a journal reaches later: there is a reset, and the stream
// continues.
func TestEventsThatAreForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	a := w.worker(older)
	a.says(text("hello"))
	w.must(os.WriteFile(w.Inbox(older, "user").Path(), []byte("[]"), 0o600))
	w.events("", "0").until(func(v api.Event) bool { return v.Message != nil && v.Message.Change == api.Gone })
	if p, err := a.j.PruneEnvelopes(t.Context(), time.Now().Add(time.Hour)); err != nil || p.Envelopes == 0 {
		t.Fatalf("pruned %+v, %v", p, err)
	}
	for range 2 {
		for _, after := range []string{"0", fmt.Sprint(int64(math.MaxInt64))} {
			e := w.events("", after)
			reset := e.until(func(v api.Event) bool { return v.Reset != nil })
			if v := e.next(); reset.Reset.Seq != reset.Seq || v.Snapshot == nil {
				t.Errorf("reset %+v, and then %+v", reset, v)
			}
			w.Send(older, "worker", "user", "after "+after)
			if m := e.message(); m.Message.Text != "after "+after {
				t.Errorf("then comes %+v", m)
			}
		}
		_, err := a.j.Prune(t.Context(), time.Now().Add(time.Hour), 0)
		w.must(err)
	}
}

// The journal was moved away, or replaced by an older copy, and has passed the number that a client has seen.
// The client gets a reset, and not the events that have these numbers now.
func TestEventsOfAnotherJournal(t *testing.T) {
	t.Parallel()
	for name, restore := range map[string]bool{"moved away": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start()
			w.end()
			path := filepath.Join(w.State, "journal.db")
			backup, err := os.ReadFile(path)
			w.must(err)
			w.start()
			e := w.events("", "")
			const many = 3
			var last api.Event
			for range many {
				w.Send(older, "worker", "user", "old")
				last = e.until(func(v api.Event) bool { return v.Message != nil })
			}
			if at, ok := journal.ParsePosition(last.ID); !ok || at.Seq != last.Message.Seq || at.Seq != last.Seq {
				t.Errorf("id %q of event %+v", last.ID, last.Message)
			}
			e.close()
			w.end()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
			}
			if restore {
				w.must(os.WriteFile(path, backup, 0o600))
			}
			w.start()
			e = w.events("", "")
			for range 4 * many {
				w.Send(older, "worker", "user", "new")
			}
			e.until(func(v api.Event) bool { return v.Message != nil && v.Seq > last.Seq })
			again := w.events("", last.ID)
			if v := again.next(); v.Reset == nil || v.Seq < last.Seq {
				t.Errorf("first comes %+v", v)
			}
			w.Send(older, "worker", "user", "newest")
			again.until(func(v api.Event) bool { return v.Message != nil && v.Message.Message.Text == "newest" })
			// A bare number is accepted; as the id of an event, it is from an earlier version.
			w.events("", "1").message()
			s, err := w.s.Stream(w.ctx, history.EventQuery{After: fmt.Sprint(last.Seq), IsID: true})
			w.must(err)
			err = s.Run(w.ctx, history.Sink{Event: func(v api.Event) error {
				if v.Reset == nil {
					t.Errorf("first comes %+v", v)
				}
				return fs.ErrClosed
			}})
			if !errors.Is(err, fs.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

// A message that another program provably overwrites is lost, and stays out of the inbox until it is sent again
// by force.
func TestLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	e := w.events("", "")
	w.send(older, "worker", "", api.NewMessage{Text: "in front"})
	const id = "job-1"
	m := api.NewMessage{Text: "hello"}
	w.send(older, "worker", id, m)
	box := w.Inbox(older, "worker")
	w.clobber(box, id)
	if got := e.receipt(id, api.Lost); got.Reason == "" || got.LostAt == nil {
		t.Errorf("receipt %+v", got)
	}
	_, err := w.s.Send(w.ctx, older, "worker", id, m)
	w.fails(err, api.CodeUnknown)
	if rows, err := box.Read(t.Context()); err != nil || slices.ContainsFunc(rows, func(r inbox.Row) bool { return r.ID() == id }) {
		t.Errorf("it is back in the inbox: %v, %v", rows, err)
	}
	m.Force = true
	w.send(older, "worker", id, m)
	if got := e.receipt(id, api.Verified); got.Reason != "" || got.LostAt != nil {
		t.Errorf("receipt %+v", got)
	}
	_, err = box.MarkRead(t.Context(), id)
	w.must(err)
	e.receipt(id, api.Consumed)
}

// clobber writes an inbox without some of its rows, as a tool does that ignores the lock, or has read it before they came.
func (w *world) clobber(box *inbox.Inbox, ids ...string) {
	w.Helper()
	taken, err := teamstest.Take(w.ctx, box, func(r inbox.Row) bool { return slices.Contains(ids, r.ID()) })
	if err != nil || len(taken) != len(ids) {
		w.Fatalf("%d rows, %v", len(taken), err)
	}
}

// The next service follows the messages that a service had sent before it ended.
func TestFollowedOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	early := w.send(older, "worker", "", api.NewMessage{Text: "taken while nobody looks"})
	late := w.send(older, "worker", "", api.NewMessage{Text: "taken later"})
	w.events("", "0").receipt(late.ID, api.Verified)
	last := fmt.Sprint(w.page(older, api.MessageQuery{}).Seq)
	w.end()
	box := w.Inbox(older, "worker")
	_, err := box.MarkRead(t.Context(), early.ID)
	w.must(err)
	w.start()
	e := w.events("", last)
	e.receipt(early.ID, api.Consumed)
	_, err = box.MarkRead(t.Context(), late.ID)
	w.must(err)
	e.receipt(late.ID, api.Consumed)
}

// The person's names in a team are known after it has ended, so their messages can be recognized.
func TestMessagesTellWhoThePersonWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	c, err := w.Team(newer).Config(t.Context())
	w.must(err)
	at := c.Instance().CreatedAt
	for i, name := range []string{"operator", "somebody"} { // a person of another team with that name
		w.must(w.ledger.Teams.Joined(t.Context(), ledger.Join{Root: w.Root.Path(), Team: newer, CreatedAt: at + int64(i), Member: name, AgentID: name + "@t", At: time.Now()}))
	}
	w.Send(newer, "operator", "worker", "hello")
	w.recorded(newer, "recorded", func(m api.Record) bool { return m.Text == "hello" })
	for _, when := range []string{"while it exists", "after it ended"} {
		if ours := w.page(newer, api.MessageQuery{CreatedAt: at}).Ours; !slices.Equal(ours, []string{"user", "operator"}) {
			t.Errorf("%s: %q", when, ours)
		}
		_ = os.Rename(w.Path(newer), w.Path(newer)+".ended") // the second time, it does not exist
	}
}

// Confirmations are left out, unless they are asked for. The messages of a team that is gone are still there.
func TestMessagesOfATeamThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	q := api.MessageQuery{With: "worker", Limit: 500}
	whole := w.page(older, q)
	q.Protocol = true
	protocol := w.page(older, q)
	noise := func(r api.Record) bool { return r.Noise }
	if len(protocol.Messages) <= len(whole.Messages) || slices.ContainsFunc(whole.Messages, noise) || !slices.ContainsFunc(protocol.Messages, noise) {
		t.Errorf("with confirmations %d messages, without %d", len(protocol.Messages), len(whole.Messages))
	}
	e := w.events("", "")
	w.must(os.RemoveAll(w.Path(older)))
	e.shows(func(s *api.Snapshot) bool { return len(s.Teams) == 1 })
	if left := w.page(older, q); len(left.Messages) != len(protocol.Messages) {
		t.Errorf("of a team that is gone: %v, want %v", lines(left.Messages), lines(protocol.Messages))
	}
}

// A page has a limit in bytes as well as in messages, and the next page continues after it. A message that is
// larger than the limit is on a page alone.
func TestLargePages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const rows = 12
	var all []string
	for n := range rows {
		size := history.AnswerBytes / 10
		if n == rows/2 {
			size = history.AnswerBytes + 1
		}
		all = append(all, fmt.Sprintf(`{"from":"worker","text":"%d %s","timestamp":"2026-11-20T17:48:11.432Z","read":false}`, n, strings.Repeat("x", size)))
	}
	w.must(os.WriteFile(w.Inbox(older, "user").Path(), []byte("["+strings.Join(all, ",")+"]"), 0o600))
	w.start()
	for _, q := range []api.MessageQuery{{}, {Forward: true}} {
		q.Inbox, q.Limit = "user", 500
		seen, pages := map[string]bool{}, 0
		for more := true; more; pages++ {
			page := w.page(older, q)
			if more = page.More; len(page.Messages) == 0 {
				t.Fatalf("%+v: nothing in a page, although there was more", q)
			}
			size := 0
			for _, m := range page.Messages {
				size += len(m.Text)
				number, _, _ := strings.Cut(m.Text, " ")
				if seen[number] {
					t.Errorf("%+v: message %s again", q, number)
				}
				seen[number] = true
			}
			if size > history.AnswerBytes+1<<20 && len(page.Messages) > 1 {
				t.Errorf("%+v: %d bytes for %d messages", q, size, len(page.Messages))
			}
			if q.Forward {
				q.After = page.Messages[len(page.Messages)-1].Seq
			} else {
				q.Before = page.Messages[0].Seq
			}
		}
		if len(seen) != rows || pages < 3 {
			t.Errorf("%+v: %d messages in %d pages, want %d", q, len(seen), pages, rows)
		}
	}
}
