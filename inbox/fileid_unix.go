//go:build unix

package inbox

import (
	"io/fs"
	"strconv"
	"syscall"
)

// fileID distinguishes files of the same name by the inode number, which each replacement changes.
func fileID(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(st.Ino), 10)
	}
	return ""
}
