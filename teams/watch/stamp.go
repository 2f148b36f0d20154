package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// identity distinguishes files of the same name, reliably only while one of them is open: a file system
// reuses the number of a deleted file.
type identity struct{ device, file uint64 }

// stamp distinguishes versions of one file. The zero stamp means that there is no file.
type stamp struct {
	id      identity
	modTime int64 // Unix time in ns
	size    int64
}

// tick is the coarsest step of modification times, with some margin. Within it a file can change without
// changing its stamp.
const tick = 20 * time.Millisecond

// observation is the result of checking a file once.
type observation struct {
	stamp stamp
	file  *os.File // nil if it is not kept
	at    time.Time
}

// young reports whether the file may still change without changing its stamp. If its time is far from ours
// (the file system has another clock), it is not young: otherwise a file with a time in the future would seem
// new for ever.
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

// observe looks at a file. If keep is set it opens the file first, which may be replaced at
// any moment, and keeps it open if possible.
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

// observeDir looks at a directory. A link is followed if it stays below root, or if root is "".
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

// missing reports whether err says that there is nothing of that name.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
