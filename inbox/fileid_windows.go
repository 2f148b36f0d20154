package inbox

import (
	"io/fs"
	"strconv"
	"syscall"
)

// fileID tells files of one name apart: the time of creation, which a
// replacement changes; a file index would need an open handle.
func fileID(info fs.FileInfo) string {
	if d, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return strconv.FormatInt(d.CreationTime.Nanoseconds(), 10)
	}
	return ""
}
