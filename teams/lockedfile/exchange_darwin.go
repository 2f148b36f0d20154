package lockedfile

import "golang.org/x/sys/unix"

// APFS can do both; HFS+ and network file systems answer ENOTSUP.
const (
	renameExchange = unix.RENAME_SWAP
	renameNew      = unix.RENAME_EXCL
)

func renameFlags(dirA int, a string, dirB int, b string, flags uint32) error {
	return unix.RenameatxNp(dirA, a, dirB, b, flags)
}
