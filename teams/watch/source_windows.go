package watch

import "github.com/fsnotify/fsnotify"

// maxPending is how many events wait for us at most. Beyond it, everything is looked at.
const maxPending = 1 << 14

// kernel keeps what comes until it is read: on Windows one goroutine of fsnotify both sends events and carries
// out Add, which would wait for ever if the caller of Add were the one who reads the events.
type kernel struct {
	*fsnotify.Watcher
	out chan fsnotify.Event
	bad chan error
}

func openKernel() (source, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	k := kernel{w, make(chan fsnotify.Event), make(chan error, 1)}
	go k.pump()
	return k, nil
}

func (k kernel) events() <-chan fsnotify.Event { return k.out }
func (k kernel) errors() <-chan error          { return k.bad }

// pump ends when the watcher is closed, with what was not read.
func (k kernel) pump() {
	defer close(k.bad)
	defer close(k.out)
	report := func(err error) {
		select {
		case k.bad <- err:
		default: // one that was not read yet says the same: look at everything
		}
	}
	var pending []fsnotify.Event
	for {
		var first fsnotify.Event
		var out chan<- fsnotify.Event
		if len(pending) > 0 {
			first, out = pending[0], k.out
		}
		select {
		case e, ok := <-k.Events:
			if !ok {
				return
			}
			if len(pending) == maxPending {
				report(fsnotify.ErrEventOverflow)
				continue
			}
			pending = append(pending, e)
		case err, ok := <-k.Errors:
			if !ok {
				return
			}
			report(err)
		case out <- first:
			pending = pending[1:]
		}
	}
}
