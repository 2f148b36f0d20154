package bridge_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/client"
	"teambridge/status/history"
	"teambridge/status/service"
)

// worker is the agent of a team, for which the tests record texts, as another process does.
type worker struct {
	*world
	j    *journal.Journal
	key  inbox.InboxKey
	said int
	at   time.Time
}

func (w *world) worker(team string) *worker {
	w.Helper()
	j, err := journal.Open(w.ctx, filepath.Join(w.State, "journal.db"))
	w.must(err)
	w.Cleanup(func() { _ = j.Close() })
	c, err := w.Team(team).Config(w.ctx)
	w.must(err)
	return &worker{world: w, j: j, key: inbox.Key(w.Root.Path(), c.Instance(), "worker"), at: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)}
}

// says records envelopes with these events, one second apart.
func (w *worker) says(events ...string) {
	w.Helper()
	for _, event := range events {
		w.said++
		w.at = w.at.Add(time.Second)
		w.record(w.envelope(fmt.Sprint("e", w.said), event))
	}
}

func (w *worker) envelope(id, event string) journal.Envelope {
	w.Helper()
	var ev struct{ T, Call string }
	w.must(json.Unmarshal([]byte(event), &ev))
	return journal.Envelope{
		InboxKey: w.key, ID: id, Session: "s", Turn: "t", Call: ev.Call, Kind: ev.T, Role: "agent", At: w.at,
		Raw: fmt.Appendf(nil, `{"id":%q,"time":%d,"role":"agent","turn":"t","ev":%s}`, id, w.at.UnixMilli(), event),
	}
}

func (w *worker) record(e journal.Envelope) {
	w.Helper()
	_, err := w.j.Envelopes.Record(w.ctx, e)
	w.must(err)
}

func text(s string) string { return fmt.Sprintf(`{"t":"text","text":%q}`, s) }

const (
	startTool = `{"t":"tool-call-start","call":"c","name":"Bash","title":"run ` + "`go test ./...`" + `","description":"tests","args":{}}`
	endTool   = `{"t":"tool-call-end","call":"c","outcome":"done"}`
	startTurn = `{"t":"turn-start"}`
	endTurn   = `{"t":"turn-end","status":"completed"}`
	thought   = `{"t":"text","text":"let me think","thinking":true}`
)

// lines returns records as text.
func lines(list []api.Record) (all []string) {
	for _, m := range list {
		all = append(all, m.Kind+": "+m.Text)
	}
	return all
}

// An agent's work is its side of the conversation, in one order with the messages, and can be searched.
func TestConversationWithWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	begin := w.page(older, api.MessageQuery{}).Seq
	w.send(older, "worker", "", api.NewMessage{Text: "test it"})
	a := w.worker(older)
	a.says(startTurn, thought, text("I test it."), startTool, endTool, text("All is well."), endTurn)
	told := a.envelope("user", text("test it"))
	told.Role, told.Raw = "user", []byte(strings.Replace(string(told.Raw), `"agent"`, `"user"`, 1))
	a.record(told)
	_, err := a.j.RelayEvents.CopyEvents(t.Context(), nil, ledger.Event{
		N: 1, InboxKey: a.key, At: a.at, Answer: "t",
		Row: []byte(`{"from":"worker","text":"All is well.","timestamp":"2026-11-16T09:00:00.000Z","type":"answer","messageId":"t","inReplyTo":[]}`),
	})
	w.must(err)
	all := []string{"message: test it", "thinking: let me think", "text: I test it.", "tool: ran `go test ./...` · 1.0 s", "answer: All is well."}
	shown, messages := slices.Concat(all[:1], all[2:]), []string{all[0], all[4]}
	for _, tc := range []struct {
		q    api.MessageQuery
		want []string
	}{
		{api.MessageQuery{}, shown}, {api.MessageQuery{Thinking: true}, all}, {api.MessageQuery{MessagesOnly: true, Thinking: true}, messages},
		{api.MessageQuery{With: "worker"}, shown}, {api.MessageQuery{Inbox: "worker"}, shown}, {api.MessageQuery{From: "worker"}, shown[1:]},
		{api.MessageQuery{From: "worker", Inbox: "worker"}, shown[1:]}, {api.MessageQuery{With: "team-lead"}, nil},
	} {
		tc.q.After, tc.q.Forward = begin, true
		if diff := cmp.Diff(tc.want, lines(w.page(older, tc.q).Messages)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.q, diff)
		}
	}
	if slices.ContainsFunc(w.page(newer, api.MessageQuery{}).Messages, func(r api.Record) bool { return r.Work != nil }) {
		t.Error("the other team has work")
	}

	for _, tc := range []struct {
		q    api.SearchQuery
		want []string // the newest first
		more bool
	}{
		{api.SearchQuery{Words: "test"}, []string{all[3], all[2], all[0]}, false}, {api.SearchQuery{Words: "test", MessagesOnly: true}, all[:1], false},
		{api.SearchQuery{Words: "test", Limit: 2}, []string{all[3], all[2]}, true}, {api.SearchQuery{Words: "test", From: "worker", Team: older}, []string{all[3], all[2]}, false},
		{api.SearchQuery{Words: "test", Team: newer}, nil, false}, {api.SearchQuery{Words: "think"}, nil, false}, {api.SearchQuery{Words: "think", Thinking: true}, all[1:2], false},
	} {
		found, err := w.s.History(w.ctx, tc.q)
		var got []string
		for _, h := range found.Hits {
			got = append(got, h.Kind+": "+h.Text)
		}
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" || found.More != tc.more {
			t.Errorf("%+v: more %v, %v (-want +got):\n%s", tc.q, found.More, err, diff)
		}
	}
}

