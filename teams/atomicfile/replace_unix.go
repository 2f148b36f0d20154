//go:build unix

package atomicfile

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// Replace is [Write] of what the function writes. If that fails, the file stays as it
// was, and the error is returned.
func Replace(path string, write func(io.Writer) error) (err error) {
	f, err := renameio.NewPendingFile(path,
		// Without it renameio makes files to learn whether it can rename them.
		renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithStaticPermissions(newFileMode), renameio.WithExistingPermissions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Exposed reports whether others than the owner may use a file.
func Exposed(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }
