package links

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
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
