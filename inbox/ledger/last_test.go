package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLastSends(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	send := func(inbox, id string, at time.Time, change func(*Send)) {
		t.Helper()
		s := aSend(id)
		s.Inbox, s.At = inbox, at
		change(&s)
		must(t, l.Sends.Intend(t.Context(), s))
	}
	same := func(*Send) {}
	send("bob", "1", tuesday, same)
	send("bob", "2", monday, same)
	send("ann", "3", monday, same)
	send("eve", "4", tuesday, func(s *Send) { s.CreatedAt++ })
	send("eve", "5", tuesday, func(s *Send) { s.Root = "/elsewhere" })
	send("ann", "6", tuesday, func(s *Send) { s.Team = "red" })
	key := aKey("")
	got, err := l.Sends.Last(t.Context(), key.Root, key.Team, key.CreatedAt)
	must(t, err)
	if diff := cmp.Diff(map[string]time.Time{"bob": tuesday, "ann": monday}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var bad *ValueError
	if _, err := l.Sends.Last(t.Context(), key.Root, "", 1); !errors.As(err, &bad) {
		t.Errorf("without a team: %v", err)
	}
}
