package teams

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/winetest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	claude := filepath.Join("home", ".claude")
	for name, tc := range map[string]struct {
		override string
		env      map[string]string
		want     string
	}{
		"override first":        {"given", map[string]string{"CLAUDE_CONFIG_DIR": "set", homeVariable: "home"}, "given"},
		"variable next":         {"", map[string]string{"CLAUDE_CONFIG_DIR": "set", homeVariable: "home"}, "set"},
		"home last":             {"", map[string]string{homeVariable: "home"}, claude},
		"empty is not set":      {"", map[string]string{"CLAUDE_CONFIG_DIR": "", homeVariable: "home"}, claude},
		"nothing to go by":      {"", nil, ""},
		"an empty home is none": {"", map[string]string{homeVariable: ""}, ""},
	} {
		got, err := Find(tc.override, func(key string) (string, bool) { v, ok := tc.env[key]; return v, ok })
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("%s: Find = %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

func TestOpenNeedsADirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o644))
	for _, path := range []string{filepath.Join(dir, "missing"), file, filepath.Join(file, "below")} {
		root, err := Open(path)
		nr, ok := errors.AsType[*NoRootError](err)
		if !ok || nr.Dir != path || root != nil {
			t.Errorf("Open(%s) = %v, %v, want a NoRootError for it", path, root, err)
		}
	}
	if _, err := Open(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: %v, want fs.ErrNotExist in it", err)
	}
}

// An expected directory is empty until it exists, and then has all its teams.
func TestOpenExpected(t *testing.T) {
	t.Parallel()
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	winetest.SkipLinks(t)
	link := filepath.Join(home, "link")
	must(t, os.Symlink(home, link))
	path := filepath.Join(home, ".claude")
	root, err := OpenExpected(filepath.Join(link, ".claude"))
	must(t, err)
	if root.Path() != path {
		t.Errorf("its path is %s", root.Path())
	}
	list, err := root.Teams()
	sessions, serr := root.Sessions(t.Context())
	if len(list)+len(sessions) != 0 || err != nil || serr != nil {
		t.Errorf("before it exists: %v, %v, %v, %v", list, err, sessions, serr)
	}
	if _, err := root.Team("one"); !errors.As(err, new(*NotFoundError)) {
		t.Errorf("a team: %v", err)
	}
	if err := root.Sweep(); err != nil {
		t.Error(err)
	}
	if _, err := root.Create(t.Context(), "one", "lead", "", home, nil); !errors.As(err, new(*NoRootError)) {
		t.Errorf("made a team in it: %v", err)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 1 {
		t.Errorf("something was made: %v, %v", entries, err)
	}

	must(t, os.Mkdir(path, 0o700))
	if made, err := root.Create(t.Context(), "one", "lead", "", home, nil); !made || err != nil {
		t.Errorf("made: %t, %v", made, err)
	}
	if list, err := root.Teams(); err != nil || len(list) != 1 {
		t.Errorf("since it exists: %v, %v", list, err)
	}
	if err := root.Close(); err != nil {
		t.Error(err)
	}
	if _, err := OpenExpected(filepath.Join(home, "none", ".claude")); !errors.As(err, new(*NoRootError)) {
		t.Errorf("in a directory that does not exist: %v", err)
	}
}

func TestOpenFollowsLinksToTheRoot(t *testing.T) {
	t.Parallel()
	p, _ := fixture(t, g1Team)
	winetest.SkipLinks(t)
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(p.dir, link))
	root, err := Open(link)
	must(t, err)
	defer root.Close()
	if root.Path() != p.dir {
		t.Errorf("Path() = %s, want the real path %s", root.Path(), p.dir)
	}
	team, err := root.Team(g1Team)
	must(t, err)
	defer team.Close()
	if want := filepath.Join(p.dir, "teams", g1Team); team.Path() != want {
		t.Errorf("team's Path() = %s, want %s", team.Path(), want)
	}
}

func TestTeams(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if got, err := p.root.Teams(); err != nil || len(got) != 0 {
		t.Errorf("without teams/: %v, %v, want none", got, err)
	}
	p.write("teams/b/config.json", "{}")
	p.write("teams/a/config.json", "cut off {")
	p.mkdir("teams/orphan/inboxes")
	p.write("teams/.hidden/config.json", "{}")
	if runtime.GOOS != "windows" { // no name ends with a dot there
		p.write("teams/trailing./config.json", "{}")
	}
	p.write("teams/file", "")
	p.write("elsewhere/config.json", "{}")
	p.symlink("../elsewhere", "teams/inner")
	p.symlink(t.TempDir(), "teams/outer")

	found, err := p.root.Teams()
	must(t, err)
	var got []string
	for _, l := range found {
		s := l.Name
		if l.Orphan {
			s += " orphan"
		}
		if l.Err != nil {
			s += " refused"
			if !errors.Is(l.Err, ErrNotDir) {
				t.Errorf("%s: %v, want ErrNotDir", l.Name, l.Err)
			}
		}
		got = append(got, s)
	}
	want := []string{"a", "b", "inner refused", "orphan orphan", "outer refused"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Teams() (-want +got):\n%s", diff)
	}
}

// A link is refused wherever it leads, and the error has its path.
func TestTeamRefusesLinks(t *testing.T) {
	t.Parallel()
	p, _ := fixture(t, g1Team)
	outside := t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, configFile), []byte("{}"), 0o644))
	p.symlink(outside, "teams/outer")
	p.symlink(g1Team, "teams/inner")
	p.write("teams/file", "{}")
	for _, name := range []string{"outer", "inner", "file"} {
		team, err := p.root.Team(name)
		if !errors.Is(err, ErrNotDir) || team != nil {
			t.Errorf("Team(%q) = %v, %v, want ErrNotDir", name, team, err)
		} else if !strings.Contains(err.Error(), p.path("teams/"+name)) {
			t.Errorf("Team(%q): %v does not name the path", name, err)
		}
	}
	for _, name := range []string{"../teams/" + g1Team, "..", ".", "", "teams/x"} {
		if _, err := p.root.Team(name); !errors.Is(err, ErrBadName) {
			t.Errorf("Team(%q): %v, want ErrBadName", name, err)
		}
	}
}

func TestTeamsDirectoryOutsideIsRefused(t *testing.T) {
	t.Parallel()
	other, _ := fixture(t, g1Team)
	p := newPlace(t)
	p.symlink(other.path("teams"), "teams")
	if found, err := p.root.Teams(); err == nil {
		t.Errorf("Teams() = %v, want an error: teams leads out of the directory", found)
	}
	if team, err := p.root.Team(g1Team); err == nil {
		t.Errorf("Team() = %s, want an error: teams leads out of the directory", team.Path())
	}
}

func TestTeamNotFoundNamesTheNearest(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, name := range []string{"alpha", "beta", "session-1234"} {
		p.write("teams/"+name+"/config.json", "{}")
	}
	_, err := p.root.Team("betta")
	nf, ok := errors.AsType[*NotFoundError](err)
	if !ok || !errors.Is(err, ErrTeamGone) {
		t.Fatalf("Team(betta): %v, want a NotFoundError that is ErrTeamGone", err)
	}
	want := &NotFoundError{Kind: "team", Query: "betta", Nearest: []string{"beta", "alpha", "session-1234"}}
	if diff := cmp.Diff(want, nf); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
