package watch

import "github.com/fsnotify/fsnotify"

// source is where kernel events come from.
type source interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	events() <-chan fsnotify.Event // closed by Close
	errors() <-chan error          // closed by Close
}

type kernel struct{ *fsnotify.Watcher }

func openKernel() (source, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return kernel{w}, nil
}

func (k kernel) events() <-chan fsnotify.Event { return k.Events }
func (k kernel) errors() <-chan error          { return k.Errors }
