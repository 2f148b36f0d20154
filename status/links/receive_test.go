package links

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/link"
	"teambridge/teams"
)

// recorded returns a carrier with an empty journal.
func recorded(t *testing.T) *Carrier {
	t.Helper()
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return &Carrier{opts: Options{Journal: j}}
}

// The sender of a message that nobody takes learns that its fate is unknown, and why. A person takes as long as they want.
func TestMessageThatIsNotTaken(t *testing.T) {
	t.Parallel()
	r := recorded(t)
	for _, tc := range []struct {
		in   ledger.Incoming
		want ledger.Stage
	}{
		{ledger.Incoming{Stage: ledger.StageVerified, Recipient: "bob", Team: "t", At: time.Now().Add(-6 * 24 * time.Hour)}, ledger.StageVerified},
		{ledger.Incoming{Stage: ledger.StageVerified, Recipient: "bob", Team: "t", At: time.Now().Add(-8 * 24 * time.Hour)}, ledger.StageUnknown},
		{ledger.Incoming{Stage: ledger.StageConsumed, Recipient: "bob", Team: "t", At: time.Now().Add(-8 * 24 * time.Hour)}, ledger.StageConsumed},
		{ledger.Incoming{Stage: ledger.StageVerified, Recipient: mail.User, Team: "t@build", At: time.Now().Add(-8 * 24 * time.Hour)}, ledger.StageVerified},
	} {
		tc.in.Root, tc.in.ID = "/root", "m-1"
		states, err := r.statesOf(t.Context(), []ledger.Incoming{tc.in})
		if err != nil {
			t.Fatal(err)
		}
		if now := states[0]; now.Stage != tc.want || strings.Contains(now.Reason, "7 days") != (tc.want == ledger.StageUnknown) {
			t.Errorf("%s to %s is %s, %q; want %s", tc.in.Stage, tc.in.Recipient, now.Stage, now.Reason, tc.want)
		}
	}
}

// Messages that are looked at together have their own states, those of their receipts.
func TestStatesOfMany(t *testing.T) {
	t.Parallel()
	r := recorded(t)
	list := []ledger.Incoming{
		{ID: "m-1", Recipient: "bob"}, {ID: "m-2", Recipient: "bob"}, {ID: "m-1", Recipient: "eve"}, {ID: "m-4", Recipient: "bob"}, {ID: "m-5", Recipient: "bob"},
	}
	for i := range list {
		in := &list[i]
		in.Root, in.Team, in.Member, in.Stage, in.At = "/root", "t", in.Recipient, ledger.StageVerified, time.Now()
	}
	key := func(i int) inbox.SendKey {
		in := list[i]
		return inbox.SendKey{InboxKey: inbox.InboxKey{Root: in.Root, Team: in.Team, CreatedAt: 7, Inbox: in.Recipient}, ID: idHere(in)}
	}
	for i := range list[:4] { // nothing is recorded of the last
		if _, err := r.opts.Journal.Receipts.Verified(t.Context(), key(i), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	_, consumed := r.opts.Journal.Receipts.Consumed(t.Context(), key(1), time.Now())
	_, seen := r.opts.Journal.Receipts.Seen(t.Context(), key(2), time.Now())
	_, lost := r.opts.Journal.Receipts.Lost(t.Context(), key(3), time.Now(), "its file is gone")
	if err := errors.Join(consumed, seen, lost); err != nil {
		t.Fatal(err)
	}
	states, err := r.statesOf(t.Context(), list)
	if err != nil || len(states) != len(list) {
		t.Fatal(states, err)
	}
	for i, want := range []ledger.Stage{ledger.StageVerified, ledger.StageConsumed, ledger.StageSeen, ledger.StageLost, ledger.StageVerified} {
		if now := states[i]; now.ID != list[i].ID || now.Stage != want || (now.Reason != "") != (want == ledger.StageLost) {
			t.Errorf("%s to %s is %s, %q; want %s", now.ID, now.Recipient, now.Stage, now.Reason, want)
		}
	}
	if list[1].Stage != ledger.StageVerified {
		t.Error("the messages were changed")
	}
}

// A message to a session comes from the agent that wrote it, even if its team is called like this machine.
func TestSenderInATeamCalledLikeThisMachine(t *testing.T) {
	t.Parallel()
	lg, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer lg.Close()
	if err := lg.Links.SetLink(t.Context(), ledger.Link{Name: "laptop"}); err != nil {
		t.Fatal(err)
	}
	r := &Carrier{here: sessionsHere{}, opts: Options{Ledger: lg}}
	for from, want := range map[string]string{
		"worker@laptop": "worker@laptop@build", "worker@ci": "worker@ci@build", "user@sessions@laptop": "user@sessions@build", "user@ci@laptop": "user@sessions@build",
	} {
		m := link.Message{Incoming: ledger.Incoming{Machine: "build", Team: "sessions", Member: "s", From: from}}
		if got, err := r.sender(t.Context(), m); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", from, got, err, want)
		}
	}
}

type sessionsHere struct{ Here }

func (sessionsHere) Team(context.Context, string, string) (*teams.Team, func() error, error) {
	return nil, func() error { return nil }, nil
}
