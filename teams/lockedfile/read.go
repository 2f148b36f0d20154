package lockedfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"
)

// Read returns the content of the file called name in dir, without any lock, and its info from right before
// the read. The errors are [ErrNotRegular], [ErrTooLarge] and those of the file system; they do not name the
// directory.
//
// On Windows, Read waits at most a quarter of a second while the file is locked: where the file system has no
// POSIX semantics, the holder of the lock cannot replace the file while it is open.
func Read(dir *os.Root, name string) ([]byte, fs.FileInfo, error) {
	yield(dir, name)
	return read(dir, name)
}

func read(dir *os.Root, name string) ([]byte, fs.FileInfo, error) {
	r, info, err := open(dir, name)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	content := make([]byte, 0, info.Size()+Spare) // the spare bytes reveal the end of the file without a larger buffer
	for {
		n, err := r.Read(content[len(content):cap(content)])
		content = content[:len(content)+n]
		switch {
		case len(content) > MaxSize:
			return nil, nil, ErrTooLarge
		case err == io.EOF:
			return content, info, nil
		case err != nil:
			return nil, nil, err
		}
		if len(content) == cap(content) {
			content = slices.Grow(content, 64<<10)
		}
	}
}

// open opens a regular file of an allowed size.
func open(dir *os.Root, name string) (*os.File, fs.FileInfo, error) {
	// Check before opening: to open a named pipe would block.
	info, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%w (%s)", ErrNotRegular, info.Mode().Type())
	case info.Size() > MaxSize:
		return nil, nil, fmt.Errorf("%w (%d bytes)", ErrTooLarge, info.Size())
	}
	r, err := dir.Open(name)
	return r, info, err
}

// SameFile reports whether a file is still the same, with the same content, as far as its size and time show.
// nil means a missing file.
func SameFile(was, now fs.FileInfo) bool {
	if was == nil || now == nil {
		return was == nil && now == nil
	}
	return os.SameFile(was, now) && was.Size() == now.Size() && was.ModTime().Equal(now.ModTime())
}

// Busy reports whether the lock directory of the file called name in dir exists and is not stale.
func Busy(dir *os.Root, name string) bool {
	info, err := dir.Lstat(LockName(name))
	return err == nil && info.IsDir() && time.Since(info.ModTime()) < StaleAfter
}
