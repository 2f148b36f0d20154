// Package sharedfile opens files and directories of other programs for reading, so that
// those can still rename and remove them.
//
// On Windows a file that [os.Open] has open cannot be removed or renamed, not even by its
// owner, and a directory cannot be removed: Go does not open with FILE_SHARE_DELETE. The
// methods of [os.Root] do. A rename over an open file also needs a file system with POSIX
// semantics, such as NTFS since Windows 10; elsewhere it fails while the file is open. So
// close each file as soon as it is read. On other systems the functions call package os.
package sharedfile

import (
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Open opens a file or a directory for reading.
func Open(path string) (*os.File, error) { return open(path) }

// ReadFile is [os.ReadFile].
func ReadFile(path string) ([]byte, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// ReadDir is [os.ReadDir].
func ReadDir(path string) ([]fs.DirEntry, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}
