package watch

import "github.com/fsnotify/fsnotify"

// source delivers kernel events. Add and Remove do not wait until events are read.
type source interface {
	Add(dir string) error
	Remove(dir string) error
	Close() error
	events() <-chan fsnotify.Event // closed by Close
	errors() <-chan error          // closed by Close
}
