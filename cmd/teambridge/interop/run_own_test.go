package interop

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// The bridge that made the team is killed, between two messages and in the middle of
// one, and its agent with it: the next takes the team back, goes on with the session,
// and says what waits, once. Who has joined is still in it; in the end it is removed.
func TestRealTeamOfAKilledRunIsTakenBack(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := newHeadless(t, v, nil)
		ctx := deadline(t, 3*time.Minute)
		h.start()
		h.up(ctx)
		l := h.ledger()
		h.send("<m-1>")
		h.settled(ctx, l, 1)
		h.must("join", "--team", "mine", "--as", "operator")
		first, _ := h.agent(l)
		for i, busy := range []bool{false, true} {
			if busy {
				h.send("<m-3>\nSLEEP:2")
				h.wait(ctx, "at work", func(s saying) bool { return s.InFlight != "" })
			}
			h.kill()
			h.killAgent(ctx, l)
			if out := h.must("teams", "--json"); !strings.Contains(out, `"leadState":"gone"`) {
				t.Errorf("killed, it is %s", out)
			}
			if !busy {
				h.send("<m-2>")
			}
			h.start()
			for _, d := range h.settled(ctx, l, 2+i) {
				if d.State != ledger.Done {
					t.Errorf("%s is %s (%s)", d.Raw, d.State, d.Reason)
				}
			}
			if out := h.must("teams", "--json"); !strings.Contains(out, `"leadState":"alive"`) || !strings.Contains(out, `"members":2`) {
				t.Errorf("taken back, it is %s", out)
			}
			if now, _ := h.agent(l); now.ID != first.ID || now.CreatedAt != first.CreatedAt {
				t.Errorf("session %s of %v, want %s of %v", now.ID, now.InboxKey, first.ID, first.InboxKey)
			}
		}
		for _, m := range []string{"<m-1>", "<m-2>", "<m-3>"} {
			if c := h.home.API.Count(standin.Any, m); c != 1 {
				t.Errorf("%s was given %d times, want once", m, c)
			}
		}
		if status := h.finish(ctx); status != 0 {
			t.Errorf("run ended with %d\n%s", status, h)
		}
		if _, err := os.Stat(filepath.Join(h.home.Root, "teams", "mine")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the team is still there: %v", err)
		}
	})
}
