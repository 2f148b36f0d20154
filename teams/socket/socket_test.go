package socket

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams/winetest"
)

// Listen accepts a path at the limit, even through a link. A longer one is an error that says so.
func TestListen(t *testing.T) {
	t.Parallel()
	winetest.Skip(t, "it has no unix sockets")
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	real, link := filepath.Join(dir, "r"), filepath.Join(dir, "l")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Skip(err)
	}
	if len(link) > MaxPath-2 {
		t.Skip("the directory for temporary files has a long path")
	}
	longest := filepath.Join(link, strings.Repeat("s", MaxPath-len(link)-1))
	l, err := Listen(longest)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("unix", strings.Replace(longest, link, real, 1))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Listen(longest + "s"); err == nil || !strings.Contains(err.Error(), "has 104 bytes; the limit is 103") {
		t.Errorf("a longer path: %v", err)
	} else if _, ok := errors.AsType[*PathError](err); !ok {
		t.Errorf("a longer path: %T", err)
	}
}
