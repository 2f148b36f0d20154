package links

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/link"
	"teambridge/teams"
)

// The sender of a message that nobody takes learns that its fate is unknown, and why. A person takes as long as they want.
func TestMessageThatIsNotTaken(t *testing.T) {
	t.Parallel()
	j, err := journal.Open(t.Context(), filepath.Join(t.TempDir(), "journal.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	r := &Carrier{opts: Options{Journal: j}}
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
		now, err := r.stateOf(t.Context(), tc.in)
		if err != nil || now.Stage != tc.want || strings.Contains(now.Reason, "7 days") != (tc.want == ledger.StageUnknown) {
			t.Errorf("%s to %s is %s, %q, %v; want %s", tc.in.Stage, tc.in.Recipient, now.Stage, now.Reason, err, tc.want)
		}
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
