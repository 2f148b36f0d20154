package profile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// project is a repository with a directory "a/b" in it, below a home directory, and a Claude
// directory.
type project struct {
	t               *testing.T
	home, top, root string
}

func newProject(t *testing.T) project {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	p := project{t, home, filepath.Join(home, "repo"), filepath.Join(home, ".claude")}
	for _, d := range []string{p.root, p.below(), filepath.Join(p.top, ".git")} {
		must(t, os.MkdirAll(d, 0o700))
	}
	return p
}

func (p project) below() string { return filepath.Join(p.top, "a", "b") }

// put writes a file below a directory of profiles, and returns its path.
func (p project) put(dir, name, text string) string {
	p.t.Helper()
	path := filepath.Join(dir, ".claude", "agents", name)
	if dir == p.root {
		path = filepath.Join(dir, "agents", name)
	}
	must(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(p.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (p project) load(name string) (*Profile, error) { return Ref{name, p.below(), p.root}.Load() }

func TestDirs(t *testing.T) {
	p := newProject(t)
	agents := func(dirs ...string) []string {
		for i := range dirs {
			dirs[i] = filepath.Join(dirs[i], ".claude", "agents")
		}
		return append(dirs, filepath.Join(p.root, "agents"))
	}
	plain := filepath.Join(p.home, "plain", "x")
	worktree := filepath.Join(p.top, "tree", "x")
	for _, d := range []string{plain, worktree} {
		must(t, os.MkdirAll(d, 0o700))
	}
	must(t, os.WriteFile(filepath.Join(p.top, "tree", ".git"), []byte("gitdir: elsewhere\n"), 0o600))
	for _, c := range []struct {
		name, dir string
		want      []string
	}{
		{"up to the top of the repository", p.below(), agents(p.below(), filepath.Dir(p.below()), p.top)},
		{"its top", p.top, agents(p.top)},
		{"a worktree", worktree, agents(worktree, filepath.Dir(worktree))},
		{"no repository: up to the home directory", plain, agents(plain, filepath.Dir(plain))},
		{"the home directory", p.home, agents()},
	} {
		got, err := Dirs(c.dir, p.root)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestLoad(t *testing.T) {
	p := newProject(t)
	user := p.put(p.root, "reviewer.md", file("model: opus"))
	if got, err := p.load("reviewer"); err != nil || got.Path != user {
		t.Errorf("of the user: %+v, %v", got, err)
	}
	top := p.put(p.top, "deep/down/any.md", file("model: haiku"))
	if got, err := p.load("reviewer"); err != nil || got.Path != top || got.Model != "haiku" {
		t.Errorf("of the project, in a directory below: %+v, %v", got, err)
	}
	nearest := p.put(p.below(), "x.md", file("model: sonnet"))
	if got, err := p.load("reviewer"); err != nil || got.Path != nearest {
		t.Errorf("the nearest: %+v, %v", got, err)
	}
	for _, name := range []string{"x", "Reviewer", "any"} { // the name is not that of the file
		_, err := p.load(name)
		missing, ok := errors.AsType[*NotFoundError](err)
		if want, _ := Dirs(p.below(), p.root); !ok || !slices.Equal(missing.Dirs, want) {
			t.Errorf("%s: %v", name, err)
		}
		for _, dir := range []string{p.below(), p.top, p.root} {
			if !strings.Contains(err.Error(), dir) {
				t.Errorf("%v does not name %s", err, dir)
			}
		}
	}
	if _, err := p.load("--model"); err == nil || !strings.Contains(err.Error(), "looks like a flag") {
		t.Errorf("a flag for a name: %v", err)
	}

	// A change is seen at the next start, as is the removal of a file.
	p.put(p.below(), "x.md", file("model: changed"))
	if got, err := p.load("reviewer"); err != nil || got.Model != "changed" {
		t.Errorf("changed: %+v, %v", got, err)
	}
}

// An unusable file is not replaced by one of another directory.
func TestLoadRefuses(t *testing.T) {
	p := newProject(t)
	p.put(p.root, "reviewer.md", file())
	for _, c := range []struct{ file, text string }{
		{"any.md", file("tools: 7")},
		{"any.md", file("tools: [Read", "x: y: z")},
		{"reviewer.md", "You review."},
	} {
		path := p.put(p.below(), c.file, c.text)
		_, err := p.load("reviewer")
		if bad, ok := errors.AsType[*FileError](err); !ok || bad.Path != path {
			t.Errorf("%s %q: %v", c.file, c.text, err)
		}
		must(t, os.Remove(path))
	}
	p.put(p.below(), "other.md", "You review.") // of another name
	if _, err := p.load("reviewer"); err != nil {
		t.Errorf("next to a file of another name that cannot be used: %v", err)
	}
	a, b := p.put(p.below(), "a.md", file()), p.put(p.below(), "b/b.md", file("tools: Read"))
	if _, err := p.load("reviewer"); err == nil || !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), b) {
		t.Errorf("two of one name: %v", err)
	}
}

func TestList(t *testing.T) {
	p := newProject(t)
	p.put(p.root, "reviewer.md", file())
	p.put(p.root, "writer.md", strings.ReplaceAll(file(), "reviewer", "writer"))
	p.put(p.root, "notes.txt", "not a profile")
	p.put(p.below(), "1.md", file("tools: Read"))
	p.put(p.below(), "2.md", "no front matter")
	p.put(p.top, "a.md", strings.ReplaceAll(file(), "reviewer", "twin"))
	p.put(p.top, "b.md", strings.ReplaceAll(file(), "reviewer", "twin"))
	must(t, os.Mkdir(filepath.Join(p.top, ".claude", "agents", "dir.md"), 0o700))
	dirs, err := Dirs(p.below(), p.root)
	must(t, err)
	var got []string
	for _, e := range List(dirs) {
		line := e.Name
		if e.HiddenBy != "" {
			line += " hidden by " + filepath.Base(e.HiddenBy)
		}
		if e.Err != nil {
			line += " not used"
		}
		got = append(got, line)
	}
	want := []string{"reviewer", " not used", "twin not used", "twin not used", "reviewer hidden by 1.md", "writer"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestListIsBounded(t *testing.T) {
	p := newProject(t)
	for i := range MaxFiles + 5 {
		p.put(p.root, fmt.Sprintf("%04d.txt", i), "")
	}
	p.put(p.root, "reviewer.md", file())
	_, err := p.load("reviewer")
	if err == nil || !strings.Contains(err.Error(), "more than 1000 files") {
		t.Errorf("many files: %v", err)
	}

	deep := p.put(p.top, strings.Repeat("d/", 9)+"x.md", strings.ReplaceAll(file(), "reviewer", "deep"))
	if _, err := p.load("deep"); err == nil || !strings.Contains(err.Error(), "more than 8 directories down") {
		t.Errorf("%s: %v", deep, err)
	}
}
