//go:build unix

package profile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Only regular files are opened: a pipe would never end.
func TestLoadOfNoFile(t *testing.T) {
	p := newProject(t)
	path := p.put(p.top, "reviewer.md", "")
	must(t, os.Remove(path))
	must(t, syscall.Mkfifo(path, 0o600))
	if _, err := p.load("reviewer"); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

func TestLoadFollowsLinks(t *testing.T) {
	p := newProject(t)
	target := p.put(p.root, "shared.md", file())
	agents := filepath.Join(p.top, ".claude", "agents")
	must(t, os.MkdirAll(agents, 0o700))
	for link, to := range map[string]string{"link.md": target, "self": agents, "broken.md": "nowhere"} {
		must(t, os.Symlink(to, filepath.Join(agents, link)))
	}
	// The directory that holds itself gives the same file again, under other paths.
	if _, err := p.load("reviewer"); err == nil || !strings.Contains(err.Error(), "is also the name of") {
		t.Errorf("a directory in itself: %v", err)
	}
	must(t, os.Remove(filepath.Join(agents, "self")))
	if got, err := p.load("reviewer"); err != nil || got.Path != filepath.Join(agents, "link.md") {
		t.Errorf("a link to a file: %+v, %v", got, err)
	}
}
