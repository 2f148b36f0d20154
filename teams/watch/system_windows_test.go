package watch

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/windows"
)

func makePipe(string) error { return errors.New("Windows: a pipe has no name among files") }

// openFiles counts the handles of this process.
func openFiles() (int, error) {
	var n uint32
	ok, _, err := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetProcessHandleCount").
		Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&n)))
	if ok == 0 {
		return 0, err
	}
	return int(n), nil
}
