package watch

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// identity tells files of one name apart. It is only certain as long as one of
// them is held open: a file system uses the number of a deleted file again.
type identity struct{ device, file uint64 }

// stamp tells versions of one file apart. The zero stamp is that of no file.
type stamp struct {
	id      identity
	modTime int64 // Unix time in ns
	size    int64
}

// tick is the coarsest step, with some room, in which systems count
// modification times. Within one, a file can change without its stamp.
const tick = 20 * time.Millisecond

// sight is one look at a file.
type sight struct {
	stamp stamp
	file  *os.File // nil if it is not kept
	at    time.Time
}

// young reports whether the file could change again without its stamp. On a file
// system whose clock is another one this cannot be known, and is denied: else
// a file with a time in the future would be news for ever.
func (s sight) young() bool {
	age := s.at.Sub(time.Unix(0, s.stamp.modTime))
	return age.Abs() < tick
}

func (s sight) close() {
	if s.file != nil {
		s.file.Close()
	}
}

func stampOf(info fs.FileInfo) stamp {
	return stamp{id: identify(info), modTime: info.ModTime().UnixNano(), size: info.Size()}
}

// see looks at a file, and keeps it open if keep is set and that is possible.
// It is opened before anything else is done, for it may be replaced any moment.
func see(path string, keep bool) (sight, error) {
	s := sight{at: time.Now()}
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

// seeDir looks at a directory. A link is followed to where it stays below root.
func seeDir(path, root string) (sight, error) {
	s := sight{at: time.Now()}
	info, err := os.Lstat(path)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err = below(path, root); err == nil {
			info, err = os.Stat(path)
		}
	}
	if err != nil {
		return s, err
	}
	if !info.IsDir() {
		return s, &fs.PathError{Op: "watch", Path: path, Err: fs.ErrNotExist}
	}
	s.stamp = stampOf(info)
	return s, nil
}

// below reports an error unless path is, without its links, within root.
func below(path, root string) error {
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
