//go:build unix

package stdio

import (
	"os"
	"syscall"
	"unsafe"
)

// Columns returns the width of the terminal that f is, or 0 if it is none.
func Columns(f *os.File) int {
	var size struct{ rows, columns, x, y uint16 }
	conn, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	err = conn.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))) // on an error, size is zero
	})
	if err != nil {
		return 0
	}
	return int(size.columns)
}
