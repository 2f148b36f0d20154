package wake

import (
	"os"
	"syscall"
	"testing"
)

// A text counts as taken once its reader has read it, from a pipe or from a socket, which Node makes.
func TestUnread(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	must(t, err)
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	must(t, err)
	for _, ends := range [][2]*os.File{{r, w}, {os.NewFile(uintptr(fds[0]), "in"), os.NewFile(uintptr(fds[1]), "out")}} {
		in, out := ends[0], ends[1]
		if n := unread(out); n != 0 {
			t.Errorf("%s: %d bytes are unread before anything was written", out.Name(), n)
		}
		if _, err := out.WriteString("hello"); err != nil {
			t.Fatal(err)
		}
		if n := unread(out); n < 5 {
			t.Errorf("%s: %d bytes are unread", out.Name(), n)
		}
		if _, err := in.Read(make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		if Taken(out); unread(out) != 0 {
			t.Errorf("%s: %d bytes are unread after they were read", out.Name(), unread(out))
		}
		_, _ = in.Close(), out.Close()
	}
}
