package flock

import (
	"io"
	"os"
	"strconv"
	"strings"
)

// Holders returns which processes hold locks, by device and inode of the files, as in "fe:00:5678". Processes in another PID namespace are
// left out. There are none if the system does not say.
func Holders() map[string]int {
	held := map[string]int{}
	for range 6 {
		f, err := os.Open("/proc/locks")
		if err != nil {
			return nil
		}
		// The system gives the list in parts of a page, one for each read, and leaves a lock out if one before it is released in between:
		// on a busy machine, one look in twenty lacked a lock. Only what it gives at once has all of them.
		parts, part := 0, make([]byte, 64<<10)
		var locks []byte
		for n := 0; err == nil; parts++ {
			n, err = f.Read(part)
			locks = append(locks, part[:n]...)
		}
		f.Close()
		if holdersIn(string(locks), held); err == io.EOF && parts <= 2 { // the last one is the end
			break
		}
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
