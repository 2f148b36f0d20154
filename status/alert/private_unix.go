//go:build unix

package alert

import (
	"fmt"
	"io/fs"

	"teambridge/relay/shell"
)

// private returns an error if others can read the file.
func private(path string, info fs.FileInfo) error {
	if m := info.Mode().Perm(); m&0o077 != 0 {
		return fmt.Errorf("others can read it (mode %04o); type: chmod 600 %s", m, shell.Quote(path))
	}
	return nil
}
