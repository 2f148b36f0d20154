package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
)

// worker is the agent of a team that the tests have say things.
type worker struct {
	*running
	t    testing.TB
	j    *journal.Journal
	key  journal.InboxKey
	said int
	at   time.Time
}

// worker opens the journal for the worker of a team. The service notices what it records within
// a second, as it does of other processes.
func (r *running) worker(t testing.TB, team string) *worker {
	t.Helper()
	w := r.world
	j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	of, err := w.Root.Team(team)
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	c, err := of.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &worker{running: r, t: t, j: j, key: journal.InboxKey{Root: w.Root.Path(), Team: c.Instance(), Inbox: "worker"}, at: time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)}
}

// says records envelopes with these events, each a second after the one before.
func (w *worker) says(events ...string) {
	w.t.Helper()
	for _, event := range events {
		w.said++
		w.at = w.at.Add(time.Second)
		w.record(w.envelope(fmt.Sprint("e", w.said), event))
	}
}

func (w *worker) envelope(id, event string) journal.Envelope {
	w.t.Helper()
	var ev struct{ T, Call, Text, Title string }
	if err := json.Unmarshal([]byte(event), &ev); err != nil {
		w.t.Fatal(err)
	}
	return journal.Envelope{
		InboxKey: w.key, ID: id, Session: "s", Turn: "t", Call: ev.Call, Kind: ev.T, Role: "agent", At: w.at, Text: ev.Text + ev.Title,
		Raw: fmt.Appendf(nil, `{"id":%q,"time":%d,"role":"agent","turn":"t","ev":%s}`, id, w.at.UnixMilli(), event),
	}
}

func (w *worker) record(list ...journal.Envelope) {
	w.t.Helper()
	if _, err := w.j.RecordEnvelopes(w.t.Context(), list...); err != nil {
		w.t.Fatal(err)
	}
}

func text(s string) string { return fmt.Sprintf(`{"t":"text","text":%q}`, s) }

const (
	startTool = `{"t":"tool-call-start","call":"c","name":"Bash","title":"run ` + "`go test ./...`" + `","description":"tests","args":{}}`
	endTool   = `{"t":"tool-call-end","call":"c","outcome":"done"}`
	startTurn = `{"t":"turn-start"}`
	endTurn   = `{"t":"turn-end","status":"completed"}`
	thought   = `{"t":"text","text":"let me think","thinking":true}`
)

// lines is records as text.
func lines(list []api.Record) (all []string) {
	for _, m := range list {
		all = append(all, m.Kind+": "+m.Text)
	}
	return all
}

