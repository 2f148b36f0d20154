package bridge_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/service"
	"teambridge/status/view"
	"teambridge/teams/teamstest"
	"teambridge/teams/transcript"
)

// simulated creates the team quick with a worker that reads its inbox at an interval; 0: the worker is absent.
// It marks the rows that it took and keeps them, or it removes them.
func (w *world) simulated(marks bool, poll time.Duration) *simagent.Team {
	w.Helper()
	team, err := simagent.Create(w.ctx, simagent.TeamOptions{
		Root: w.Root.Path(), Marks: marks, Name: "quick", Poll: poll, Members: []simagent.Member{{Name: "worker", Absent: poll == 0}},
		Report: func(error) {}, // a lock that it does not get comes again
	})
	w.must(err)
	return team
}

// play runs the agents of a team until stop, or the end of the test.
func (w *world) play(team *simagent.Team) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- team.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-over; err != nil {
			w.Error(err)
		}
		over <- nil
	}
	w.Cleanup(stop)
	return stop
}

// receipts waits until all of these messages have a final state, and returns their receipts.
func (w *world) receipts(ids ...string) map[string]api.Receipt {
	w.Helper()
	rec, err := w.s.Record(w.ctx, "")
	w.must(err)
	defer rec.Close()
	for {
		got := map[string]api.Receipt{}
		for rc, err := range w.journal.Receipts.All(w.ctx, journal.Query{Root: w.Root.Path()}) {
			if w.must(err); rc.State != inbox.Unconsumed && slices.Contains(ids, rc.ID) {
				got[rc.ID] = view.Receipt(rc)
			}
		}
		if len(got) == len(ids) {
			return got
		}
		if list, err := rec.Changes(w.ctx, patience); err != nil || len(list) == 0 {
			w.Fatalf("of %d messages %d have come to an end: %v", len(ids), len(got), err)
		}
	}
}

// An agent takes messages at once, before any process sees them in its inbox. Each message that the service
// sent is recorded once, as gone, and has its receipt.
func TestAgentThatIsQuick(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.play(w.simulated(false, 10*time.Microsecond))
	w.start()
	var ids []string
	for i := range 30 {
		ids = append(ids, w.send("quick", "worker", "", api.NewMessage{Text: fmt.Sprint("message ", i)}).ID)
	}
	receipts := w.receipts(ids...)
	records := map[string][]journal.Record{}
	for m, err := range w.journal.Messages.All(t.Context(), journal.Query{Team: "quick", Inbox: "worker"}) {
		w.must(err)
		records[m.ID()] = append(records[m.ID()], m)
	}
	for i, id := range ids {
		if m := records[id]; len(m) != 1 || m[0].Text != fmt.Sprint("message ", i) || m[0].GoneAt.IsZero() || m[0].GoneAt.Before(m[0].FirstSeen) {
			t.Errorf("message %d is recorded as %+v", i, m)
		}
		if rc := receipts[id]; rc.State != api.Consumed || rc.VerifiedAt == nil {
			t.Errorf("message %d has the receipt %+v", i, rc)
		}
	}
}

