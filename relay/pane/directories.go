package pane

import (
	"os"
	"path/filepath"
	"slices"

	"teambridge/relay/process"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Elsewhere returns the Claude directories other than root in which sessions of this user live. The candidates are
// .claude in the user's home directory and, on Linux, $CLAUDE_CONFIG_DIR of each process with this $HOME.
func Elsewhere(root *teams.Root, home string) (dirs []string) {
	here, err := os.Stat(root.Path())
	if err != nil {
		return nil
	}
	seen := []os.FileInfo{here}
	for _, dir := range append(process.Values("CLAUDE_CONFIG_DIR", "HOME="+home), filepath.Join(home, ".claude")) {
		info, err := os.Stat(dir)
		if err != nil || !filepath.IsAbs(dir) || slices.ContainsFunc(seen, func(s os.FileInfo) bool { return os.SameFile(s, info) }) {
			continue
		}
		seen = append(seen, info)
		if slices.ContainsFunc(transcript.Processes(dir), func(p transcript.Process) bool { return teams.StateOf(p) == teams.Alive }) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
