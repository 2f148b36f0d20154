package interop

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/teams"
)

// The messages of a real team are found after its session has ended and Claude Code has removed its directory.
func TestHistoryOfARealTeamThatEnded(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		u := newUser(t, v)
		ctx := deadline(t, patience)
		watching := u.start("watch", "--team", u.team.Name, "-v")
		select {
		case <-watching.ready:
		case <-ctx.Done():
			t.Fatal("watch did not begin")
		}
		u.must("send", "worker", "about the zucchini", "--team", u.team.Name, "--wait", "consumed")
		watching.line(ctx, func(line string) bool { return strings.Contains(line, "about the zucchini") })
		// The directory stays if a newer agent that is busy when its lead exits writes into it while it is removed.
		u.must("wait", "--for", "idle", "--member", "worker", "--team", u.team.Name, "--timeout", "30s")
		must(t, u.team.Lead.End(ctx))
		u.ended(t)
		watching.end(ctx)
		for _, args := range [][]string{{"search", "zucchini", "--inbox", "worker", "--json"}, {"history", "--inbox", "worker", "--json"}} {
			list := decoded[[]api.Message](t, u.must(args...))
			list = slices.DeleteFunc(list, func(m api.Message) bool { return m.Text != "about the zucchini" })
			if len(list) != 1 || list[0].Team != u.team.Name || !list[0].Gone {
				t.Errorf("%v found it as %+v; want it once, gone, of team %s", args, list, u.team.Name)
			}
		}
		if status, _, errs := u.run("read", "--team", u.team.Name); status != api.ExitNotFound {
			t.Errorf("read of the team that ended: exit status %d\n%s", status, errs)
		}
	})
}

// ended waits until the team's directory is gone.
func (u *user) ended(t *testing.T) {
	t.Helper()
	ctx := deadline(t, 20*time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(u.team.Dir()); errors.Is(err, fs.ErrNotExist) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			var left []string
			_ = filepath.WalkDir(u.team.Dir(), func(path string, _ fs.DirEntry, _ error) error {
				left = append(left, path)
				return nil
			})
			t.Fatalf("still there: %v\n%s", left, u.team.Lead.Screen())
		}
	}
}
