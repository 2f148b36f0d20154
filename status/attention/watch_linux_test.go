package attention

import (
	"os"
	"testing"
	"time"

	"teambridge/relay/pane"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/tmux"
	"teambridge/teams/teamstest"
)

func TestMain(m *testing.M) {
	simchild.MainTerminal() // does not return in an agent
	tmux.Relax(time.Minute)
	os.Exit(m.Run())
}

// A pane whose screen stays the same is not looked at closely each time.
func TestPaneIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	server, w := standin.StartTmux(t), open(t, teamstest.New(t))
	id := server.StartAgent(t)
	if _, _, err := w.Panes.Registry.Add(t.Context(), pane.Registration{Name: "build", Target: id, Socket: server.Socket}); err != nil {
		t.Fatal(err)
	}
	watch := NewWatch(w.Panes, w.Ledger, func() {})
	look := func() (pane.View, time.Time) {
		t.Helper()
		if _, err := watch.Look(t.Context()); err != nil || len(watch.list) != 1 {
			t.Fatalf("panes: %+v, %v", watch.list, err)
		}
		return watch.view(watch.list[0]), watch.sights[watch.list[0].Ref].at
	}
	// tmux names the window after the program within a second, which is a change.
	_, closely := look()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		v, then := look()
		if then.Equal(closely) && v.State == tmux.Empty {
			break
		} else if time.Now().After(end) {
			t.Fatalf("it is looked at closely each time, last at %v: %s", then, v.State)
		}
		closely = then
	}
	server.Keys(t, id, "-l", "x")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if v, then := look(); v.State == tmux.Draft && then.After(closely) {
			break
		} else if time.Now().After(end) {
			t.Fatalf("what is typed is not seen: %s, looked at closely at %v", v.State, then)
		}
	}
}

// While there are only sessions of Claude Code, no look is needed until an event: the end of a session is one.
func TestEndOfASessionIsReported(t *testing.T) {
	t.Parallel()
	w, ended := open(t, teamstest.New(t)), make(chan struct{})
	says, kill := startSession(t, w.Fixture)
	says("idle")
	watch := NewWatch(w.Panes, w.Ledger, func() { close(ended) })
	defer watch.Close()
	for range 2 {
		if _, err := watch.Look(t.Context()); err != nil || len(watch.around) != 1 || watch.Regularly() {
			t.Fatalf("sessions: %+v, %v; looks at them are needed: %t", watch.around, err, watch.Regularly())
		}
	}
	kill()
	<-ended
	if _, err := watch.Look(t.Context()); err != nil || watch.view(watch.around[0]).State != tmux.Gone {
		t.Errorf("%+v, %v", watch.view(watch.around[0]), err)
	}
}
