package teams

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/teams/errtest"
	"teambridge/teams/lockedfile"
)

// A team is made once, with a lead that can be written to, and Discard removes all of it, once.
func TestCreateAndDiscard(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	root, err := Open(dir)
	must(t, err)
	defer root.Close()
	path := filepath.Join(dir, "teams", "mine")
	f := OwnedTeam{}
	keep := func(next OwnedTeam) error {
		f = next
		return nil
	}
	for i, want := range []bool{true, false} {
		made, err := root.Create(t.Context(), "mine", "boss", "s-1", "/home/dev", keep)
		if err != nil || made != want {
			t.Fatalf("call %d: made %v, %v; want %v", i+1, made, err, want)
		}
	}
	team, err := root.Team("mine")
	must(t, err)
	defer team.Close()
	c, err := team.Config(t.Context())
	must(t, err)
	lead, ok := c.Lead()
	if !ok || lead.Name != "boss" || lead.Guest() || c.LeadProcess == nil || c.LeadSessionID != "s-1" || len(c.Faults) > 0 {
		t.Errorf("config: %+v", c)
	}
	if got := c.LeadProcess.Liveness(); got == Gone {
		t.Errorf("the lead is %v", got)
	}
	// Its agent is headless, and is about to start.
	if got := c.Deliverability("boss", Facts{}); got != Reachable {
		t.Errorf("before a relay runs, the lead is %s", got)
	}
	if !c.IsOwned(f) {
		t.Errorf("%+v is not known again by %+v", c, f)
	}
	if removed, err := root.Discard(t.Context(), f); err != nil || !removed {
		t.Fatal(removed, err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if removed, err := root.Discard(t.Context(), f); err != nil || removed {
		t.Errorf("discarded twice: %v, %v", removed, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "teams")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

var must = errtest.Must

// orphaned makes a team whose leader seems to have died.
func orphaned(t *testing.T) (root *Root, f OwnedTeam, config string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	if root, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	if _, err := root.Create(t.Context(), "mine", "boss", "s-1", "/", func(next OwnedTeam) error {
		f = next
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	config = filepath.Join(dir, "teams", "mine", "config.json")
	change(t, config, `"procStart": "`, `"procStart": "9`)
	f.Leaders = append(f.Leaders, leaderOf(t, root))
	return root, f, config
}

func leaderOf(t *testing.T, root *Root) string {
	t.Helper()
	return teamConfig(t, root).LeadProcess.leader().text()
}

func teamConfig(t *testing.T, root *Root) *Config {
	t.Helper()
	team, err := root.Team("mine")
	must(t, err)
	defer team.Close()
	c, err := team.Config(t.Context())
	must(t, err)
	return c
}

func change(t *testing.T, path, from, to string) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Contains(data, []byte(from)) {
		t.Fatalf("%s is not in %s", from, data)
	}
	must(t, os.WriteFile(path, bytes.Replace(data, []byte(from), []byte(to), 1), 0o600))
}

// takenOver has what another program can do to a team that we made.
var takenOver = map[string]func(t *testing.T, config string){
	"made anew": func(t *testing.T, config string) {
		t.Helper()
		change(t, config, `"createdAt": `, `"createdAt": 1`)
	},
	"another process has led it, and died": func(t *testing.T, config string) {
		t.Helper()
		change(t, config, `"procStart": "9`, `"procStart": "8`)
	},
	"another session leads it": func(t *testing.T, config string) {
		t.Helper()
		change(t, config, `"leadSessionId": "s-1"`, `"leadSessionId": "s-2"`)
	},
	"another member leads it": func(t *testing.T, config string) {
		t.Helper()
		change(t, config, `"leadAgentId": "boss@mine"`, `"leadAgentId": "w@mine"`)
		change(t, config, `"members": [`, `"members": [{"agentId":"w@mine","name":"w","backendType":"in-process"},`)
	},
	"of an old version": func(t *testing.T, config string) {
		t.Helper()
		change(t, config, `"leadProcess"`, `"ledBy"`)
	},
}

// A team whose process has died can be acquired again: only leadProcess changes, and members that were added since
// stay.
func TestAdopt(t *testing.T) {
	t.Parallel()
	root, f, config := orphaned(t)
	change(t, config, `"members": [`, `"more" : [1.0, 2],  "members": [
    {"agentId":"w@mine","name":"w","backendType":"in-process"},`)
	before, err := os.ReadFile(config)
	must(t, err)
	was := teamConfig(t, root)
	recorded := 0
	locker := lockedfile.New(lockedfile.Options{Hold: time.Minute})
	adopted, err := root.Adopt(t.Context(), locker, f, func(next OwnedTeam) error {
		recorded++
		if !was.IsOwned(next) {
			t.Errorf("recorded %+v, by which the team is not known as it stands when the process dies now", next)
		}
		f = next
		return nil
	})
	if !adopted || err != nil || recorded != 1 {
		t.Fatalf("adopted %v, %v, recorded %d times", adopted, err, recorded)
	}
	c := teamConfig(t, root)
	if !c.IsOwned(f) || c.LeadProcess.leader() != thisLeader(c.LeadProcess.ClaimedAt) || len(c.Members) != 2 {
		t.Errorf("%+v is not known again by %+v", c, f)
	}
	after, err := os.ReadFile(config)
	must(t, err)
	if cut := func(b []byte) string {
		head, tail, _ := strings.Cut(string(b), `"leadProcess": {`)
		_, tail, _ = strings.Cut(tail, "}")
		return head + tail
	}; cut(before) != cut(after) {
		t.Errorf("more than leadProcess was changed: %s", after)
	}
	// A second time it is ours already.
	if adopted, err := root.Adopt(t.Context(), locker, f, func(OwnedTeam) error { return errors.New("recorded again") }); !adopted || err != nil {
		t.Errorf("again: %v, %v", adopted, err)
	}
	// Other agents are in it.
	var occupied *OccupiedError
	if removed, err := root.Discard(t.Context(), f); removed || !errors.As(err, &occupied) || !slices.Equal(occupied.Members, []string{"w"}) {
		t.Errorf("discarded %v, %v", removed, err)
	}
}

// untouched tries to acquire and to remove a team, both of which must fail.
func untouched(t *testing.T, root *Root, f OwnedTeam, config string) {
	t.Helper()
	before, err := os.ReadFile(config)
	must(t, err)
	adopted, err := root.Adopt(t.Context(), lockedfile.New(lockedfile.Options{Hold: time.Minute}), f, func(OwnedTeam) error { return nil })
	if adopted || err != nil {
		t.Errorf("adopted %v, %v", adopted, err)
	}
	if removed, err := root.Discard(t.Context(), f); removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	after, err := os.ReadFile(config)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("changed to %s, %v", after, err)
	}
}

// A team that another program made or took over is neither acquired nor removed. The same holds if the change cannot
// be recorded first.
func TestOthersTeamsAreLeftAlone(t *testing.T) {
	t.Parallel()
	for name, spoil := range takenOver {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, f, config := orphaned(t)
			spoil(t, config)
			untouched(t, root, f, config)
			if removed, err := root.DiscardLed(t.Context(), f); removed || err != nil {
				t.Errorf("removed %v, %v", removed, err)
			}
		})
	}
	t.Run("not recorded", func(t *testing.T) {
		t.Parallel()
		root, f, config := orphaned(t)
		before, err := os.ReadFile(config)
		must(t, err)
		full := errors.New("full")
		if adopted, err := root.Adopt(t.Context(), lockedfile.New(lockedfile.Options{Hold: time.Minute}), f, func(OwnedTeam) error { return full }); adopted || !errors.Is(err, full) {
			t.Errorf("adopted %v, %v", adopted, err)
		}
		if after, err := os.ReadFile(config); err != nil || !bytes.Equal(before, after) {
			t.Errorf("changed to %s, %v", after, err)
		}
		if made, err := root.Create(t.Context(), "second", "boss", "", "/", func(OwnedTeam) error { return full }); made || !errors.Is(err, full) {
			t.Errorf("made %v, %v", made, err)
		}
		if left, err := os.ReadDir(filepath.Dir(filepath.Dir(config))); err != nil || len(left) != 1 {
			t.Errorf("left: %v, %v", left, err)
		}
	})
}

// The remains of a process that was killed while it made a team are removed by a later process, but not while that
// process may still be running.
func TestUnbornTeamsAreSwept(t *testing.T) {
	t.Parallel()
	root, _, config := orphaned(t)
	all := filepath.Dir(filepath.Dir(config))
	old, young := filepath.Join(all, unfinishedPrefix+"1-1"), filepath.Join(all, unfinishedPrefix+"1-2")
	for _, dir := range []string{old, young} {
		must(t, os.MkdirAll(filepath.Join(dir, "inboxes"), 0o700))
	}
	long := time.Now().Add(-2 * unfinishedFor)
	must(t, os.Chtimes(old, long, long))
	if listed, err := root.Teams(); err != nil || len(listed) != 1 {
		t.Errorf("teams %v, %v", listed, err)
	}
	if left, err := root.Leftovers(); err != nil || !slices.Equal(left, []string{old}) {
		t.Errorf("leftovers %v, %v; want %s", left, err, old)
	}
	must(t, root.Sweep())
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the young one: %v", err)
	}
}

// A process that is killed while it removes a team leaves nothing that counts as a team, and the team can be made
// again at once.
func TestKilledWhileRemoving(t *testing.T) {
	t.Parallel()
	root, f, config := orphaned(t)
	all := filepath.Dir(filepath.Dir(config))
	killed := make(chan struct{})
	root.hidden = runtime.Goexit
	go func() {
		defer close(killed)
		_, _ = root.Discard(t.Context(), f)
		t.Error("it was not killed")
	}()
	<-killed
	left, err := os.ReadDir(all)
	if err != nil || len(left) != 1 {
		t.Fatalf("left: %v, %v; want one directory", left, err)
	}
	if _, err := os.Stat(filepath.Join(all, left[0].Name(), configFile)); err != nil {
		t.Errorf("the kill came too late for this test: %v", err)
	}
	if listed, err := root.Teams(); err != nil || len(listed) != 0 {
		t.Errorf("teams %v, %v", listed, err)
	}
	if removed, err := root.Discard(t.Context(), f); removed || err != nil {
		t.Errorf("removed again: %v, %v", removed, err)
	}
	if made, err := root.Create(t.Context(), "mine", "boss", "", "/", nil); !made || err != nil {
		t.Errorf("made %v, %v", made, err)
	}
	if err := root.Sweep(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(all); err != nil || len(left) != 1 || left[0].Name() != "mine" {
		t.Errorf("left: %v, %v; want the new team", left, err)
	}
}

// A team of ours that has lost its config.json gets it again, and keeps the rows in its inboxes.
func TestRestore(t *testing.T) {
	t.Parallel()
	root, f, config := orphaned(t)
	dir := filepath.Dir(config)
	keep := func(next OwnedTeam) error {
		f = next
		return nil
	}
	if restored, err := root.Restore(f, "/", keep); restored || err != nil {
		t.Errorf("while it has one: %v, %v", restored, err)
	}
	was := f
	inbox := filepath.Join(dir, "inboxes", "boss.json")
	must(t, errors.Join(os.Remove(config), os.WriteFile(inbox, []byte("[]"), 0o600)))
	full := errors.New("full")
	if restored, err := root.Restore(f, "/", func(OwnedTeam) error { return full }); restored || !errors.Is(err, full) {
		t.Errorf("not recorded: %v, %v", restored, err)
	}
	made := []byte("{}")
	if restored, err := root.Restore(f, "/", func(OwnedTeam) error { return os.WriteFile(config, made, 0o600) }); restored || err != nil {
		t.Errorf("made by somebody else meanwhile: %v, %v", restored, err)
	}
	if data, err := os.ReadFile(config); !bytes.Equal(data, made) || err != nil {
		t.Errorf("that one was changed to %s, %v", data, err)
	}
	must(t, os.Remove(config))
	if restored, err := root.Restore(f, "/", keep); !restored || err != nil {
		t.Fatalf("restored %v, %v", restored, err)
	}
	c := teamConfig(t, root)
	if !c.IsOwned(f) || f.CreatedAt != was.CreatedAt || c.LeadProcess.leader() != thisLeader(c.LeadProcess.ClaimedAt) || len(c.Faults) > 0 {
		t.Errorf("%+v is not known again by %+v", c, f)
	}
	if _, err := os.Stat(inbox); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	// The same without its inboxes.
	must(t, errors.Join(os.Remove(config), os.RemoveAll(filepath.Dir(inbox))))
	if restored, err := root.Restore(f, "/", keep); !restored || err != nil {
		t.Errorf("without inboxes: %v, %v", restored, err)
	}
	if _, err := os.Stat(filepath.Dir(inbox)); err != nil {
		t.Error(err)
	}
	must(t, os.RemoveAll(dir))
	if restored, err := root.Restore(f, "/", keep); restored || err != nil {
		t.Errorf("when it is gone: %v, %v", restored, err)
	}
}

// An invalid name of a team or its lead is refused, and nothing is made.
func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := Open(dir)
	must(t, err)
	defer root.Close()
	for _, names := range [][2]string{{"../x", "boss"}, {"mine", "a/b"}, {"", "boss"}} {
		if _, err := root.Create(t.Context(), names[0], names[1], "", "/", nil); !errors.Is(err, ErrBadName) {
			t.Errorf("%q: %v, want ErrBadName", names, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "teams")); err == nil {
		t.Error("something was made")
	}
}
