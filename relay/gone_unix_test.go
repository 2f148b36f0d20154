//go:build !windows

package relay

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/relay/relaytest/simchild"
	"teambridge/teams"
)

// The end of a team is noticed even if no event reported it, such as before the watcher's
// first look.
func TestTeamGoneUnseen(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	r := s.newRelay(s.options())
	// The relay has the directories open; its watcher will look at a missing path.
	root, moved := filepath.Join(s.dir, "root"), filepath.Join(s.dir, "moved")
	must(t, errors.Join(os.Rename(root, moved), os.Mkdir(root, 0o700)))
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background()) }()
	s.until("idle", func(st Status) bool { return st.State == Idle })
	must(t, os.RemoveAll(filepath.Join(moved, "teams", "demo")))
	select {
	case err := <-done:
		if !errors.Is(err, teams.ErrTeamGone) {
			t.Errorf("got %v, want ErrTeamGone", err)
		}
	case <-time.After(patience):
		t.Fatal("the relay goes on")
	}
}
