package interop

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams"
)

// The bridge that made the team is killed, between two messages and in the middle of
// one, and its agent with it: the next takes the team back, goes on with the session,
// and says what waits, once. Who has joined is still in it; in the end it is removed.
func TestRealTeamOfAKilledRunIsTakenBack(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		h := newHeadless(t, v, nil)
		h.start()
		h.up()
		h.send("<m-1>")
		h.settled(1)
		h.must("join", "--team", "mine", "--as", "operator")
		first, _ := h.agent()
		for i, busy := range []bool{false, true} {
			if busy {
				h.send("<m-3>\nSLEEP:2")
				h.wait("at work", func(s saying) bool { return s.InFlight != "" })
			}
			h.kill()
			h.killAgent()
			if out := h.must("teams", "--json"); !strings.Contains(out, `"leadState":"gone"`) {
				t.Errorf("killed, it is %s", out)
			}
			if !busy {
				h.send("<m-2>")
			}
			h.start()
			h.done(2 + i)
			if out := h.must("teams", "--json"); !strings.Contains(out, `"leadState":"alive"`) || !strings.Contains(out, `"members":2`) {
				t.Errorf("taken back, it is %s", out)
			}
			if now, _ := h.agent(); now.ID != first.ID || now.CreatedAt != first.CreatedAt {
				t.Errorf("session %s of %v, want %s of %v", now.ID, now.InboxKey, first.ID, first.InboxKey)
			}
		}
		once(t, h.home.API, "<m-1>", "<m-2>", "<m-3>")
		h.finish()
		if _, err := os.Stat(filepath.Join(h.home.Root, "teams", "mine")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the team is still there: %v", err)
		}
	})
}
