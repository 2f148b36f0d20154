package interop

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// What was said in a real team is found after its session has ended and its
// directory is gone; and a team that is made under the same name is another one.
func TestHistoryOfARealTeamThatEnded(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		standin.Require(t, v)
		home := standin.NewHome(t, nil)
		u := &user{t: t, team: standin.StartTeam(t, v, home), home: t.TempDir()}
		ctx := deadline(t, patience)
		watching := u.lives(ctx, "zucchini")
		first, err := u.team.Config()
		if err != nil {
			t.Fatal(err)
		}
		if err := u.team.Lead.End(ctx); err != nil {
			t.Fatal(err)
		}
		u.ended(t)
		watching.end(ctx)
		u.found(t, "zucchini", 1)
		if status, _, errs := u.run("read", "--team", u.team.Name); status != api.ExitNotFound {
			t.Errorf("read of the team that ended: exit status %d\n%s", status, errs)
		}

		// The same name again.
		again := &user{t: t, home: u.home}
		if v.Compare(teams.Version{Major: 2, Minor: 1, Patch: 329}) < 0 {
			return // a session that is resumed may make another one
		}
		lead := standin.StartTerminal(t, v, home, "--resume", first.LeadSessionID)
		again.team = &standin.Team{Version: v, Root: home.Root, Name: u.team.Name, Member: standin.Worker, Home: home, API: home.API, Lead: lead}
		if err := again.team.Spawn(ctx, standin.Worker); err != nil {
			t.Fatal(err)
		}
		second, err := again.team.Config()
		if err != nil {
			t.Fatal(err)
		}
		if second.Name != first.Name || second.CreatedAt == first.CreatedAt {
			t.Fatalf("want the same name made at another time; first %s at %d, then %s at %d", first.Name, first.CreatedAt, second.Name, second.CreatedAt)
		}
		watching = again.lives(ctx, "aubergine")
		if out := again.must("read", "--history", "--team", second.Name); strings.Contains(out, "zucchini") || !strings.Contains(out, "aubergine") {
			t.Errorf("the history of the team that lives is not its own:\n%s", out)
		}
		if out := again.must("history", "--team", second.Name); strings.Count(out, "team "+second.Name) != 2 ||
			strings.Index(out, "zucchini") > strings.Index(out, "aubergine") || !strings.Contains(out, "zucchini") {
			t.Errorf("want two teams of one name, the older first:\n%s", out)
		}
		if err := again.team.Lead.End(ctx); err != nil {
			t.Fatal(err)
		}
		again.ended(t)
		watching.end(ctx)
		again.found(t, "zucchini", 1)
		again.found(t, "aubergine", 1)
	})
}

// lives lets the worker be asked something and answer while somebody watches.
// The watching ends with the team.
func (u *user) lives(ctx context.Context, word string) *command {
	u.t.Helper()
	watching := u.start("watch", "--team", u.team.Name, "-v")
	select {
	case <-watching.ready:
	case <-ctx.Done():
		u.t.Fatal("watch did not begin")
	}
	u.must("send", "worker", "about the "+word, "--team", u.team.Name, "--wait", "consumed")
	watching.line(ctx, func(line string) bool { return strings.Contains(line, "about the "+word) })
	// A newer agent that is at work when its lead exits can
	// write into the directory while that is removed: it stays, then.
	u.must("wait", "--for", "idle", "--member", "worker", "--team", u.team.Name, "--timeout", "30s")
	return watching
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

// found looks for a word that was said to the worker.
func (u *user) found(t *testing.T, word string, want int) {
	t.Helper()
	for _, args := range [][]string{{"search", word, "--inbox", "worker", "--json"}, {"history", "--inbox", "worker", "--json"}} {
		list := decoded[[]api.Message](t, u.must(args...))
		n := 0
		for _, m := range list {
			if m.Text == "about the "+word {
				n++
				if m.Team != u.team.Name || !m.Gone {
					t.Errorf("%v found it as %+v; want it gone, of team %s", args, m, u.team.Name)
				}
			}
		}
		if n != want {
			t.Errorf("%v found %q %d times, want %d", args, word, n, want)
		}
	}
}
