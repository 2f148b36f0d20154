package lockedfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// holder returns the process that holds a flock on path, as /proc/locks lists it, and
// whether it is alive. It is 0 if that is not known: a process in another PID namespace
// is listed as 0 or not at all.
func holder(path string) (pid int, alive bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0, false
	}
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0, false
	}
	pid = holderIn(string(locks), fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino))
	if pid == 0 {
		return 0, false
	}
	// A zombie has no program any more; that of another user may not be read.
	_, err = os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return pid, err == nil || errors.Is(err, fs.ErrPermission)
}

// holderIn finds the holder in the text of /proc/locks, whose lines are as
// "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF".
func holderIn(locks, inode string) int {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || f[5] != inode {
			continue // also those that wait: "1: -> FLOCK"
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
