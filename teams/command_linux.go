package teams

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// commandIDs returns the values of --agent-id in the command lines of all processes. Claude Code passes this
// flag to teammates in panes. ok is false if the process lead was not among them: this system may then hide
// processes.
func commandIDs(lead int) (ids map[string]bool, ok bool) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	ids = map[string]bool{}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // the process has ended, or is not readable
		}
		ok = ok || filepath.Base(dir) == strconv.Itoa(lead)
		args := bytes.Split(line, []byte{0})
		if i := slices.IndexFunc(args, func(arg []byte) bool { return string(arg) == "--agent-id" }); i >= 0 && i+1 < len(args) {
			ids[string(args[i+1])] = true
		}
	}
	return ids, ok
}
