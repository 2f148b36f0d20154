//go:build unix

package inbox

import (
	"io/fs"
	"strconv"
	"syscall"
)

// fileID tells files of one name apart: the inode number, new after each replacement.
func fileID(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return strconv.FormatUint(uint64(st.Ino), 10)
	}
	return ""
}
