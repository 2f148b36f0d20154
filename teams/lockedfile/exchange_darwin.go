package lockedfile

import "golang.org/x/sys/unix"

// APFS supports both flags; HFS+ and network file systems return ENOTSUP.
const (
	renameExchange = unix.RENAME_SWAP
	renameNew      = unix.RENAME_EXCL
)

func renameFlags(dirA int, a string, dirB int, b string, flags uint32) error {
	return unix.RenameatxNp(dirA, a, dirB, b, flags)
}
