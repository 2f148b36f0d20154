//go:build linux || darwin

package process

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPeerOf(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "p") // the path of a socket is short
	must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	must(t, err)
	defer l.Close()
	out, err := net.Dial("unix", path)
	must(t, err)
	defer out.Close()
	in, err := l.Accept()
	must(t, err)
	defer in.Close()
	if pid := Peer(in.(*net.UnixConn)); pid != os.Getpid() {
		t.Errorf("the process at the other end is %d, want %d", pid, os.Getpid())
	}
}
