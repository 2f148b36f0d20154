package attention

import (
	"os"
	"testing"
	"time"

	"teambridge/relay/pane"
	"teambridge/relay/sim/simchild"
	"teambridge/relay/sim/standin"
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
	if _, _, err := w.Panes.Add(t.Context(), pane.Registration{Name: "build", Target: id, Socket: server.Socket}); err != nil {
		t.Fatal(err)
	}
	watch := NewWatch(w.Panes, w.Ledger)
	look := func() (pane.View, time.Time) {
		t.Helper()
		if _, err := watch.Look(t.Context()); err != nil || len(watch.list) != 1 {
			t.Fatalf("panes: %+v, %v", watch.list, err)
		}
		return watch.view(watch.list[0]), watch.sights[watch.list[0].Ref].at
	}
	first, closely := look()
	if again, then := look(); !then.Equal(closely) || again.State != tmux.StateEmpty || again.State != first.State {
		t.Errorf("it showed the same, and was looked at closely at %v and %v: %s, %s", closely, then, first.State, again.State)
	}
	server.Keys(t, id, "-l", "x")
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if v, then := look(); v.State == tmux.StateDraft && then.After(closely) {
			break
		} else if time.Now().After(end) {
			t.Fatalf("what is typed is not seen: %s, looked at closely at %v", v.State, then)
		}
	}
}
