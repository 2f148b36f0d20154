package inbox

import (
	"io/fs"
	"strconv"
	"syscall"
)

// fileID distinguishes files of the same name by the creation time, which each replacement changes. A file
// index would need an open handle.
func fileID(info fs.FileInfo) string {
	if d, ok := info.Sys().(*syscall.Win32FileAttributeData); ok {
		return strconv.FormatInt(d.CreationTime.Nanoseconds(), 10)
	}
	return ""
}
