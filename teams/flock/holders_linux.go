package flock

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
)

// Holders returns which processes hold locks, by device and inode of the files, as in "fe:00:5678". Processes in another PID namespace are
// left out. There are none if the system does not say.
func Holders() map[string]int {
	held := map[string]int{}
	for range 2 {
		// The system gives the list in parts, one for each read, and leaves a lock out if one before it is released in between. A large
		// buffer gets up to a page of it at once: with the small ones of os.ReadFile, one look in a hundred lacked a lock on a busy machine.
		f, err := os.Open("/proc/locks")
		if err != nil {
			return nil
		}
		locks, err := io.ReadAll(bufio.NewReaderSize(f, 64<<10))
		f.Close()
		if err != nil {
			return nil
		}
		holdersIn(string(locks), held)
	}
	return held
}

// holdersIn adds those in the text of /proc/locks, whose lines are as "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF". Those that wait are
// none: "1: -> FLOCK".
func holdersIn(locks string, held map[string]int) {
	for line := range strings.Lines(locks) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			held[f[5]] = pid
		}
	}
}
