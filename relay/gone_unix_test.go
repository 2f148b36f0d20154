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

// A team whose end nobody has seen, such as one that went before its watcher looked for
// the first time, is noticed anyway.
func TestTeamGoneUnseen(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	r := s.newRelay(s.options())
	// The relay has the directories open; its watcher will look where nothing is.
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
	case <-time.After(time.Minute):
		t.Fatal("the relay goes on")
	}
}
