//go:build linux || darwin

package lockedfile

import (
	"os"
	"syscall"
)

// canExchange means that the system can exchange two files. Some of its file systems may not.
const canExchange = true

// exchange swaps two files.
func exchange(dirA *os.Root, a string, dirB *os.Root, b string) error {
	return renameAt("exchange", dirA, a, dirB, b, renameExchange)
}

// moveNew renames a file to a name that must not exist yet.
func moveNew(dirA *os.Root, a string, dirB *os.Root, b string) error {
	return renameAt("rename", dirA, a, dirB, b, renameNew)
}

// renameAt is rename(2) with flags, whose names differ between systems.
func renameAt(op string, dirA *os.Root, a string, dirB *os.Root, b string, flags uint32) error {
	from, err := dirA.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := dirB.Open(".")
	if err != nil {
		return err
	}
	defer to.Close()
	if err := renameFlags(int(from.Fd()), a, int(to.Fd()), b, flags); err != nil {
		return &os.LinkError{Op: op, Old: a, New: b, Err: err}
	}
	return nil
}

// sameDevice reports whether two directories are on the same file system.
func sameDevice(a, b *os.Root) bool {
	device := func(d *os.Root) (uint64, bool) {
		info, err := d.Stat(".")
		if err != nil {
			return 0, false
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return 0, false
		}
		return uint64(s.Dev), true
	}
	of, ok := device(a)
	is, ok2 := device(b)
	return ok && ok2 && of == is
}
