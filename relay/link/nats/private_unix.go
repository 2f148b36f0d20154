//go:build unix

package nats

import (
	"fmt"
	"io/fs"
)

// private returns an error if others can read the file.
func private(path string, info fs.FileInfo) error {
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("the key of this machine, %s, can be used by others (mode %04o): if nobody has read it, type: chmod 600 %[1]s", path, m)
	}
	return nil
}
