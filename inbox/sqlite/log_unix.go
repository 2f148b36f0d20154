//go:build unix

package sqlite

import "os"

// stampOfLog returns the stamp of a log. known is false without a log, as on file systems without shared memory.
func stampOfLog(path string) (s logStamp, known bool) {
	info, err := os.Stat(path)
	if err != nil {
		return s, false
	}
	return logStamp{info.Size(), info.ModTime().UnixNano()}, true
}
