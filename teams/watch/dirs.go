package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/fsnotify/fsnotify"
)

// Dirs reports changes of files in some directories. Make it with [OpenDirs], and call [Dirs.Run].
type Dirs struct {
	source source
	dirs   []string
}

// OpenDirs begins to watch directories. One that is missing is watched from its creation on if its parent is among
// them. The error is that the system reports no changes: [errors.ErrUnsupported] on Windows, [ErrLimit] if it allows no
// more watches.
func OpenDirs(dirs ...string) (*Dirs, error) {
	src, err := openKernel()
	if err == nil && src == nil {
		err = errors.ErrUnsupported
	}
	for _, dir := range dirs {
		if err == nil {
			if err = src.Add(dir); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
	}
	if err == nil {
		return &Dirs{src, dirs}, nil
	}
	if src != nil {
		src.Close()
	}
	if isLimit(err) {
		err = fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return nil, fmt.Errorf("watch: changes of files are not reported: %w", err)
}

// Run calls changed with a directory after a file in it was written, created, renamed or removed, and with each of them
// after events were lost, until ctx ends. It closes d. It returns nil once ctx has ended, and an error if no more events
// come. changed must not block.
func (d *Dirs) Run(ctx context.Context, changed func(dir string)) error {
	defer d.source.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-d.source.events():
			if !ok {
				return errors.New("watch: the events have ended")
			}
			d.handle(e, changed)
		case _, ok := <-d.source.errors():
			if !ok {
				return errors.New("watch: the events have ended")
			}
			for _, dir := range d.dirs {
				_ = d.source.Add(dir) // its creation may be among the lost events
				changed(dir)
			}
		}
	}
}

func (d *Dirs) handle(e fsnotify.Event, changed func(dir string)) {
	if slices.Contains(d.dirs, e.Name) { // created, moved or removed
		if e.Has(fsnotify.Create) {
			_ = d.source.Add(e.Name) // it can be gone again
		}
		changed(e.Name)
	}
	if dir := filepath.Dir(e.Name); slices.Contains(d.dirs, dir) {
		changed(dir)
	}
}
