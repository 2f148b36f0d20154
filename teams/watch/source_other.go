//go:build !windows

package watch

import "github.com/fsnotify/fsnotify"

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