// The rows before a message prove what happened to it while no service ran, as long as they are in the inbox.
// Nothing is ever written again.
func TestLostOverARestart(t *testing.T) {
	t.Parallel()
	type downtime struct {
		*world
		box  *inbox.Inbox
		team *simagent.Team
		ours string
	}
	takes := func(n int) func(d downtime) {
		return func(d downtime) {
			stop := d.play(d.team)
			_, err := d.team.Agent("worker").Wait(d.ctx, n)
			d.must(err)
			// One that marks rows has delivered them before.
			until(d.world, "marked", func() ([]inbox.Row, error) { return d.box.Read(d.ctx) }, func(rows []inbox.Row) bool {
				return !slices.ContainsFunc(rows, func(r inbox.Row) bool { return !r.Read })
			})
			stop()
		}
	}
	says := func(d downtime, text string) {
		_, err := d.team.Agent(simagent.Lead).Send(d.ctx, simagent.Message{To: "worker", Text: text})
		d.must(err)
	}
	lost := func(d downtime) { d.clobber(d.box, d.ours) }
	more := func(d downtime) { says(d, "more") }
	for name, tc := range map[string]struct {
		alone bool // nothing is in front of it
		down  []func(d downtime)
		marks bool // an agent that marks rows, as old ones do
		then  func(d downtime)
		state string // consumed if empty
		taken int    // how often the agent gets it in the end
	}{
		"it waits":                    {taken: 1},
		"it waits, and is lost later": {then: lost, state: api.Lost},
		"lost":                        {down: []func(downtime){lost}, state: api.Lost},
		"lost, and more came":         {down: []func(downtime){lost, more}, state: api.Lost},
		"taken":                       {down: []func(downtime){takes(2)}, taken: 1},
		"taken, and more came":        {down: []func(downtime){takes(2), more}, taken: 1},
		"taken, alone":                {alone: true, down: []func(downtime){takes(1)}, taken: 1},
		"taken, alone, and more came": {alone: true, down: []func(downtime){takes(1), more}, taken: 1},
		// Whether it was lost cannot be known: most likely the agent took it.
		"lost, and what stood in front taken": {down: []func(downtime){lost, takes(1)}},
		"lost, with nothing in front":         {alone: true, down: []func(downtime){lost}},

		"marked: taken":                  {marks: true, down: []func(downtime){takes(2)}, taken: 1},
		"marked: taken and removed":      {marks: true, down: []func(downtime){takes(2), lost}, state: api.Unknown, taken: 1},
		"marked: lost, what stood taken": {marks: true, down: []func(downtime){lost, takes(1)}, state: api.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := downtime{world: w, team: w.simulated(tc.marks, time.Millisecond), box: w.Inbox("quick", "worker")}
			w.start()
			if !tc.alone {
				says(d, "in front")
				// Otherwise an earlier look could be recorded after ours, as if the row had come back.
				until(w, "recorded", func() (api.Page, error) { return w.s.Messages(w.ctx, "quick", api.MessageQuery{Limit: 1}) }, func(p api.Page) bool { return len(p.Messages) > 0 })
			}
			d.ours = w.send("quick", "worker", "", api.NewMessage{Text: "ours"}).ID
			w.end()
			for _, f := range tc.down {
				f(d)
			}
			w.start()
			if tc.then != nil {
				tc.then(d)
			}
			if tc.state != "" {
				w.receipts(d.ours) // while it still can be seen
			}
			// In the end the agent takes whatever is there, and both have been looked at.
			w.play(d.team)
			w.receipts(w.send("quick", "worker", "", api.NewMessage{Text: "the last"}).ID)
			agent := d.team.Agent("worker")
			for n, last := 1, ""; last != "the last"; n++ {
				rows, err := agent.Wait(w.ctx, n)
				w.must(err)
				last = rows[len(rows)-1].Text
			}
			want := cmp.Or(tc.state, api.Consumed)
			if got := w.receipts(d.ours)[d.ours]; got.State != want || (got.LostAt == nil) != (want == api.Consumed) {
				t.Errorf("receipt %+v, want %s", got, want)
			}
			taken := len(slices.DeleteFunc(agent.Log(), func(r simagent.Taken) bool { return r.Text != "ours" }))
			if taken != tc.taken {
				t.Errorf("the agent took it %d times, want %d", taken, tc.taken)
			}
		})
	}
}

