package stdio

import (
	"os"
	"syscall"
	"unsafe"
)

var screenInfo = syscall.NewLazyDLL("kernel32.dll").NewProc("GetConsoleScreenBufferInfo")

// Columns returns the width of the console that f is, or 0 if it is none.
func Columns(f *os.File) int {
	var info struct {
		width, height, x, y      int16
		attributes               uint16
		left, top, right, bottom int16
		maxWidth, maxHeight      int16
	}
	if ok, _, _ := screenInfo.Call(f.Fd(), uintptr(unsafe.Pointer(&info))); ok == 0 {
		return 0
	}
	return int(info.right-info.left) + 1
}
