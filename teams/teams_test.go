package teams

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams/winetest"
)

// The captured teams of two versions.
const (
	g1Team = "myteam"
	g2Team = "session-2de3961d"
)

// place is a Claude directory for tests.
type place struct {
	t    *testing.T
	dir  string
	root *Root
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	root, err := Open(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return &place{t: t, dir: dir, root: root}
}

// fixture returns a place with a captured team, which is open.
func fixture(t *testing.T, name string) (*place, *Team) {
	t.Helper()
	p := newPlace(t)
	must(t, os.CopyFS(filepath.Join(p.dir, "teams", name), os.DirFS(filepath.Join("testdata", name))))
	return p, p.team(name)
}

func (p *place) path(name string) string { return filepath.Join(p.dir, filepath.FromSlash(name)) }

// write makes a file below the Claude directory, with its directories.
func (p *place) write(name, content string) {
	p.t.Helper()
	p.mkdir(filepath.ToSlash(filepath.Dir(name)))
	must(p.t, os.WriteFile(p.path(name), []byte(content), 0o644))
}

func (p *place) mkdir(name string) {
	p.t.Helper()
	must(p.t, os.MkdirAll(p.path(name), 0o755))
}

func (p *place) remove(name string) {
	p.t.Helper()
	must(p.t, os.RemoveAll(p.path(name)))
}

func (p *place) symlink(target, name string) {
	p.t.Helper()
	winetest.SkipLinks(p.t)
	must(p.t, os.Symlink(target, p.path(name)))
}

func (p *place) read(name string) string {
	p.t.Helper()
	data, err := os.ReadFile(p.path(name))
	must(p.t, err)
	return string(data)
}

func (p *place) team(name string) *Team {
	p.t.Helper()
	team, err := p.root.Team(name)
	must(p.t, err)
	p.t.Cleanup(func() { team.Close() })
	return team
}

// snapshot returns everything below the Claude directory, with times. If two are equal, nothing was written in
// between, not even a lock directory that was removed again.
func (p *place) snapshot() string {
	p.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		b.WriteString(strings.Join([]string{path, fi.Mode().String(), fi.ModTime().String()}, " "))
		if fi.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b.Write(data)
		}
		b.WriteByte('\n')
		return nil
	})
	must(p.t, err)
	return b.String()
}
