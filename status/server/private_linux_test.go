package server

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Other users can never open the socket, from its creation on, whatever the umask.
func TestPrivateFromTheBeginning(t *testing.T) {
	t.Parallel()
	path := filepath.Join(newWorld(t).State, "s")
	config := net.ListenConfig{Control: private}
	l, err := config.Listen(t.Context(), "unix", path)
	must(t, err)
	defer l.Close()
	if info, err := os.Lstat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