// What an agent says and does is its side of the conversation, in one order with the
// messages.
func TestConversationWithWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	base := "/v1/teams/" + older + "/messages?after=" + fmt.Sprint(get[api.Page](t, r, "/v1/teams/"+older+"/messages").Seq)
	of[api.Sent](t, r.ask(t, "POST", "/v1/teams/"+older+"/members/worker/messages", `{"text":"test it"}`), http.StatusCreated)
	a := r.worker(t, older)
	a.says(startTurn, thought, text("I test it."), startTool, endTool, text("All is well."), endTurn)
	told := a.envelope("user", text("test it"))
	told.Role, told.Raw = "user", []byte(strings.Replace(string(told.Raw), `"agent"`, `"user"`, 1))
	a.record(told)
	if _, err := a.j.CopyEvents(t.Context(), "ledger", journal.RelayEvent{
		N: 1, Root: a.key.Root, Team: a.key.Team, Inbox: "worker", At: a.at, Answer: "t",
		Row: []byte(`{"from":"worker","text":"All is well.","timestamp":"2026-11-16T09:00:00.000Z","type":"answer","messageId":"t","inReplyTo":[]}`),
	}); err != nil {
		t.Fatal(err)
	}
	all := []string{"message: test it", "thinking: let me think", "text: I test it.", "tool: ran `go test ./...` · 1.0 s", "answer: All is well."}
	shown := slices.Concat(all[:1], all[2:])
	messages := []string{all[0], all[4]}
	for query, want := range map[string][]string{
		"": shown, "&work=true": shown, "&thinking=true": all, "&work=false": messages, "&work=false&thinking=true": messages,
		"&with=worker": shown, "&inbox=worker": shown, "&from=worker": shown[1:], "&from=worker&inbox=worker&work=true": shown[1:], "&with=team-lead": nil,
	} {
		if diff := cmp.Diff(want, lines(get[api.Page](t, r, base+query).Messages)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	if slices.ContainsFunc(get[api.Page](t, r, "/v1/teams/"+newer+"/messages").Messages, func(r api.Record) bool { return r.Work != nil }) {
		t.Error("the other team has work")
	}
	problem(t, r.ask(t, "GET", base+"&work=no", ""), api.CodeUsage)
}

// Pages of both kinds have as many as are asked for, none twice, and say whether there are
// more, in both directions.
func TestPagesWithWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	base := "/v1/teams/" + older + "/messages?"
	first := get[api.Page](t, r, base).Seq
	a := r.worker(t, older)
	for n := range 12 {
		a.says(startTurn, thought, text(fmt.Sprint("step ", n)), strings.ReplaceAll(startTool, `"c"`, fmt.Sprintf(`"c%d"`, n)))
		if n%3 == 0 {
			of[api.Sent](t, r.ask(t, "POST", "/v1/teams/"+older+"/members/worker/messages", fmt.Sprintf(`{"text":"message %d"}`, n)), http.StatusCreated)
		}
		a.says(strings.ReplaceAll(endTool, `"c"`, fmt.Sprintf(`"c%d"`, n)), endTurn)
	}
	all := get[api.Page](t, r, fmt.Sprintf("%safter=%d&limit=500", base, first))
	if len(all.Messages) != 28 || all.More {
		t.Fatalf("there are %d, more %v; want 28: %v", len(all.Messages), all.More, lines(all.Messages))
	}
	for _, more := range []string{"", "&with=worker"} {
		for _, limit := range []int{1, 2, 3, 7, 14, 27, 28, 29} {
			for _, forward := range []bool{true, false} {
				var got []api.Record
				at := fmt.Sprintf("after=%d", first)
				if !forward {
					at = fmt.Sprintf("after=%d&before=%d", first, all.Seq+1)
				}
				for done := false; !done; {
					page := get[api.Page](t, r, fmt.Sprintf("%s%s&limit=%d%s", base, at, limit, more))
					n := len(page.Messages)
					if left := len(all.Messages) - len(got); n != min(limit, left) || page.More != (left > limit) {
						t.Fatalf("limit %d, %s: %d items and more %v of %d", limit, at, n, page.More, left)
					}
					if forward {
						got = append(got, page.Messages...)
						at = fmt.Sprintf("after=%d", got[len(got)-1].Seq)
					} else {
						got = slices.Concat(page.Messages, got)
						at = fmt.Sprintf("after=%d&before=%d", first, got[0].Seq)
					}
					done = !page.More
				}
				if diff := cmp.Diff(lines(all.Messages), lines(got)); diff != "" {
					t.Fatalf("limit %d, forward %v (-want +got):\n%s", limit, forward, diff)
				}
			}
		}
	}
}

func TestSearchFindsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	a := r.worker(t, older)
	a.says(text("zebra one"), thought)
	of[api.Sent](t, r.ask(t, "POST", "/v1/teams/"+older+"/members/worker/messages", `{"text":"zebra two"}`), http.StatusCreated)
	a.says(strings.Replace(startTool, "go test ./...", "zebra --three", 1), endTool, `{"t":"service","text":"zebra 🦓"}`)
	find := func(words, more string) (list []string, isMore bool) {
		t.Helper()
		found := get[api.Found](t, r, "/v1/search?q="+url.QueryEscape(words)+more)
		for _, h := range found.Hits {
			list = append(list, h.Kind+": "+h.Text)
		}
		return list, found.More
	}
	all := []string{"service: zebra 🦓", "tool: ran `zebra --three` · 1.0 s", "message: zebra two", "text: zebra one"}
	for _, test := range []struct {
		words, more string
		want        []string
		isMore      bool
	}{
		{words: "zebra", want: all}, {words: "zebra", more: "&work=false", want: all[2:3]}, {words: "zebra", more: "&limit=3", want: all[:3], isMore: true},
		{words: "zebra", more: "&limit=4", want: all}, {words: "zebra", more: "&from=worker&team=" + older, want: slices.Concat(all[:2], all[3:])},
		{words: "zebra", more: "&team=" + newer}, {words: "🦓", want: all[:1]}, {words: "think"}, {words: "think", more: "&thinking=true", want: []string{"thinking: let me think"}},
	} {
		got, isMore := find(test.words, test.more)
		if diff := cmp.Diff(test.want, got); diff != "" || isMore != test.isMore {
			t.Errorf("%s%s: more %v (-want +got):\n%s", test.words, test.more, isMore, diff)
		}
	}
	// With before, the rest.
	second := get[api.Found](t, r, "/v1/search?q=zebra&limit=2").Hits[1]
	if got, more := find("zebra", fmt.Sprint("&before=", second.Seq)); !slices.Equal(got, all[2:]) || more {
		t.Errorf("before %d: %v, more %v", second.Seq, got, more)
	}
}

