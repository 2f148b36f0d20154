package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/teamstest"
)

// simulated makes a team with a worker, who looks into its inbox every so often; 0: the
// worker is absent. It marks the rows that it took and keeps them, or it removes them.
func (w *world) simulated(t *testing.T, marks bool, poll time.Duration) *simagent.Team {
	t.Helper()
	team, err := simagent.Create(t.Context(), simagent.TeamOptions{
		Root: w.Root.Path(), Marks: marks, Name: "quick", Poll: poll, Members: []simagent.Member{{Name: "worker", Absent: poll == 0}},
		Report: func(error) {}, // a lock that it does not get comes again
	})
	if err != nil {
		t.Fatal(err)
	}
	return team
}

// play runs the agents of a team until stop, or the end of the test.
func play(t *testing.T, team *simagent.Team) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- team.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
		over <- nil
	}
	t.Cleanup(stop)
	return stop
}

// receipts waits until all of these messages have come to an end, and returns what
// became of them.
func (r *running) receipts(t *testing.T, ids []string) map[string]api.Receipt {
	t.Helper()
	rec, err := r.local.Record(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	for {
		got := map[string]api.Receipt{}
		for rc, err := range r.journal.Receipts(t.Context(), journal.Query{Root: r.world.Root.Path()}) {
			if err != nil {
				t.Fatal(err)
			}
			if rc.State != journal.Verified && slices.Contains(ids, rc.ID) {
				got[rc.ID] = view.Receipt(rc)
			}
		}
		if len(got) == len(ids) {
			return got
		}
		if list, err := rec.Changes(t.Context(), patience); err != nil || len(list) == 0 {
			t.Fatalf("of %d messages %d have come to an end: %v", len(ids), len(got), err)
		}
	}
}

// An agent that takes messages at once, before anybody sees them in its inbox: each
// that was sent through the service is recorded once, as gone, and has its receipt.
func TestAgentThatIsQuick(t *testing.T) {
	t.Parallel()
	for poll, n := range map[time.Duration]int{10 * time.Microsecond: 25, time.Millisecond: 75} {
		t.Run(poll.String(), func(t *testing.T) {
			w := newWorld(t)
			play(t, w.simulated(t, false, poll))
			r := w.start(t)
			var ids []string
			for i := range n {
				sent := of[api.Sent](t, r.ask(t, "POST", "/v1/teams/quick/members/worker/messages", fmt.Sprintf(`{"text":"message %d"}`, i)), http.StatusCreated)
				ids = append(ids, sent.ID)
			}
			receipts := r.receipts(t, ids)
			records := map[string][]journal.Record{}
			for m, err := range r.journal.Messages(t.Context(), journal.Query{Team: "quick", Inbox: "worker"}) {
				if err != nil {
					t.Fatal(err)
				}
				records[m.ID()] = append(records[m.ID()], m)
			}
			without := 0
			for i, id := range ids {
				switch m := records[id]; {
				case len(m) == 0:
					without++
				case len(m) > 1, m[0].Text != fmt.Sprintf("message %d", i), m[0].GoneAt.IsZero(), m[0].GoneAt.Before(m[0].FirstSeen):
					t.Errorf("message %d is recorded as %+v", i, m)
				}
				if rc := receipts[id]; rc.State != api.Consumed || rc.VerifiedAt == nil {
					t.Errorf("message %d has the receipt %+v", i, rc)
				}
			}
			if without > 0 {
				t.Errorf("%d of %d messages have a receipt and no record", without, n)
			}
		})
	}
}

// clobber writes an inbox without some of its rows, as a tool does that ignores the
// lock, or has read it before they came.
func clobber(t *testing.T, box *inbox.Inbox, ids ...string) {
	t.Helper()
	taken, err := teamstest.Take(t.Context(), box, func(r inbox.Row) bool { return slices.Contains(ids, r.ID()) })
	if err != nil || len(taken) != len(ids) {
		t.Fatalf("%d rows, %v", len(taken), err)
	}
}

// What became of a message while no service ran is proved by the rows in front of it,
// as long as these stand there; and nothing is ever written again.
func TestLostOverARestart(t *testing.T) {
	t.Parallel()
	type downtime struct {
		*testing.T
		box    *inbox.Inbox
		team   *simagent.Team
		ours   string
		theirs string // is in front of it
	}
	takes := func(n int) func(d downtime) {
		return func(d downtime) {
			stop := play(d.T, d.team)
			if _, err := d.team.Agent("worker").Wait(d.Context(), n); err != nil {
				d.Fatal(err)
			}
			// One that marks rows has delivered them before.
			for {
				rows, err := d.box.Read(d.Context())
				if err != nil {
					d.Fatal(err)
				}
				if !slices.ContainsFunc(rows, func(r inbox.Row) bool { return !r.Read }) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			stop()
		}
	}
	says := func(d downtime, text string) {
		if _, err := d.team.Agent(simagent.Lead).Send(d.Context(), simagent.Message{To: "worker", Text: text}); err != nil {
			d.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		alone bool // nothing is in front of it
		down  func(d downtime)
		marks bool // an agent that marks rows, as old ones do
		then  func(d downtime)
		state string // consumed if empty
		taken int    // how often the agent gets it in the end
	}{
		"it waits":                    {down: func(downtime) {}, taken: 1},
		"it waits, and is lost later": {down: func(downtime) {}, then: func(d downtime) { clobber(d.T, d.box, d.ours) }, state: api.Lost},
		"lost":                        {down: func(d downtime) { clobber(d.T, d.box, d.ours) }, state: api.Lost},
		"lost, and more came":         {down: func(d downtime) { clobber(d.T, d.box, d.ours); says(d, "more") }, state: api.Lost},
		"taken":                       {down: takes(2), taken: 1},
		"taken, and more came":        {down: func(d downtime) { takes(2)(d); says(d, "more") }, taken: 1},
		"taken, alone":                {alone: true, down: takes(1), taken: 1},
		"taken, alone, and more came": {alone: true, down: func(d downtime) { takes(1)(d); says(d, "more") }, taken: 1},
		// Whether it was lost cannot be known: most likely the agent took it.
		"lost, and what stood in front taken": {down: func(d downtime) { clobber(d.T, d.box, d.ours); takes(1)(d) }},
		"lost, with nothing in front":         {alone: true, down: func(d downtime) { clobber(d.T, d.box, d.ours) }},

		"marked: taken":                  {marks: true, down: takes(2), taken: 1},
		"marked: taken and removed":      {marks: true, down: func(d downtime) { takes(2)(d); clobber(d.T, d.box, d.ours) }, state: api.Unknown, taken: 1},
		"marked: lost, what stood taken": {marks: true, down: func(d downtime) { clobber(d.T, d.box, d.ours); takes(1)(d) }, state: api.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			d := downtime{T: t, team: w.simulated(t, tc.marks, time.Millisecond)}
			d.box = w.Inbox("quick", "worker")
			r := w.start(t)
			if !tc.alone {
				says(d, "in front")
				rows, err := d.box.Read(t.Context())
				if err != nil || len(rows) != 1 {
					t.Fatalf("%d rows, %v", len(rows), err)
				}
				d.theirs = rows[0].ID()
			}
			d.ours = of[api.Sent](t, r.ask(t, "POST", "/v1/teams/quick/members/worker/messages", `{"text":"ours"}`), http.StatusCreated).ID
			r.end(t)
			tc.down(d)
			r = w.start(t)
			if tc.then != nil {
				tc.then(d)
			}
			if tc.state != "" {
				r.receipts(t, []string{d.ours}) // while it still can be seen
			}
			// In the end the agent takes whatever is there, and both have been looked at.
			play(t, d.team)
			last := of[api.Sent](t, r.ask(t, "POST", "/v1/teams/quick/members/worker/messages", `{"text":"the last"}`), http.StatusCreated).ID
			r.receipts(t, []string{last})
			agent := d.team.Agent("worker")
			for n := 1; ; n++ {
				rows, err := agent.Wait(t.Context(), n)
				if err != nil {
					t.Fatal(err)
				}
				if rows[len(rows)-1].Text == "the last" {
					break
				}
			}
			want := cmp.Or(tc.state, api.Consumed)
			if got := r.receipts(t, []string{d.ours})[d.ours]; got.State != want || (got.LostAt == nil) != (want == api.Consumed) {
				t.Errorf("receipt %+v, want %s", got, want)
			}
			taken := 0
			for _, row := range agent.Log() {
				if row.Text == "ours" {
					taken++
				}
			}
			if taken != tc.taken {
				t.Errorf("the agent took it %d times, want %d", taken, tc.taken)
			}
		})
	}
}

// Somebody who has kept an old content of the inbox brings back what an agent took.
// Where it was seen that it was gone, that proves nothing.
func TestBroughtBackOverARestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	team := w.simulated(t, false, 0)
	box := w.Inbox(team.Name(), "worker")
	r := w.start(t)
	w.Send(team.Name(), "user", "worker", "in front")
	old, err := os.ReadFile(box.Path())
	if err != nil {
		t.Fatal(err)
	}
	id := of[api.Sent](t, r.ask(t, "POST", "/v1/teams/quick/members/worker/messages", `{"text":"ours"}`), http.StatusCreated).ID
	r.end(t)
	if taken, err := teamstest.Take(t.Context(), box, teamstest.All); err != nil || len(taken) != 2 {
		t.Fatalf("%d rows, %v", len(taken), err)
	}
	// As a command does that watches.
	j, err := journal.Open(t.Context(), filepath.Join(w.State, "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	ctx, stop := context.WithCancel(t.Context())
	tap := journal.NewTap(journal.TapOptions{Root: w.Root, Journal: j})
	over := make(chan error, 1)
	go func() { over <- tap.Run(ctx) }()
	<-tap.Ready()
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(box.Path(), old, 0o600); err != nil {
		t.Fatal(err)
	}
	r = w.start(t)
	if got := r.receipts(t, []string{id})[id]; got.State != api.Consumed {
		t.Errorf("receipt %+v", got)
	}
	if rows, err := box.Read(t.Context()); err != nil || len(rows) != 1 {
		t.Errorf("%d rows in the inbox, %v", len(rows), err)
	}
}
