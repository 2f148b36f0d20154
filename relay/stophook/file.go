package stophook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
	"teambridge/teams/sharedfile"
)

// The errors about settings files that are not changed.
var (
	ErrDangling   = errors.New("is a symbolic link that leads nowhere")
	ErrNotRegular = errors.New("is not a regular file")
	ErrChanged    = errors.New("another program has just changed")
)

// File is a settings file, which is locked.
type File struct {
	Path   string // of the file itself, not of a link to it
	named  string // the path by which it was opened, perhaps a link
	record string // the file in which we keep what we made
	data   []byte // nil: there is no file
	made   made
	unlock func() error
}

// Open locks and reads the settings file at path, which need not exist. state is the state
// directory. If a record there cannot be read, debug gets the error.
func Open(ctx context.Context, state, path string, debug func(format string, args ...any)) (f *File, err error) {
	f = &File{made: made{part: part{Hooks: true, Stop: true}}} // of a hook that somebody else copied here, or the state directory is another
	if f.named, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	if f.Path, err = regular(path); err != nil {
		return nil, err
	}
	f.record = recordPath(state, f.Path)
	if f.unlock, err = lockedfile.HoldWithin(ctx, time.Minute, filepath.Join(state, "locks"), "hooks of "+f.Path); err != nil {
		return nil, err
	}
	if f.data, err = readIfAny(f.Path); err != nil {
		return nil, errors.Join(err, f.unlock())
	}
	if r, err := readRecord(f.record); err == nil {
		f.made = r.Made
	} else if !errors.Is(err, fs.ErrNotExist) {
		debug("%s: %v", f.record, err)
	}
	return f, nil
}

// Data returns what is in the file; nil if there is none.
func (f *File) Data() []byte { return f.data }

// Close unlocks the file.
func (f *File) Close() error { return f.unlock() }

// Install adds the hooks that run commands, and reports whether the file was changed. own is the
// program that asks: a hook that runs it is one of ours, whatever its name.
func (f *File) Install(own string, commands Commands) (changed bool, err error) {
	old := f.data
	if f.data == nil {
		old = []byte("{}\n")
	}
	data, m, err := installAll(old, own, commands, f.made)
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.Path, err)
	}
	m.Users = f.made.Users
	if !slices.Contains(m.Users, f.named) {
		m.Users = append(m.Users, f.named)
	}
	if bytes.Equal(old, data) {
		if len(m.Users) == len(f.made.Users) {
			return false, nil
		}
		return false, f.remember(m)
	}
	m.File = m.File || f.data == nil
	dir := filepath.Dir(f.Path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		m.Directory = true
		if err := os.Mkdir(dir, 0o755); err != nil {
			return false, err
		}
	}
	// First, since a hook without a record is not removed as a whole.
	if err := f.remember(m); err != nil {
		return false, err
	}
	return true, f.Replace(data)
}

// Others returns the paths, besides that by which the file was opened, under which the hook was installed, and that still lead to this
// file: two Claude directories can share their settings by a link. It is empty if the hook was not installed under this path.
func (f *File) Others() (others []string) {
	if !slices.Contains(f.made.Users, f.named) {
		return nil
	}
	for _, path := range f.made.Users {
		if real, err := regular(path); err == nil && real == f.Path && path != f.named {
			others = append(others, path)
		}
	}
	return others
}

// Uninstall removes our hooks and what was made for them, and reports whether there was one.
func (f *File) Uninstall() (removed bool, err error) {
	if others := f.Others(); len(others) > 0 {
		f.made.Users = others
		return false, f.remember(f.made)
	}
	own, _ := os.Executable() // else the hook is known by its name
	data, empty := f.data, false
	if f.data != nil {
		if data, empty, err = uninstallAll(f.data, own, f.made); err != nil {
			return false, fmt.Errorf("%s: %w", f.Path, err)
		}
	}
	if removed = !bytes.Equal(data, f.data); removed {
		if empty && f.made.File {
			data = nil
		}
		if err := f.Replace(data); err != nil {
			return false, err
		}
		if data == nil && f.made.Directory {
			_ = os.Remove(filepath.Dir(f.Path)) // fails if it is not empty
		}
	}
	if err := os.Remove(f.record); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return removed, err
	}
	return removed, nil
}

// regular follows symbolic links, and refuses what is there but is not a regular file.
func regular(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, lerr := os.Lstat(path); lerr == nil {
			return "", fmt.Errorf("%s %w", path, ErrDangling)
		}
		// The directory may be reached by a link.
		if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(dir, filepath.Base(path)), nil
		}
		return path, nil
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s %w", path, ErrNotRegular)
	}
	return real, err
}

// readIfAny reads a file; nil if there is none.
func readIfAny(path string) ([]byte, error) {
	data, err := sharedfile.ReadFile(path) // of an empty file it is not nil
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// remember keeps what was made in the settings file.
func (f *File) remember(m made) error {
	if err := os.MkdirAll(filepath.Dir(f.record), 0o700); err != nil {
		return err
	}
	data, err := json.Marshal(record{File: f.Path, Made: m})
	if err != nil {
		return err
	}
	return atomicfile.Write(f.record, data)
}

// Replace writes the file, or removes it if data is nil, unless another program has changed it since it was read.
func (f *File) Replace(data []byte) error {
	now, err := readIfAny(f.Path)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(now, f.data) || (now == nil) != (f.data == nil):
		return fmt.Errorf("%w %s", ErrChanged, f.Path)
	case data == nil:
		return os.Remove(f.Path)
	}
	return atomicfile.Write(f.Path, data)
}
