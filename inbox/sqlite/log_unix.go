//go:build unix

package sqlite

import "os"

// stampOfLog looks at a log. It is not known if there is none, as where there is no shared memory.
func stampOfLog(path string) (s logStamp, known bool) {
	info, err := os.Stat(path)
	if err != nil {
		return s, false
	}
	return logStamp{info.Size(), info.ModTime().UnixNano()}, true
}