// Pages of both kinds have as many records as requested, none twice, and say if there are more in each direction.
func TestPagesWithWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	first := w.page(older, api.MessageQuery{}).Seq
	a := w.worker(older)
	for n := range 12 {
		a.says(startTurn, thought, text(fmt.Sprint("step ", n)), strings.ReplaceAll(startTool, `"c"`, fmt.Sprintf(`"c%d"`, n)))
		if n%3 == 0 {
			w.send(older, "worker", "", api.NewMessage{Text: fmt.Sprint("message ", n)})
		}
		a.says(strings.ReplaceAll(endTool, `"c"`, fmt.Sprintf(`"c%d"`, n)), endTurn)
	}
	all := w.page(older, api.MessageQuery{After: first, Forward: true, Limit: 500})
	if len(all.Messages) != 28 || all.More {
		t.Fatalf("there are %d, more %v; want 28: %v", len(all.Messages), all.More, lines(all.Messages))
	}
	for _, limit := range []int{3, 14, 28, 29} {
		for _, forward := range []bool{true, false} {
			var got []api.Record
			q := api.MessageQuery{After: first, Forward: forward, Limit: limit, With: "worker"}
			if !forward {
				q.Before = all.Seq + 1
			}
			for done := false; !done; {
				page := w.page(older, q)
				if left := len(all.Messages) - len(got); len(page.Messages) != min(limit, left) || page.More != (left > limit) {
					t.Fatalf("%+v: %d items and more %v of %d", q, len(page.Messages), page.More, left)
				}
				if forward {
					got = append(got, page.Messages...)
					q.After = got[len(got)-1].Seq
				} else {
					got = slices.Concat(page.Messages, got)
					q.Before = got[0].Seq
				}
				done = !page.More
			}
			if diff := cmp.Diff(lines(all.Messages), lines(got)); diff != "" {
				t.Fatalf("limit %d, forward %v (-want +got):\n%s", limit, forward, diff)
			}
		}
	}
}

// added adds a relay for the worker of a team to the ledger. A read-only service does not run it.
func (w *world) added(team string) (id string) {
	w.Helper()
	l, err := ledger.Open(w.ctx, filepath.Join(w.State, "ledger.db"))
	w.must(err)
	defer l.Close()
	e, err := l.Relays.Add(w.ctx, ledger.Relay{Root: w.Root.Path(), Team: team, Member: "worker", Command: []string{"claude"}, Dir: w.TempDir(), OnCut: "nudge", Permissions: "deny"})
	w.must(err)
	return e.ID
}

// agent begins a stream of one agent's events.
func (w *world) agent(team string) (next func() *api.Envelope) {
	w.Helper()
	s, err := w.s.Stream(w.ctx, history.EventQuery{Team: team, Agent: "worker"})
	w.must(err)
	all := make(chan *api.Envelope, 100)
	go func() {
		_ = s.Run(w.ctx, history.Sink{Event: func(e api.Event) error {
			all <- e.Envelope
			return nil
		}})
	}()
	return func() *api.Envelope {
		w.Helper()
		select {
		case e := <-all:
			return e
		case <-w.ctx.Done():
			w.Fatal("nothing comes")
			return nil
		}
	}
}

