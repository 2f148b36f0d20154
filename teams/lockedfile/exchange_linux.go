package lockedfile

import "golang.org/x/sys/unix"

const (
	renameExchange = unix.RENAME_EXCHANGE
	renameNew      = unix.RENAME_NOREPLACE
)

func renameFlags(dirA int, a string, dirB int, b string, flags uint32) error {
	return unix.Renameat2(dirA, a, dirB, b, uint(flags))
}
