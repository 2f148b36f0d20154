package lockedfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// inotify watches one path.
type inotify struct {
	t  *testing.T
	fd int
}

func watchPath(t *testing.T, path string) inotify {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Skip(err) // the limit of instances is the user's, not ours
	}
	t.Cleanup(func() { unix.Close(fd) })
	const all = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_CLOSE_WRITE | unix.IN_MOVE_SELF | unix.IN_DELETE_SELF
	if _, err := unix.InotifyAddWatch(fd, path, all); err != nil {
		t.Fatal(err)
	}
	return inotify{t, fd}
}

// events returns all events until now, in order: the kernel queues an event before the system call that caused it
// returns.
func (w inotify) events() (list []string) {
	w.t.Helper()
	names := []struct {
		mask uint32
		name string
	}{
		{unix.IN_CREATE, "CREATE"}, {unix.IN_DELETE, "DELETE"}, {unix.IN_MOVED_FROM, "MOVED_FROM"}, {unix.IN_MOVED_TO, "MOVED_TO"},
		{unix.IN_CLOSE_WRITE, "CLOSE_WRITE"}, {unix.IN_MOVE_SELF, "MOVE_SELF"}, {unix.IN_DELETE_SELF, "DELETE_SELF"},
	}
	buf := make([]byte, 1<<16)
	for {
		n, err := unix.Read(w.fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			return list
		}
		must(w.t, err)
		for b := buf[:n]; len(b) > 0; {
			mask, size := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint32(b[12:])
			name := strings.TrimRight(string(b[16:16+size]), "\x00")
			for _, n := range names {
				if mask&n.mask != 0 {
					list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s", n.name, name)))
				}
			}
			b = b[16+size:]
		}
	}
}

// A change causes the inotify events that the package comment lists.
func TestEventsOfAnExchange(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := locker(Options{Dir: p.state})
	dir := watchPath(t, p.dir)
	must(t, l.Transform(t.Context(), p.file, set("new")))
	if got, want := dir.events(), []string{"CREATE x.json.lock", "MOVED_TO x.json", "DELETE x.json.lock"}; !slices.Equal(got, want) {
		t.Errorf("a file that was not there: %q, want %q", got, want)
	}
	file := watchPath(t, p.path("x.json"))
	must(t, l.Transform(t.Context(), p.file, set("newer")))
	if got, want := dir.events(), []string{"CREATE x.json.lock", "MOVED_TO x.json", "MOVED_FROM x.json", "DELETE x.json.lock"}; !slices.Equal(got, want) {
		t.Errorf("a file that was there: %q, want %q", got, want)
	}
	if got, want := file.events(), []string{"MOVE_SELF"}; !slices.Equal(got, want) {
		t.Errorf("the old file: %q, want %q", got, want)
	}
	if got, err := os.ReadFile(p.path("x.json")); err != nil || string(got) != "newer" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	// The old file is no longer in the directory, so there are no events of the new one.
	must(t, l.Transform(t.Context(), p.file, set("newest")))
	if got := slices.DeleteFunc(file.events(), func(e string) bool { return e == "MOVE_SELF" || e == "DELETE_SELF" }); len(got) > 0 {
		t.Errorf("the old file: %q", got)
	}
}
