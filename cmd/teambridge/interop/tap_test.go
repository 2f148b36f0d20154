package interop

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// tapping records the messages in the team's inboxes until the test ends.
func (u *user) tapping() *journal.Journal {
	u.t.Helper()
	j, err := journal.Open(u.t.Context(), filepath.Join(u.home, "journal.db"))
	must(u.t, err)
	root, err := teams.Open(u.team.Root)
	must(u.t, err)
	tap := journal.NewTap(journal.TapOptions{Root: root, Journal: j, Warn: func(err error) { u.t.Errorf("warned: %v", err) }})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- tap.Run(ctx) }()
	u.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			u.t.Error(err)
		}
		root.Close()
		j.Close()
	})
	<-tap.Ready()
	return j
}

// Messages in the inbox of a real lead are recorded, although each is there for a second at most.
func TestTapOfARealLead(t *testing.T) {
	if testing.Short() {
		t.Skip("five hundred messages to a real agent")
	}
	u := newUser(t, standin.Newest(t))
	ctx := deadline(t, patience)
	j := u.tapping()
	box := u.inbox("team-lead")
	const n = 500
	var wg sync.WaitGroup
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		wg.Go(func() {
			if _, err := box.Append(ctx, inbox.Message{From: "operator", Text: fmt.Sprintf("flood-%d", i)}, inbox.AppendOptions{}); err != nil {
				t.Errorf("message %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	given(t, ctx, u.team.API, standin.Main, fmt.Sprintf("flood-%d", n-1))
	// The last record of the last messages is that they are gone.
	times := map[string]int{}
	recorded := func() (present int) {
		clear(times)
		for m, err := range j.Messages.All(ctx, journal.Query{Inbox: "team-lead", From: "operator"}) {
			must(t, err)
			times[m.Text]++
			if m.GoneAt.IsZero() {
				present++
			}
		}
		return present
	}
	for tick.Reset(20 * time.Millisecond); recorded() > 0 && ctx.Err() == nil; {
		<-tick.C
	}
	missed, twice := 0, 0
	for i := range n {
		switch c := times[fmt.Sprintf("flood-%d", i)]; {
		case c == 0:
			missed++
		case c > 1:
			twice++
		}
	}
	t.Logf("missed %d, recorded twice %d of %d", missed, twice, n)
	if missed > 0 || twice > 0 {
		t.Errorf("missed %d, twice %d; want 0, 0", missed, twice)
	}
}