// relayed has the service know a relay for the worker of a team. A service that is read-only
// does not run it.
func (w *world) relayed(t testing.TB, team string) string {
	t.Helper()
	l, err := ledger.Open(t.Context(), filepath.Join(w.State, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e, err := l.AddRelay(t.Context(), ledger.Relay{Root: w.Root.Path(), Team: team, Member: "worker", Command: []string{"claude"}, Dir: t.TempDir(), OnCut: "nudge", Permissions: "deny"})
	if err != nil {
		t.Fatal(err)
	}
	return "/v1/relays/" + e.ID + "/events"
}

func readOnly(s *Server) { s.opts.ReadOnly = true }

func TestEnvelopesOfARelay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.relayed(t, older)
	r := w.start(t, readOnly)
	a, other := r.worker(t, older), r.worker(t, newer)
	events := []string{startTurn, startTool, endTool, text("done"), endTurn}
	for _, e := range events {
		a.says(e)
		other.says(e)
	}
	all := get[api.Envelopes](t, r, path)
	if len(all.Envelopes) != len(events) || all.More || all.Seq < all.Envelopes[4].Seq {
		t.Fatalf("envelopes %+v", all)
	}
	for i, e := range all.Envelopes {
		var shape struct{ Ev json.RawMessage }
		if err := json.Unmarshal(e.Envelope, &shape); err != nil || string(shape.Ev) != events[i] || e.Member != "worker" || e.Team != older || e.Session != "s" {
			t.Errorf("envelope %d is %+v, %v", i, e, err)
		}
		if (e.Record != nil) != (i > 0 && i < 4) {
			t.Errorf("envelope %d has the record %+v", i, e.Record)
		}
	}
	if start, end := all.Envelopes[1], all.Envelopes[2]; end.Record.Seq != start.Seq || end.Record.Work.State != api.WorkDone || end.Record.Text != "ran `go test ./...` · 1.0 s" {
		t.Errorf("the end of the tool call makes %+v", end.Record)
	}
	seq := func(i int) int64 { return all.Envelopes[i].Seq }
	for query, want := range map[string]string{
		"?limit=2": "3 4 more", "?limit=5": "0 1 2 3 4", fmt.Sprint("?before=", seq(3), "&limit=2"): "1 2 more",
		"?after=0&limit=2": "0 1 more", fmt.Sprint("?after=", seq(2)): "3 4", fmt.Sprint("?after=", seq(1), "&before=", seq(4), "&limit=2"): "2 3", fmt.Sprint("?after=", seq(4)): "",
	} {
		page := get[api.Envelopes](t, r, path+query)
		var got []string
		for _, e := range page.Envelopes {
			got = append(got, fmt.Sprint(slices.IndexFunc(all.Envelopes, func(o api.Envelope) bool { return o.Seq == e.Seq })))
		}
		if page.More {
			got = append(got, "more")
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", query, got, want)
		}
	}
	problem(t, r.ask(t, "GET", path+"?limit=0", ""), api.CodeUsage)
	problem(t, r.ask(t, "GET", path+"?after=x", ""), api.CodeUsage)
	problem(t, r.ask(t, "GET", path+"?limit=1", "", "Accept", "text/event-stream"), api.CodeUsage)
	problem(t, r.ask(t, "GET", "/v1/relays/nobody/events", ""), api.CodeNotFound)
	problem(t, r.ask(t, "GET", "/v1/relays/nobody/events", "", "Accept", "text/event-stream"), api.CodeNotFound)
}

// Each stream with envelopes goes on where its client was: after a broken connection, after a
// restart of the service, and while more comes.
func TestEnvelopeStreamsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	relay := w.relayed(t, older)
	r := w.start(t, readOnly)
	a, other := r.worker(t, older), r.worker(t, newer)
	lead := r.worker(t, older)
	lead.key.Inbox = "team-lead"
	begin := get[api.Envelopes](t, r, relay).Seq
	last := map[string]string{relay: fmt.Sprint(begin), "/v1/events?team=" + older: fmt.Sprint(begin), "/v1/events": fmt.Sprint(begin)}
	got := map[string][]string{}
	const rounds = 4
	for round := range rounds {
		for n := range 3 {
			a.says(text(fmt.Sprint("mine ", round, n)))
			lead.says(text(fmt.Sprint("lead ", round, n)))
			other.says(text(fmt.Sprint("other ", round, n)))
		}
		for path := range last {
			query, each := "", map[string]int{relay: 3, "/v1/events?team=" + older: 6, "/v1/events": 9}[path] // in this round
			header := last[path]
			if round == 0 { // a number of the journal, as from a page
				separator := "?"
				if strings.Contains(path, "?") {
					separator = "&"
				}
				query, header = separator+"after="+header, ""
			}
			e := r.stream(t, path+query, header)
			for range each {
				ev := e.until(api.EventEnvelope, nil)
				got[path] = append(got[path], as[api.Envelope](t, ev).Record.Text)
				last[path] = ev.id
			}
			e.close()
		}
		if round == 1 {
			r.end(t)
			r = w.start(t, readOnly)
			a.running, lead.running, other.running = r, r, r
		}
	}
	var mine, ours, all []string
	for round := range rounds {
		for n := range 3 {
			mine = append(mine, fmt.Sprint("mine ", round, n))
			ours = append(ours, fmt.Sprint("mine ", round, n), fmt.Sprint("lead ", round, n))
			all = append(all, fmt.Sprint("mine ", round, n), fmt.Sprint("lead ", round, n), fmt.Sprint("other ", round, n))
		}
	}
	want := map[string][]string{relay: mine, "/v1/events?team=" + older: ours, "/v1/events": all}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What was pruned cannot be told; the stream goes on after that.
	if p, err := a.j.PruneEnvelopes(t.Context(), time.Now()); err != nil || p.Envelopes == 0 {
		t.Fatalf("pruned %+v, %v", p, err)
	}
	kept := r.stream(t, relay, last["/v1/events"])
	old := r.stream(t, relay+fmt.Sprint("?after=", begin), "")
	ev, err := old.next()
	if err != nil || ev.name != api.EventReset {
		t.Fatalf("first comes %s %s, %v", ev.name, ev.data, err)
	}
	a.at = time.Now()
	a.says(text("later"))
	for name, e := range map[string]*events{"that was up to date": kept, "that was told to begin again": old} {
		ev, err := e.next()
		if err != nil || ev.name != api.EventEnvelope || as[api.Envelope](t, ev).Record.Text != "later" {
			t.Errorf("the stream %s gets %s %s, %v", name, ev.name, ev.data, err)
		}
	}
}

