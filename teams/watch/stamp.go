package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// identity distinguishes files of the same name. It is reliable only while one of them is open, because a
// file system reuses the number of a deleted file.
type identity struct{ device, file uint64 }

// stamp distinguishes versions of one file. The zero stamp means that there is no file.
type stamp struct {
	id      identity
	modTime int64 // Unix time in ns
	size    int64
}

// tick is the coarsest step of modification times, with some margin. Within a tick, a file can change without
// changing its stamp.
const tick = 20 * time.Millisecond

// observation is the result of one check of a file.
type observation struct {
	stamp stamp
	file  *os.File // nil if it is not kept
	at    time.Time
}

// young reports whether the file may change again without changing its stamp. A time that is far from ours,
// because the file system has another clock, does not count: otherwise a file with a time in the future would
// always be young.
func (s observation) young() bool {
	age := s.at.Sub(time.Unix(0, s.stamp.modTime))
	return age.Abs() < tick
}

func (s observation) close() {
	if s.file != nil {
		s.file.Close()
	}
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{id: identify(info), modTime: info.ModTime().UnixNano(), size: info.Size()}
}

// observe checks a file. With keep, it opens the file first, because the file may be replaced at any moment,
// and keeps it open if possible.
func observe(path string, keep bool) (observation, error) {
	s := observation{at: time.Now()}
	if keep {
		if f, err := openKept(path); err == nil {
			if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
				s.file, s.stamp = f, stampOf(info)
				return s, nil
			}
			f.Close()
		}
	}
	info, err := os.Lstat(path)
	if err != nil {
		return s, err
	}
	s.stamp = stampOf(info)
	return s, nil
}

// observeDir checks a directory. It follows a link that stays below root, or any link if root is "".
func observeDir(path, root string) (observation, error) {
	s := observation{at: time.Now()}
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err = below(path, root); err == nil {
			info, err = os.Stat(path)
		}
	}
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "watch", Path: path, Err: fs.ErrNotExist}
	}
	if err == nil {
		s.stamp = stampOf(info)
	}
	return s, err
}

// below returns an error unless the real path is below root, or root is "".
func below(path, root string) error {
	if root == "" {
		return nil
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
		return &fs.PathError{Op: "watch", Path: path, Err: fs.ErrNotExist}
	}
	return nil
}

// missing reports whether err means that the file does not exist.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
