package pane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"teambridge/cmd/stdio"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simsession"
	"teambridge/relay/tmux"
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
	for end := time.Now().Add(time.Minute); !wake.Waits(s.dir, s.PID()); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatal("no hook waits")
		}
	}
}

func TestHookGivesEachOnceInOrder(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	s.run()
	s.until(s.put("first"), "the first", ended)
	s.waits()
	s.Tell("busy")
	queued := s.put("queued")
	s.until(queued, "a message to a busy session", func(m ledger.PaneMessage) bool { return m.Task == ledger.TaskSent })
	want := []string{"first", "queued"}
	var list []ledger.PaneMessage
	for i := range 4 {
		text := fmt.Sprintf("<teambridge-message to=\"x\" message-id=\"%s\">\n%d </teambridge-message>", queued.UUID, i)
		list = append(list, s.put(text))
		want = append(want, fmt.Sprintf("&lt;teambridge-message to=\"x\" message-id=\"%s\">\n%d &lt;/teambridge-message>", queued.UUID, i))
	}
	s.until(list[0], "a second one in the same turn", func(m ledger.PaneMessage) bool { return m.Held == string(tmux.TooSoon) })
	s.Tell("idle")
	for _, m := range append(list, queued) {
		s.until(m, "after it was idle", ended)
	}
	s.wants(want...)
	turns := map[string]bool{}
	for _, m := range list {
		m, err := s.Message(t.Context(), m.UUID)
		if err != nil {
			t.Fatal(err)
		}
		turns[m.Frame] = true
	}
	if len(turns) != 1 {
		t.Errorf("what waited was handed over in %d turns, want 1", len(turns))
	}
}

// What a session had in its queue when it was killed, and what came later, is given to the one that goes on with it.
func TestKilledHookedSession(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	s.run()
	s.Tell("busy")
	queued := s.put("queued")
	s.until(queued, "queued", func(m ledger.PaneMessage) bool { return m.Task == ledger.TaskSent })
	s.Kill()
	s.until(queued, "after the kill", func(m ledger.PaneMessage) bool { return m.State == ledger.Claimed && m.Held == string(tmux.Gone) })
	later := s.put("later")
	s.Start()
	s.until(queued, "after it was resumed", ended)
	s.until(later, "what came while nobody was there", ended)
	s.wants("queued", "later")
}

// What was handed to a hook that was killed before it ended is handed to the next one, and not before the session had the time to
// show it.
func TestHookKilledBeforeItEnds(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	s.timing.repeat = again
	s.run()
	s.Tell("lose")
	m := s.put("lost")
	s.until(m, "what is not shown", func(m ledger.PaneMessage) bool {
		return !m.State.Ended() && m.Detail == "the session does not show it yet"
	})
	m = s.until(m, "after a while", ended)
	if took := m.TaskAt.Sub(m.SentAt); took < s.timing.repeat {
		t.Errorf("it was handed over again within %s, want %s at least", took, s.timing.repeat)
	}
	s.wants("lost")
}

func TestClearedHookedSession(t *testing.T) {
	t.Parallel()
	s := newHooked(t)
	s.run()
	first := s.until(s.put("first"), "the first", ended)
	s.Tell("clear")
	if next := s.until(s.put("next"), "after /clear", ended); next.InboxKey != first.InboxKey {
		t.Errorf("after /clear it is %v, and was %v", next.InboxKey, first.InboxKey)
	}
	s.wants("first", "next")
}

// Whoever is killed at whatever moment: a session gets each message once.
func TestKilledHookedSessionsAndSenders(t *testing.T) {
	t.Parallel()
	killSessionsAndSenders(t, newHooked(t), 10*time.Second)
}
