package lockedfile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// canExchange: the system can exchange two files. Not every file system of it can.
const canExchange = true

// exchange swaps two files.
func exchange(dirA *os.Root, a string, dirB *os.Root, b string) error {
	return renameat2("exchange", dirA, a, dirB, b, unix.RENAME_EXCHANGE)
}

// moveNew renames a file to one that does not exist yet.
func moveNew(dirA *os.Root, a string, dirB *os.Root, b string) error {
	return renameat2("rename", dirA, a, dirB, b, unix.RENAME_NOREPLACE)
}

func renameat2(op string, dirA *os.Root, a string, dirB *os.Root, b string, flags uint) error {
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
	if err := unix.Renameat2(int(from.Fd()), a, int(to.Fd()), b, flags); err != nil {
		return &os.LinkError{Op: op, Old: a, New: b, Err: err}
	}
	return nil
}

// sameDevice reports whether two directories are on one file system.
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
