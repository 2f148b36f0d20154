package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Uses reports whether a process has the file at path open, as opposed to another file that had this name. known is
// false if the system does not report it.
//
// The file is not opened: closing it would drop the locks that this process may have on it.
func Uses(pid int, path string) (uses, known bool) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, false // it has ended, or belongs to another user
	}
	file, err := os.Stat(path)
	if err != nil {
		return false, errors.Is(err, fs.ErrNotExist)
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		// The name is compared first: a stat of a file on a network that is down would not return.
		if at, err := os.Readlink(name); err != nil || filepath.Base(at) != filepath.Base(path) {
			continue
		}
		if info, err := os.Stat(name); err == nil && os.SameFile(info, file) {
			return true, true
		}
	}
	return false, true
}

// Users returns the other processes that have the file at path open. It does not see processes of other users, which
// cannot open the file.
func Users(path string) (list []Process, known bool) {
	if _, known = Uses(os.Getpid(), path); !known {
		return nil, false // no /proc
	}
	entries, err := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if uses, _ := Uses(pid, path); uses {
			list = append(list, Process{pid, command(pid)})
		}
	}
	return list, err == nil
}

// command returns the command of a process.
func command(pid int) string {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return ""
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	args[0] = filepath.Base(args[0])
	return strings.Join(args[:min(len(args), 2)], " ")
}
