package journal_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/killtest"
	"teambridge/teams/errtest"
)

var must = errtest.Must

func open(t testing.TB, dir string) (*ledger.Ledger, *journal.Journal) {
	t.Helper()
	l, err := ledger.Open(t.Context(), filepath.Join(dir, "ledger.db"))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	j, err := journal.Open(t.Context(), filepath.Join(dir, "journal.db"))
	must(t, err)
	t.Cleanup(func() { j.Close() })
	return l, j
}

var post = inbox.InboxKey{Root: "/r", Team: "blue", CreatedAt: 1, Inbox: "bob"}

// deliver takes one prompt of a person from claimed to done, which makes four events.
func deliver(ctx context.Context, l *ledger.Ledger, id string) error {
	return errors.Join(
		l.Deliveries.Claim(ctx, ledger.Delivery{UUID: id, InboxKey: post, Person: true, Raw: []byte("x")}),
		l.Frames.Commit(ctx, ledger.Frame{UUID: "f-" + id, InboxKey: post, Kind: ledger.FrameMessage, Bytes: []byte("{}")}, id),
		l.Frames.Advance(ctx, "f-"+id, ledger.Accepted, ""),
		l.Frames.Advance(ctx, "f-"+id, ledger.Done, ""),
	)
}

// recorded returns the relay events of a journal, such as "d1 done".
func recorded(t testing.TB, j *journal.Journal) (list []string) {
	t.Helper()
	changes, err := j.Messages.Changes(t.Context(), 0, 100_000)
	must(t, err)
	for _, c := range changes {
		if c.Kind == journal.Relaying {
			list = append(list, c.RelayEvent.Delivery+" "+c.RelayEvent.State)
		}
	}
	return list
}

// wantSaid checks that each prompt is a message, once, and has its receipt.
func wantSaid(t testing.TB, j *journal.Journal, n int) {
	t.Helper()
	there := map[string]int{}
	for m, err := range j.Messages.All(t.Context(), journal.Query{}) {
		must(t, err)
		if m.Prompt == "" {
			continue
		}
		if m.From != "user" || m.Text != "x" || m.ID() != m.Prompt {
			t.Errorf("recorded %+v", m)
		}
		there[m.Prompt]++
	}
	receipts := 0
	for r, err := range j.Receipts.All(t.Context(), journal.Query{}) {
		must(t, err)
		if there[r.ID] == 0 && r.State == inbox.Unconsumed {
			continue // of a message that was sent
		}
		if receipts++; r.State != inbox.Consumed || there[r.ID] != 1 {
			t.Errorf("%+v, of which there are %d messages", r, there[r.ID])
		}
	}
	if len(there) != n || receipts != n {
		t.Errorf("%d messages and %d receipts, want %d", len(there), receipts, n)
	}
}

func wanted(from, to int) (list []string) {
	for i := from; i < to; i++ {
		for _, state := range []string{"claimed", "written", "accepted", "done"} {
			list = append(list, "d"+strconv.Itoa(i)+" "+state)
		}
	}
	return list
}

// Processes that copy are killed while others copy the same events, and each event is recorded once, in order.
func TestCopiedOnceThroughKills(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, j := open(t, dir)
	const rounds, each = 6, 10
	var sent []string
	for round := range rounds {
		var copiers []*killtest.Process
		for range 2 {
			c := killtest.Start(t, killtest.Command(t.Context(), "copier", dir))
			c.Line()
			copiers = append(copiers, c)
		}
		for i := range each {
			must(t, deliver(t.Context(), l, "d"+strconv.Itoa(round*each+i)))
			sent = append(sent, "s"+strconv.Itoa(len(sent)))
			send(t, l, sent[len(sent)-1], true)
		}
		for _, c := range copiers {
			c.Kill()
		}
	}
	_, err := j.Copy(t.Context(), l)
	must(t, err)
	if diff := cmp.Diff(wanted(0, rounds*each), recorded(t, j)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	wantSaid(t, j, rounds*each)
	var there []string
	for m, err := range j.Messages.All(t.Context(), journal.Query{}) {
		must(t, err)
		if m.Prompt == "" {
			there = append(there, m.ID())
		}
	}
	killtest.Once(t, sent, there)
}

// A replicator copies the events from before it ran, those while it runs, and the rest when it ends. It does not copy
// events that another one has recorded.
func TestReplicator(t *testing.T) {
	t.Parallel()
	l, j := open(t, t.TempDir())
	must(t, deliver(t.Context(), l, "d0"))
	ctx, stop := context.WithCancel(t.Context())
	copied := make(chan struct{}, 100)
	r := journal.NewReplicator(journal.ReplicatorOptions{Ledger: l, Journal: j, Every: time.Hour, Copied: func() { copied <- struct{}{} }})
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	<-copied
	must(t, deliver(t.Context(), l, "d1"))
	r.Poke()
	<-copied
	for len(recorded(t, j)) < 8 {
		<-copied
	}
	must(t, deliver(t.Context(), l, "d2")) // without a Poke
	stop()
	running.Wait()
	if n, err := j.Copy(t.Context(), l); n != 0 || err != nil {
		t.Errorf("%d were left, %v", n, err)
	}
	if diff := cmp.Diff(wanted(0, 3), recorded(t, j)); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	wantSaid(t, j, 3)
}

// A journal that cannot be written causes one warning, and ends nothing.
func TestJournalThatFails(t *testing.T) {
	t.Parallel()
	l, j := open(t, t.TempDir())
	must(t, j.Close())
	must(t, deliver(t.Context(), l, "d0"))
	ctx, stop := context.WithCancel(t.Context())
	warned := make(chan error, 100)
	r := journal.NewReplicator(journal.ReplicatorOptions{Ledger: l, Journal: j, Every: time.Millisecond, Warn: func(err error) { warned <- err }})
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := <-warned; !errors.Is(err, journal.ErrClosed) || !strings.Contains(err.Error(), "not recorded") {
		t.Errorf("warned of %v", err)
	}
	for range 5 {
		r.Poke()
		must(t, deliver(t.Context(), l, "d"+strconv.Itoa(int(time.Now().UnixNano()))))
	}
	stop()
	running.Wait()
	if len(warned) != 0 {
		t.Errorf("warned again: %v", <-warned)
	}
}
