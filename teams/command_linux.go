package teams

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// commandIDs returns the values of --agent-id in all processes' command lines; Claude Code starts teammates
// in panes with it. ok is false if the process lead was not among them: then processes may be hidden.
func commandIDs(lead int) (ids map[string]bool, ok bool) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	ids = map[string]bool{}
	for _, dir := range dirs {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue // it has ended, or is none of ours
		}
		ok = ok || filepath.Base(dir) == strconv.Itoa(lead)
		args := bytes.Split(line, []byte{0})
		if i := slices.IndexFunc(args, func(arg []byte) bool { return string(arg) == "--agent-id" }); i >= 0 && i+1 < len(args) {
			ids[string(args[i+1])] = true
		}
	}
	return ids, ok
}