// The envelopes of a relay are its agent's, as recorded, page by page. The agent's stream has them, too. The
// event of the end of a tool call has the record of its start.
func TestEnvelopesOfARelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	relay := w.added(older)
	w.start(readOnly)
	if list, err := w.s.Relays(w.ctx, ""); err != nil || len(list) != 1 || list[0].Running || list[0].Reason != "the service is read-only" {
		t.Errorf("the relays are %+v, %v", list, err)
	}
	a, other := w.worker(older), w.worker(newer)
	next := w.agent(older)
	events := []string{startTurn, startTool, endTool, text("done"), endTurn}
	for i, e := range events {
		other.says(e)
		a.says(e)
		switch told := next(); i {
		case 1:
			if told.Record == nil || told.Record.Text != "runs `go test ./...`" || told.Record.Work.State != api.WorkRunning || told.Record.Work.Ended != nil {
				t.Errorf("told %+v", told.Record)
			}
		case 2:
			if told.Record == nil || told.Record.Text != "ran `go test ./...` · 1.0 s" || told.Record.Work.State != api.WorkDone || told.Record.Work.Ended == nil {
				t.Errorf("told %+v", told.Record)
			}
		}
	}
	all, err := w.s.Work(w.ctx, relay, api.MessageQuery{Limit: api.DefaultMessages})
	if err != nil || len(all.Envelopes) != len(events) || all.More || all.Seq < all.Envelopes[4].Seq {
		t.Fatalf("envelopes %+v, %v", all, err)
	}
	for i, e := range all.Envelopes {
		var shape struct{ Ev json.RawMessage }
		if err := json.Unmarshal(e.Envelope, &shape); err != nil || string(shape.Ev) != events[i] || e.Member != "worker" || e.Team != older || e.Session != "s" || (e.Record != nil) != (i > 0 && i < 4) {
			t.Errorf("envelope %d is %+v, %v", i, e, err)
		}
	}
	if start, end := all.Envelopes[1], all.Envelopes[2]; end.Record.Seq != start.Seq || end.Record.Work.State != api.WorkDone {
		t.Errorf("the end of the tool call makes %+v", end.Record)
	}
	seq := func(i int) int64 { return all.Envelopes[i].Seq }
	for _, tc := range []struct {
		q    api.MessageQuery
		want string
	}{
		{api.MessageQuery{Limit: 2}, "3 4 more"}, {api.MessageQuery{Before: seq(3), Limit: 2}, "1 2 more"}, {api.MessageQuery{Forward: true, Limit: 2}, "0 1 more"},
		{api.MessageQuery{After: seq(1), Forward: true, Before: seq(4), Limit: 2}, "2 3"}, {api.MessageQuery{After: seq(4), Forward: true, Limit: 2}, ""},
	} {
		page, err := w.s.Work(w.ctx, relay, tc.q)
		w.must(err)
		var got []string
		for _, e := range page.Envelopes {
			got = append(got, fmt.Sprint(slices.IndexFunc(all.Envelopes, func(o api.Envelope) bool { return o.Seq == e.Seq })))
		}
		if page.More {
			got = append(got, "more")
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%+v: %v, want %s", tc.q, got, tc.want)
		}
	}
	_, err = w.s.Work(w.ctx, "nobody", api.MessageQuery{})
	w.fails(err, api.CodeNotFound)
}

// The service deletes old work of agents.
func TestOldWorkIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(readOnly) // which deletes nothing
	a := w.worker(older)
	const keep = 24 * time.Hour
	a.at = time.Now().Add(-keep - time.Hour)
	a.says(text("long ago"))
	a.at = time.Now().Add(-keep + time.Hour)
	a.says(text("not so long ago"))
	left := func() ([]string, error) {
		return lines(w.page(older, api.MessageQuery{From: "worker", Limit: 500}).Messages), nil
	}
	if list, _ := left(); !slices.Contains(list, "text: long ago") {
		t.Fatal("it was not recorded")
	}
	w.end()
	w.start(func(o *service.Options) { o.KeepWork = keep })
	if got := until(w, "deleted", left, func(l []string) bool { return !slices.Contains(l, "text: long ago") }); !slices.Contains(got, "text: not so long ago") {
		t.Errorf("left %v, want what is not too old", got)
	}
}

// Records between the begin of a stream and its first event are not lost.
func TestEventsBeginOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.worker(older)
	o := options(t, w.Fixture)
	o.Debug = func(format string, _ ...any) {
		if format == "watching" {
			a.says(text("first"))
		}
	}
	for e, err := range bridge.New(o).Events(w.ctx, older, client.Now) {
		w.must(err)
		if e.Envelope != nil {
			if e.Envelope.Record.Text != "first" {
				t.Errorf("the first is %q", e.Envelope.Record.Text)
			}
			return
		}
		if e.Snapshot != nil {
			a.says(text("second"))
		}
	}
}
