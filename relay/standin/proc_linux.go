package standin

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// strays are the processes that still run in this home: commands of the Bash tool get a session of their own and
// outlive a killed agent. The environment tells them, because every process a home starts inherits its root.
func strays(h *Home) []int {
	var all []int
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err != nil {
			continue // gone, or somebody else's
		}
		for entry := range bytes.SplitSeq(env, []byte{0}) {
			if string(entry) == "CLAUDE_CONFIG_DIR="+h.Root {
				if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// zombie reports whether the process has ended and only waits for its parent to ask. A tmux 3.3a server can forget to
// ask for as long as it runs.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// The name before the state is in parentheses and may hold some itself.
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	return bytes.HasPrefix(after, []byte(" Z"))
}