// A program writes back an old content of the inbox, with rows that an agent took. Where a row was seen to be
// gone, this proves nothing.
func TestBroughtBackOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.simulated(false, 0)
	box := w.Inbox("quick", "worker")
	w.start()
	w.Send("quick", "user", "worker", "in front")
	old, err := os.ReadFile(box.Path())
	w.must(err)
	id := w.send("quick", "worker", "", api.NewMessage{Text: "ours"}).ID
	w.end()
	if taken, err := teamstest.Take(t.Context(), box, teamstest.All); err != nil || len(taken) != 2 {
		t.Fatalf("%d rows, %v", len(taken), err)
	}
	// As a command does that watches.
	j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
	w.must(err)
	defer j.Close()
	ctx, stop := context.WithCancel(t.Context())
	tap := journal.NewTap(journal.TapOptions{Root: w.Root, Journal: j})
	over := make(chan error, 1)
	go func() { over <- tap.Run(ctx) }()
	<-tap.Ready()
	stop()
	w.must(<-over)
	w.must(os.WriteFile(box.Path(), old, 0o600))
	w.start()
	if got := w.receipts(id)[id]; got.State != api.Consumed {
		t.Errorf("receipt %+v", got)
	}
	if rows, err := box.Read(t.Context()); err != nil || len(rows) != 1 {
		t.Errorf("%d rows in the inbox, %v", len(rows), err)
	}
}

// gave records in the transcript of the newer team's worker that its model got texts from user, at once.
func (w *world) gave(texts ...string) time.Time {
	w.Helper()
	config, err := w.Team(newer).Config(w.ctx)
	w.must(err)
	lead, _ := config.Lead()
	path := filepath.Join(w.Root.Path(), "projects", transcript.Slug(lead.Cwd), config.LeadSessionID)
	own := filepath.Join(path, "subagents", "agent-aworker-1")
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, "<teammate-message teammate_id=\"user\" verified=\"false\">\n"+text+"\n</teammate-message>")
	}
	at := time.Now().UTC().Truncate(time.Millisecond)
	w.must(os.MkdirAll(filepath.Dir(own), 0o700))
	w.must(os.WriteFile(path+".jsonl", nil, 0o600))
	w.must(os.WriteFile(own+".meta.json", []byte(`{"name":"worker"}`), 0o600))
	f, err := os.OpenFile(own+".jsonl", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	w.must(err)
	_, err = fmt.Fprintf(f, `{"type":"user","uuid":%q,"version":"2.1.329","timestamp":%q,"message":{"content":%q}}`+"\n", strings.Join(texts, " "), at.Format(time.RFC3339Nano), strings.Join(blocks, "\n\n"))
	w.must(err)
	w.must(f.Close())
	return at
}

// take empties the inbox of the newer team's worker in one step: an empty file proves nothing about messages.
func (w *world) take() {
	w.Helper()
	empty := filepath.Join(w.TempDir(), "empty")
	w.must(os.WriteFile(empty, []byte("[]"), 0o600))
	w.must(os.Rename(empty, w.Inbox(newer, "worker").Path()))
}

// say sends the newer team's worker a message.
func (w *world) say(text string) (id string) {
	w.Helper()
	return w.send(newer, "worker", "", api.NewMessage{Text: text}).ID
}

// became waits until the receipt of a message is as wanted.
func (w *world) became(id, what string, want func(*api.Receipt) bool) *api.Receipt {
	w.Helper()
	return w.recorded(newer, what, func(m api.Record) bool { return m.ID == id && m.Receipt != nil && want(m.Receipt) }).Receipt
}

func consumed(r *api.Receipt) bool { return r.State == api.Consumed }
func seen(r *api.Receipt) bool     { return r.SeenAt != nil }

// A message is seen once its agent's transcript has it, equal ones in order, and never if it is not there.
func TestSeen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.take()
	first, second, other, never := w.say("the same"), w.say("the same"), w.say("another"), w.say("never")
	w.take()
	for _, id := range []string{first, second, other, never} {
		if got := w.became(id, "consumed", consumed); got.SeenAt != nil {
			t.Errorf("it was not given yet: %+v", got)
		}
	}
	at := w.gave("the same", "another", "the same")
	for _, id := range []string{first, second, other} {
		if got := w.became(id, "seen", seen); got.State != api.Consumed || got.ConsumedAt == nil || !got.SeenAt.Equal(at) {
			t.Errorf("seen at %v, want %v: %+v", got.SeenAt, at, got)
		}
	}
	// An agent can show a message to its model before it marks it.
	before := w.say("shown before it is taken")
	at = w.gave("shown before it is taken")
	if got := w.became(before, "seen", seen); got.State != api.Verified || !got.SeenAt.Equal(at) {
		t.Errorf("shown: %+v", got)
	}
	w.take()
	if got := w.became(before, "consumed", consumed); got.SeenAt == nil || !got.SeenAt.Equal(at) {
		t.Errorf("shown and taken: %+v", got)
	}
	if got := w.became(never, "consumed", consumed); got.SeenAt != nil {
		t.Errorf("never given: %+v", got)
	}
}

