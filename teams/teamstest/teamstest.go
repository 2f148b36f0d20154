// Package teamstest makes Claude directories with teams, for the tests of the other packages. All of them are removed
// when the test ends, and every error ends the test.
package teamstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/watch"
)

// The names of the captured teams, and the versions of Claude Code that made them.
const (
	Older        = "myteam"
	OlderVersion = "claude-2.1.80"
	Newer        = "session-2de3961d"
	NewerVersion = "claude-2.1.329"
)

// Patient has the longest times for which locks are waited for and held in tests, which can share a busy disk.
var Patient = lockedfile.Options{Wait: time.Minute, Hold: time.Minute}

// Fixture is a Claude directory, and a state directory for teambridge.
type Fixture struct {
	Root   *teams.Root
	State  string // its path is short enough for a socket in it
	Locker *lockedfile.Locker

	t testing.TB
}

// Captured returns a fixture with the captured teams of these versions. It is unknown whether their leads are alive:
// those were processes of another machine.
func Captured(t testing.TB, versions ...string) *Fixture {
	t.Helper()
	dir := t.TempDir()
	for _, v := range versions {
		for _, part := range []string{"teams", "tasks"} {
			must(t, os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(testdata(), v, part))))
		}
	}
	configs, err := filepath.Glob(filepath.Join(dir, "teams", "*", "config.json"))
	must(t, err)
	for _, path := range configs {
		data, err := os.ReadFile(path)
		must(t, err)
		// This machine may have the same name.
		must(t, os.WriteFile(path, bytes.ReplaceAll(data, []byte(`"vm#pid:`), []byte(`"not this one#pid:`)), 0o600))
	}
	return Open(t, dir)
}

// New returns a fixture without teams.
func New(t testing.TB) *Fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "teams"), 0o700))
	return Open(t, dir)
}

// Open returns a fixture for an existing Claude directory.
func Open(t testing.TB, claude string) *Fixture {
	t.Helper()
	state := StateDir(t)
	root, err := teams.Open(claude)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	opts := Patient
	opts.Dir = filepath.Join(state, "locks")
	return &Fixture{Root: root, State: state, Locker: lockedfile.New(opts), t: t}
}

// StateDir returns a directory whose path is short enough for a socket in it.
func StateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// testdata returns the directory of the captured teams.
func testdata() string {
	if _, file, _, _ := runtime.Caller(0); filepath.IsAbs(file) { // else it was built with -trimpath
		return filepath.Join(filepath.Dir(file), "..", "..", "testdata")
	}
	for up := "."; ; up = filepath.Join(up, "..") { // tests run in the directories of their packages
		if _, err := os.Stat(filepath.Join(up, "go.mod")); err == nil {
			return filepath.Join(up, "testdata")
		} else if dir, aerr := filepath.Abs(up); aerr != nil || dir == filepath.Dir(dir) {
			panic(err)
		}
	}
}

// Make makes a team whose first member leads it.
func (f *Fixture) Make(team string, createdAt int64, members ...string) {
	f.t.Helper()
	type member struct {
		AgentID   string `json:"agentId"`
		Name      string `json:"name"`
		AgentType string `json:"agentType"`
	}
	var list []member
	for _, m := range members {
		list = append(list, member{m + "@" + team, m, "agent"})
	}
	config, err := json.Marshal(map[string]any{"name": team, "createdAt": createdAt, "leadAgentId": list[0].AgentID, "members": list})
	must(f.t, err)
	must(f.t, os.MkdirAll(f.Path(team, "inboxes"), 0o700))
	must(f.t, os.WriteFile(f.Path(team, "config.json"), config, 0o600))
}

// Path returns the path of a team's directory, or of a file in it.
func (f *Fixture) Path(team string, in ...string) string {
	return filepath.Join(append([]string{f.Root.Path(), "teams", team}, in...)...)
}

// Team opens a team.
func (f *Fixture) Team(name string) *teams.Team {
	f.t.Helper()
	team, err := f.Root.Team(name)
	must(f.t, err)
	f.t.Cleanup(func() { _ = team.Close() })
	return team
}

// Inbox opens an inbox of a team.
func (f *Fixture) Inbox(team, name string) *inbox.Inbox {
	f.t.Helper()
	box, err := inbox.Open(f.Team(team), name, f.Locker)
	must(f.t, err)
	return box
}

// Send appends a message to an inbox of a team.
func (f *Fixture) Send(team, from, to, text string) {
	f.t.Helper()
	_, err := f.Inbox(team, to).Append(f.t.Context(), inbox.Message{From: from, Text: text}, inbox.AppendOptions{})
	must(f.t, err)
}

// Take removes the rows that match from an inbox, as a newer agent does, and returns them.
func Take(ctx context.Context, box *inbox.Inbox, match func(inbox.Row) bool) (taken []inbox.Row, err error) {
	err = box.Edit(ctx, func(d *inbox.Draft) error {
		taken = nil
		for i, row := range d.All() {
			if match(row) {
				taken = append(taken, row)
				d.Remove(i)
			}
		}
		return nil
	})
	return taken, err
}

// All matches every row, for [Take].
func All(inbox.Row) bool { return true }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Warn returns a function that fails the test with a warning, unless it is [watch.ErrLimit]: other processes may have
// all watches of the system, and then files are polled.
func Warn(t testing.TB) func(error) {
	return func(err error) {
		if !errors.Is(err, watch.ErrLimit) {
			t.Error(err)
		}
	}
}
