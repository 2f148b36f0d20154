package teams

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInboxes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.write("teams/t/config.json", "{}")
	team := p.team("t")
	if got, err := team.Inboxes(); err != nil || got != nil {
		t.Errorf("without inboxes/: %v, %v, want none", got, err)
	}
	for _, name := range []string{
		"alice.json", ".hidden.json", "bob.json", "note.txt", "alice.json.tmp.1a2b",
		"a-b.json", "a.json", "dots...json", "nul.json", ".json", "x.JSON",
	} {
		if name == "nul.json" && runtime.GOOS == "windows" {
			continue // no file
		}
		p.write("teams/t/inboxes/"+name, "[]")
	}
	p.mkdir("teams/t/inboxes/alice.json.lock")
	p.mkdir("teams/t/inboxes/dir.json")
	p.symlink("alice.json", "teams/t/inboxes/inner.json")
	p.symlink("/etc/passwd", "teams/t/inboxes/outer.json")

	got, err := team.Inboxes()
	must(t, err)
	if diff := cmp.Diff([]string{"a", "a-b", "alice", "bob"}, got); diff != "" {
		t.Errorf("Inboxes() (-want +got):\n%s", diff)
	}
}

// InboxDir makes the directory only on request, and refuses links and teams that are gone.
func TestInboxDir(t *testing.T) {
	t.Parallel()
	t.Run("made when there is none", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.write("teams/t/config.json", "{}")
		team := p.team("t")
		if _, err := team.InboxDir(false); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTeamGone) {
			t.Errorf("InboxDir(false): %v, want fs.ErrNotExist", err)
		}
		if _, err := os.Lstat(p.path("teams/t/inboxes")); err == nil {
			t.Error("InboxDir(false) has made the directory")
		}
		dir, err := team.InboxDir(true)
		must(t, err)
		defer dir.Close()
		if want := p.path("teams/t/inboxes"); dir.Name() != want {
			t.Errorf("directory is called %s, want %s", dir.Name(), want)
		}
		must(t, dir.WriteFile("x.json", []byte("[]"), 0o600))
		fi, err := os.Lstat(p.path("teams/t/inboxes"))
		must(t, err)
		if fi.Mode() != fs.ModeDir|0o700 && runtime.GOOS != "windows" {
			t.Errorf("mode %v, want drwx------", fi.Mode())
		}
	})
	t.Run("an orphan is read and never written", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.write("teams/t/inboxes/a.json", "[]")
		team := p.team("t")
		if got, err := team.Inboxes(); err != nil || len(got) != 1 {
			t.Errorf("Inboxes() = %v, %v, want the one", got, err)
		}
		if _, err := team.InboxDir(true); !errors.Is(err, ErrTeamGone) {
			t.Errorf("InboxDir(true): %v, want ErrTeamGone", err)
		}
	})
	t.Run("nothing made in what is no team", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.mkdir("teams/t")
		team := p.team("t")
		before := p.snapshot()
		for _, create := range []bool{true, false} {
			if _, err := team.InboxDir(create); !errors.Is(err, ErrTeamGone) {
				t.Errorf("InboxDir(%v): %v, want ErrTeamGone", create, err)
			}
		}
		if diff := cmp.Diff(before, p.snapshot()); diff != "" {
			t.Errorf("something was written (-before +after):\n%s", diff)
		}
	})
	t.Run("taken back when the team went meanwhile", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		p.mkdir("teams/t")
		if dir, err := p.team("t").makeInboxes(); !errors.Is(err, ErrTeamGone) || dir != nil {
			t.Errorf("makeInboxes: %v, %v, want ErrTeamGone", dir, err)
		}
		if _, err := os.Lstat(p.path("teams/t/inboxes")); err == nil {
			t.Error("a directory was left that keeps Claude from removing the team's")
		}
	})
	t.Run("links and files are refused", func(t *testing.T) {
		t.Parallel()
		p := newPlace(t)
		outside := t.TempDir()
		p.mkdir("teams/inner/real")
		p.symlink("real", "teams/inner/inboxes")
		p.mkdir("teams/outer")
		p.symlink(outside, "teams/outer/inboxes")
		p.write("teams/file/inboxes", "[]")
		for _, name := range []string{"inner", "outer", "file"} {
			p.write("teams/"+name+"/config.json", "{}")
			for _, create := range []bool{true, false} {
				if _, err := p.team(name).InboxDir(create); !errors.Is(err, ErrNotDir) {
					t.Errorf("%s: InboxDir(%v): %v, want ErrNotDir", name, create, err)
				}
			}
			if got, err := p.team(name).Inboxes(); !errors.Is(err, ErrNotDir) {
				t.Errorf("%s: Inboxes() = %v, %v, want ErrNotDir", name, got, err)
			}
		}
		if left, _ := os.ReadDir(outside); len(left) > 0 {
			t.Errorf("written outside: %v", left)
		}
	})
}

