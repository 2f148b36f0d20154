package attention

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
)

// unregistered is a watch that has found no pane.
func unregistered(t testing.TB) *Watch {
	t.Helper()
	w := open(t, teamstest.New(t))
	watch := NewWatch(w.Panes, w.Ledger, func() {})
	if changed, err := watch.Look(t.Context()); changed || err != nil || watch.list != nil || watch.news != 0 {
		t.Fatalf("seen without a pane: %+v, %v", watch.list, err)
	}
	return watch
}

// While no pane is registered and no process has started, no program is run, and panes and sessions are not even listed.
func TestNoPaneCostsNothing(t *testing.T) {
	t.Parallel()
	watch := unregistered(t)
	watch.panes = nil // a use of it panics
	if changed, err := watch.Look(t.Context()); changed || err != nil {
		t.Errorf("it has changed: %t, %v", changed, err)
	}
}

// Without a watch, the ledger has the items of panes.
func TestPanesWithoutAWatch(t *testing.T) {
	t.Parallel()
	ctx, w := t.Context(), open(t, teamstest.Captured(t, teamstest.OlderVersion, teamstest.NewerVersion))
	w.Narrow = true
	l := w.Ledger
	p, err := l.Panes.Add(ctx, ledger.Pane{
		InboxKey: inbox.InboxKey{Root: w.Fixture.Root.Path(), Inbox: "build"}, Socket: "/nowhere", Server: 1, ID: "%1", PID: 2, Profile: "claude",
	}, false)
	must(t, err)
	put := func(id string) {
		t.Helper()
		if _, _, err := l.PaneMessages.Add(ctx, ledger.PaneMessage{Policy: "queued", Delivery: ledger.Delivery{
			UUID: id, InboxKey: p.InboxKey, Person: true, ID: id, From: "user", Raw: []byte("text"),
		}}, [32]byte{}); err != nil {
			t.Fatal(err)
		}
	}
	put("unsure")
	must(t, l.Deliveries.End(ctx, ledger.Failed, ledger.CauseUnknown.Reason("nothing shows it"), "unsure"))
	put("waits")
	must(t, l.PaneMessages.Hold(ctx, "waits", "gone", "the pane is gone", time.Now()))
	for team, want := range map[string]int{"": 2, "tmux": 2, teamstest.Newer: 0} {
		list, err := New(w.Options).Attention(ctx, team)
		must(t, err)
		list = slices.DeleteFunc(list, func(a api.Attention) bool { return a.Team != "tmux" })
		if len(list) != want {
			t.Errorf("of team %q: %+v, want %d", team, list, want)
		}
		for _, a := range list {
			switch {
			case a.Kind == api.WaitsUnknown && a.Delivery == "unsure" && a.What == "a message may not have been sent: nothing shows it":
			case a.Kind == api.WaitsStopped && a.Count == 1 && a.Member == "build":
			default:
				t.Errorf("of team %q: %+v", team, a)
			}
		}
	}
}

// A session is not looked at closely each time, but at once when its file changes, or its process has ended.
func TestSessionIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	w := open(t, teamstest.New(t))
	says, kill := startSession(t, w.Fixture)
	says("idle")
	watch := NewWatch(w.Panes, w.Ledger, func() {})
	look := func() (tmux.Reason, time.Time) {
		t.Helper()
		if _, err := watch.Look(t.Context()); err != nil || len(watch.around) != 1 {
			t.Fatalf("sessions: %+v, %v", watch.around, err)
		}
		return watch.view(watch.around[0]).State, watch.sights[watch.around[0].Ref].at
	}
	for _, step := range []struct {
		what  string
		do    func()
		close bool
		want  tmux.Reason
	}{
		{"first", func() {}, true, tmux.Empty},
		{"again", func() {}, false, tmux.Empty},
		{"busy", func() { says("busy, by a longer text") }, true, tmux.Unknown},
		{"busy again", func() {}, false, tmux.Unknown},
		{"killed", kill, true, tmux.Gone},
		{"gone", func() {}, false, tmux.Gone},
	} {
		var last time.Time
		if len(watch.around) > 0 {
			last = watch.sights[watch.around[0].Ref].at
		}
		step.do()
		if state, at := look(); state != step.want || at.After(last) != step.close {
			t.Errorf("%s: it is %s, looked at closely: %t", step.what, state, at.After(last))
		}
	}
}

// That holds even for sessions of one name.
func TestSessionsOfOneNameAreLookedAtOnce(t *testing.T) {
	t.Parallel()
	w := open(t, teamstest.New(t))
	for range 2 {
		says, _ := startSession(t, w.Fixture)
		says("idle")
	}
	watch := NewWatch(w.Panes, w.Ledger, func() {})
	for _, first := range []bool{true, false} {
		if changed, err := watch.Look(t.Context()); err != nil || changed != first || len(watch.around) != 2 {
			t.Errorf("a change at the first look: %t, %t, %v; sessions: %+v", first, changed, err, watch.around)
		}
		for _, s := range watch.around {
			if closely := watch.sights[s.Ref].at.Equal(watch.now); closely != first || watch.view(s).Pane.Ref != s.Ref {
				t.Errorf("%+v is looked at closely at the first look: %t, %t", watch.view(s), first, closely)
			}
		}
	}
}

// startSession starts a process; says writes the file of its session with a status, and kill ends it.
func startSession(t *testing.T, f *teamstest.Fixture) (says func(status string), kill func()) {
	t.Helper()
	agent := exec.Command("sleep", "1000")
	must(t, agent.Start())
	kill = sync.OnceFunc(func() { _, _ = agent.Process.Kill(), agent.Wait() })
	t.Cleanup(kill)
	file := filepath.Join(f.Root.Path(), "sessions", strconv.Itoa(agent.Process.Pid)+".json")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	return func(status string) {
		must(t, os.WriteFile(file, fmt.Appendf(nil, `{"pid":%[1]d,"sessionId":"5e551000-0000-4000-8000-%012[1]d","cwd":"/","name":"frontend",`+
			`"startedAt":1795196213317,"version":"2.1.332","kind":"interactive","entrypoint":"cli","messagingSocketPath":"/nowhere","status":%[2]q}`, agent.Process.Pid, status), 0o600))
	}, kill
}
