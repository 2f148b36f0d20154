package service

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/claim"
	"teambridge/status/api"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// service opens a service for a captured team.
func service(t *testing.T) (*teamstest.Fixture, *Service) {
	t.Helper()
	f := teamstest.Captured(t, teamstest.NewerVersion)
	s, err := Open(t.Context(), Options{
		Root: f.Root, State: f.State, Lock: teamstest.Patient, Tick: 20 * time.Millisecond, KeepWork: time.Hour, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, s
}

// start runs a service until end is called, or the test ends.
func (s *Service) start(t *testing.T) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ready, over := make(chan struct{}), make(chan error, 1)
	go func() {
		over <- s.Run(ctx, func(context.Context, Part) error {
			close(ready)
			<-ctx.Done()
			return nil
		})
	}()
	end = sync.OnceFunc(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	select {
	case <-ready:
	case err := <-over:
		over <- nil
		t.Fatalf("the service ended: %v", err)
	}
	return end
}

// Messages that were taken and not seen keep one directory open, not one each. One that is sent
// again is not followed twice.
func TestTakenMessagesShareADirectory(t *testing.T) {
	t.Parallel()
	f, s := service(t)
	s.start(t)
	rec, err := s.Record(t.Context(), "")
	must(t, err)
	defer rec.Close()
	const n = 5
	for i := range n {
		sent, err := s.Send(t.Context(), teamstest.Newer, "worker", fmt.Sprint(i), api.NewMessage{Text: "never shown"})
		if err != nil || sent.State != api.Verified {
			t.Fatalf("sent %+v, %v", sent, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty") // renamed: nothing is known of messages whose inbox has no content
	must(t, os.WriteFile(empty, []byte("[]"), 0o600))
	must(t, os.Rename(empty, f.Inbox(teamstest.Newer, "worker").Path()))
	for taken := 0; taken < n; {
		list, err := rec.Changes(t.Context(), time.Minute)
		if err != nil || len(list) == 0 {
			t.Fatalf("%d of %d messages were taken: %v", taken, n, err)
		}
		for _, c := range list {
			if c.Kind == journal.Receipted && c.Receipt.State == inbox.Consumed {
				taken++
			}
		}
	}
	if again, err := s.Send(t.Context(), teamstest.Newer, "worker", "0", api.NewMessage{Text: "never shown"}); err != nil || !again.Deduplicated {
		t.Errorf("sent again %+v, %v", again, err)
	}
	s.follower.mu.Lock()
	defer s.follower.mu.Unlock()
	senders := map[*mail.Sender]bool{}
	for _, i := range s.follower.items {
		senders[i.sender] = true
	}
	if len(s.follower.items) != n || len(senders) != 1 {
		t.Errorf("%d messages are followed by %d senders, want %d by 1", len(s.follower.items), len(senders), n)
	}
}

// A relay that was about to claim a message whose row is gone decides its state, and changes no file. The same holds for
// a message that was sent again when its row was gone.
func TestFateWithoutAChangeOfTheFile(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		fixture, s := service(t)
		_, err := s.Send(t.Context(), teamstest.Newer, "worker", "1", api.NewMessage{Text: "hello"})
		must(t, err)
		i := s.follower.items[0]
		row, err := inbox.ParseRow(i.Tracked.Row)
		must(t, err)
		k := i.key.InboxKey
		d := ledger.Delivery{UUID: claim.UUID(k, row.Key(), 1), InboxKey: k, Key: row.Key(), Occurrence: 1, ID: row.ID(), From: row.From, Kind: row.Kind(), Raw: row.Raw, At: time.Now()}
		must(t, s.ledger.Deliveries.Claim(t.Context(), d))
		must(t, os.WriteFile(fixture.Inbox(teamstest.Newer, "worker").Path(), []byte("[]"), 0o600))
		if again {
			s.follower.drop(i)
			_, err := s.Send(t.Context(), teamstest.Newer, "worker", "1", api.NewMessage{Text: "hello"})
			must(t, err)
			if i = s.follower.items[0]; i.Tracked != nil || !i.Deduplicated {
				t.Fatalf("sent again: %+v", i.Delivered)
			}
		}
		s.follower.look(t.Context(), []*sentRow{i})
		if r, _, err := s.journal.Receipts.Receipt(t.Context(), i.key); err != nil || r.State != inbox.Unconsumed {
			t.Errorf("again %v: while it is being claimed, it is %s, %v", again, r.State, err)
		}
		must(t, s.ledger.Deliveries.End(t.Context(), ledger.Failed, "its row is gone", d.UUID))
		s.follower.look(t.Context(), []*sentRow{i})
		if r, _, err := s.journal.Receipts.Receipt(t.Context(), i.key); err != nil || r.State != inbox.Lost {
			t.Errorf("again %v: once that has failed, it is %s, %v", again, r.State, err)
		}
	}
}

// Messages that were taken make room for others, and are followed only for a limited time.
func TestFollowedIsBounded(t *testing.T) {
	t.Parallel()
	fixture, s := service(t)
	team, err := fixture.Root.Team(teamstest.Newer)
	must(t, err)
	sender, err := mail.New(t.Context(), mail.Options{Team: team, Locker: s.locker, Ledger: s.ledger, From: mail.User})
	must(t, err)
	f := s.follower
	item := func(id string, taken time.Time) *sentRow {
		d := mail.Delivered{Team: teamstest.Newer, Member: "worker", ID: id, Start: time.Now()}
		return &sentRow{Delivered: d, sender: sender, key: sender.Key(d), taken: taken, news: -1}
	}
	now := time.Now()
	list := []*sentRow{item("open", time.Time{}), item("early", now.Add(-seenWithin)), item("late", now)}
	for i := range maxFollowed - len(list) {
		list = append(list, item(fmt.Sprint(i), time.Time{}))
	}
	f.add(list...)
	f.add(item("one more", time.Time{}))
	if len(f.items) != maxFollowed || f.items[0].ID != "open" || f.items[1].ID != "late" {
		t.Errorf("%d messages, first %s and %s", len(f.items), f.items[0].ID, f.items[1].ID)
	}
	f.items[1].taken = now.Add(-seenWithin)
	f.show(t.Context(), slices.Clone(f.items))
	if len(f.items) != maxFollowed-1 || f.items[1].ID == "late" {
		t.Errorf("%d messages, second %s", len(f.items), f.items[1].ID)
	}
}

// Messages that were given up for newer ones are followed again, and their senders learn what became of them.
func TestGivenUpIsFollowedAgain(t *testing.T) {
	t.Parallel()
	f, s := service(t)
	s.follower.most = 2
	s.start(t)
	rec, err := s.Record(t.Context(), "")
	must(t, err)
	defer rec.Close()
	const n = 7
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
		_, err := s.Send(t.Context(), teamstest.Newer, "worker", ids[i], api.NewMessage{Text: "hello"})
		must(t, err)
	}
	_, err = f.Inbox(teamstest.Newer, "worker").MarkRead(t.Context(), ids...)
	must(t, err)
	for taken := map[string]bool{}; len(taken) < n; {
		list, err := rec.Changes(t.Context(), time.Minute)
		if err != nil || len(list) == 0 {
			t.Fatalf("%d of %d messages were taken: %v", len(taken), n, err)
		}
		for _, c := range list {
			if c.Kind == journal.Receipted && c.Receipt.State == inbox.Consumed {
				taken[c.Receipt.ID] = true
			}
		}
	}
}

var must = errtest.Must