// A message that was taken while one service ran is found in the transcript by the next one. A message that is sent
// again under its id is followed again.
func TestSeenAfterARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.take()
	id := w.say("hello")
	w.take()
	w.became(id, "consumed", consumed)
	w.end()
	at := w.gave("hello")
	w.start()
	if got := w.became(id, "seen", seen); got.State != api.Consumed || !got.SeenAt.Equal(at) {
		t.Errorf("seen at %v, want %v: %+v", got.SeenAt, at, got)
	}
	m := api.NewMessage{Text: "hello again"}
	w.send(newer, "worker", "job", m)
	w.take()
	w.became("job", "consumed", consumed)
	if again := w.send(newer, "worker", "job", m); !again.Deduplicated {
		t.Errorf("again: %+v", again)
	}
	at = w.gave("hello again")
	if got := w.became("job", "seen", seen); !got.SeenAt.Equal(at) {
		t.Errorf("seen at %v, want %v", got.SeenAt, at)
	}
}

// Proof in the transcript is still found when the team is gone.
func TestSeenWhenTheTeamIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.gave("earlier")
	w.start(func(o *service.Options) { o.Tick = time.Hour }) // it looks only at news
	e := w.events("", "")
	id := w.say("hello")
	e.receipt(id, api.Verified)
	at := w.gave("hello")
	// In this order: a message that leaves the inbox while the team exists was taken.
	w.must(os.Remove(w.Path(newer, "config.json")))
	w.must(os.RemoveAll(w.Path(newer)))
	got := e.until(func(v api.Event) bool { return v.Receipt != nil && v.Receipt.ID == id }).Receipt
	if got.SeenAt == nil || !got.SeenAt.Equal(at) {
		t.Errorf("seen at %v, want %v", got.SeenAt, at)
	}
}

// With KeepTranscripts, the texts of a team's interactive agents are in its history, once, even over a restart.
// Other teams' texts are not, and without the option there are none.
func TestKeepTranscripts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
	w.must(err)
	defer j.Close()
	kept := func() (texts []string, err error) {
		for e, err := range j.Envelopes.All(t.Context(), journal.EnvelopeQuery{}) {
			w.must(err)
			var said struct{ Ev struct{ Text string } }
			w.must(json.Unmarshal(e.Raw, &said))
			for _, word := range []string{"one", "two", "three"} {
				if e.Kind == "text" && strings.Contains(said.Ev.Text, word) {
					texts = append(texts, e.Team+" "+e.Inbox+" "+e.Role+" "+word)
				}
			}
		}
		return texts, nil
	}
	w.gave("one")
	w.start()
	id := w.say("hello")
	w.take()
	w.became(id, "consumed", consumed)
	w.end()
	if got, _ := kept(); len(got) > 0 {
		t.Errorf("without being told to: %q", got)
	}
	for n, text := range []string{"two", "three"} {
		w.start(func(o *service.Options) { o.KeepTranscripts = []string{newer, "not yet there"} })
		until(w, "kept", kept, func(l []string) bool { return len(l) == n+1 })
		w.gave(text)
		until(w, "kept", kept, func(l []string) bool { return len(l) >= n+2 })
		w.end()
	}
	var want []string
	for _, word := range []string{"one", "two", "three"} {
		want = append(want, newer+" worker user "+word)
	}
	if got, _ := kept(); !slices.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
}