// A directory that is replaced by a link, or by another directory, between the check and the opening is not entered.
func TestOpeningRacesWithALink(t *testing.T) {
	t.Parallel()
	for name, swap := range map[string]func(p *place){
		"link":      func(p *place) { p.symlink("target", "inboxes") },
		"directory": func(p *place) { p.mkdir("inboxes") },
	} {
		p := newPlace(t)
		p.mkdir("inboxes")
		p.mkdir("target")
		seen, err := p.root.dir.Lstat("inboxes")
		must(t, err)
		if dir, err := enter(p.root.dir, "inboxes", seen); err != nil || dir == nil {
			t.Fatalf("before: %v, %v", dir, err)
		} else {
			dir.Close()
		}
		must(t, os.Rename(p.path("inboxes"), p.path("aside")))
		swap(p)
		if dir, err := enter(p.root.dir, "inboxes", seen); dir != nil || err != nil {
			t.Errorf("%s: %v, %v, want it not entered", name, dir, err)
		}
	}
}

// A team that is deleted while it is open is gone, and so is one in whose place another was made. Nothing is created
// in either.
func TestTeamGone(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*place){
		"deleted":              func(p *place) { p.remove("teams/t") },
		"deleted with teams":   func(p *place) { p.remove("teams") },
		"without config.json":  func(p *place) { p.remove("teams/t/config.json") },
		"deleted and remade":   func(p *place) { p.remove("teams/t"); p.write("teams/t/config.json", "{}") },
		"replaced by a file":   func(p *place) { p.remove("teams/t"); p.write("teams/t", "{}") },
		"moved away":           func(p *place) { os.Rename(p.path("teams/t"), p.path("trash")) },
		"moved and remade":     func(p *place) { os.Rename(p.path("teams/t"), p.path("trash")); p.write("teams/t/config.json", "{}") },
		"moved, a link left":   func(p *place) { os.Rename(p.path("teams/t"), p.path("trash")); p.symlink("../trash", "teams/t") },
		"remade with its time": func(p *place) { p.remove("teams"); p.write("teams/t/config.json", "{}") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.write("teams/t/config.json", "{}")
			team := p.team("t")
			if err := team.Exists(); err != nil {
				t.Fatalf("before: %v", err)
			}
			change(p)
			before := p.snapshot()
			if err := team.Exists(); !errors.Is(err, ErrTeamGone) {
				t.Errorf("Exists: %v, want ErrTeamGone", err)
			}
			if _, err := team.InboxDir(true); !errors.Is(err, ErrTeamGone) {
				t.Errorf("InboxDir(true): %v, want ErrTeamGone", err)
			}
			if _, err := team.InboxDir(false); !errors.Is(err, ErrTeamGone) {
				t.Errorf("InboxDir(false): %v, want ErrTeamGone", err)
			}
			if diff := cmp.Diff(before, p.snapshot()); diff != "" {
				t.Errorf("something was written (-before +after):\n%s", diff)
			}
		})
	}
}
