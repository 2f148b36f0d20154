package pane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/cmd/stdio"
	"teambridge/relay/relaytest/simsession"
	"teambridge/relay/wake"
)

// runHook is the waiting hook of a simulated session.
func runHook(root string, pid int) int {
	text, err := wake.Wait(context.Background(), filepath.Dir(root), wake.Session{PID: pid, Root: root}, func(ctx context.Context) {
		stdio.HangUp(ctx, os.Stderr)
	})
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	case text == "":
		return 0
	}
	fmt.Fprint(os.Stderr, text)
	return 2
}

// newHooked returns a session that has no socket, once its hook waits.
func newHooked(t testing.TB) *sessions {
	t.Helper()
	s := newSessionsWith(t, simsession.StartHooked)
	s.timing.repeat = time.Minute // as for newSessions
	s.waits()
	return s
}

// waits waits until the hook of the session waits.
func (s *sessions) waits() {
	s.t.Helper()
	for end := time.Now().Add(patience); !wake.Waits(s.dir, s.PID()); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("no hook waits")
		}
	}
}