// The event of a tool call that ends has the record of its start.
func TestStreamShowsTheEndOfAToolCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.relayed(t, older)
	r := w.start(t, readOnly)
	a := r.worker(t, older)
	e := r.stream(t, path, "")
	if _, err := e.in.ReadString('\n'); err != nil { // it has begun
		t.Fatal(err)
	}
	a.says(startTool)
	first := as[api.Envelope](t, e.until(api.EventEnvelope, nil)).Record
	a.says(endTool)
	second := as[api.Envelope](t, e.until(api.EventEnvelope, nil)).Record
	if first == nil || first.Text != "runs `go test ./...`" || first.Work.State != api.WorkRunning || first.Work.Ended != nil {
		t.Errorf("first %+v", first)
	}
	if second == nil || second.Seq != first.Seq || second.Text != "ran `go test ./...` · 1.0 s" || second.Work.State != api.WorkDone || second.Work.Ended == nil {
		t.Errorf("then %+v", second)
	}
}

// Two processes that read one transcript, such as a service and the one that takes over from
// it, tell of each envelope once.
func TestStreamTellsOnceWhatWasRecordedTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.relayed(t, older)
	r := w.start(t, readOnly)
	a, b := r.worker(t, older), r.worker(t, older)
	b.at = a.at
	e := r.stream(t, path+"?after=0", "")
	const many = 50
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := range many {
			if _, err := b.j.RecordEnvelopes(t.Context(), b.envelope(fmt.Sprint("e", n), text(fmt.Sprint("step ", n)))); err != nil {
				t.Error(err)
			}
		}
	}()
	for n := range many {
		a.record(a.envelope(fmt.Sprint("e", n), text(fmt.Sprint("step ", n))))
	}
	<-done
	a.said = many
	a.says(text("end"))
	var got []string
	for len(got) == 0 || got[len(got)-1] != "end" {
		got = append(got, as[api.Envelope](t, e.until(api.EventEnvelope, nil)).Record.Text)
	}
	for n := range many {
		if got[n] != fmt.Sprint("step ", n) {
			t.Fatalf("got %v", got)
		}
	}
	if len(got) != many+1 {
		t.Errorf("got %d, want %d", len(got), many+1)
	}
}

// The service deletes what agents did long ago.
func TestOldWorkIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, readOnly) // which deletes nothing
	a := r.worker(t, older)
	a.at = time.Now().Add(-KeepWork - time.Hour)
	a.says(text("long ago"))
	a.at = time.Now().Add(-KeepWork + time.Hour)
	a.says(text("not so long ago"))
	left := func() []string {
		return lines(get[api.Page](t, r, "/v1/teams/"+older+"/messages?from=worker&after=0&limit=500").Messages)
	}
	if !slices.Contains(left(), "text: long ago") {
		t.Fatal("it was not recorded")
	}
	r.end(t)
	r = w.start(t)
	for end := time.After(patience); slices.Contains(left(), "text: long ago"); {
		select {
		case <-end:
			t.Fatal("it is never deleted")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if got := left(); !slices.Contains(got, "text: not so long ago") {
		t.Errorf("left %v, want what is not too old", got)
	}
}

// BenchmarkEnvelopeToStream measures the time from when another process begins to record what an
// agent said until a client of its stream has it. The service looks for that each millisecond.
//
//	go test -run '^$' -bench EnvelopeToStream -benchtime 1000x ./status/server
func BenchmarkEnvelopeToStream(b *testing.B) {
	w := newWorld(b)
	path := w.relayed(b, older)
	r := w.start(b, readOnly, func(s *Server) { s.core.Tick = 2 * time.Millisecond })
	a := r.worker(b, older)
	e := r.stream(b, path+"?after=0", "")
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		said := a.envelope(fmt.Sprint("e", n), text(fmt.Sprintf("step %d: I look at the tests of the parser", n)))
		start := time.Now()
		a.record(said)
		e.until(api.EventEnvelope, nil)
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
}
