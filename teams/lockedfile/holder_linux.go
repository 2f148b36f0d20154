package lockedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"teambridge/teams/flock"
)

// holder returns the process that holds a flock on path, and whether it is alive. pid is 0 if unknown: see
// [flock.Holders].
func holder(path string) (pid int, alive bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0, false
	}
	pid = flock.Holders()[fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)]
	if pid == 0 {
		return 0, false
	}
	// A zombie no longer has a program. The program of another user's process may be unreadable.
	_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return pid, err == nil || errors.Is(err, fs.ErrPermission)
}
