package ssh

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// asking reports whether an ssh process, or one that it has started, is prompting the person: it has the terminal open,
// or runs a program that prompts. In batch mode, it is false.
func asking(pid int, batch bool) bool {
	return !batch && asks(strconv.Itoa(pid), 0)
}

func asks(pid string, depth int) bool {
	const deepest = 8 // of ssh to other machines on the way
	dir := filepath.Join("/proc", pid)
	open, _ := os.ReadDir(filepath.Join(dir, "fd")) // none, if it has ended
	for _, f := range open {
		if to, err := os.Readlink(filepath.Join(dir, "fd", f.Name())); err == nil && to == "/dev/tty" {
			return true
		}
	}
	if name, err := os.ReadFile(filepath.Join(dir, "comm")); err == nil && depth > 0 {
		if s := strings.TrimSpace(string(name)); strings.Contains(s, "askpass") || strings.HasPrefix(s, "ssh-sk") || s == filepath.Base(os.Getenv("SSH_ASKPASS")) {
			return true
		}
	}
	children, _ := os.ReadFile(filepath.Join(dir, "task", pid, "children"))
	for _, child := range strings.Fields(string(children)) {
		if depth < deepest && asks(child, depth+1) {
			return true
		}
	}
	return false
}
