package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options says what to watch and how. Only Root is needed.
type Options struct {
	Root string // Claude's directory, which need not exist yet

	// Only, if it is not nil, says which teams are watched, by the names of their
	// directories. Run calls it; it must always say the same of a name.
	Only func(team string) bool

	Sweep     time.Duration // how often everything is looked at; 0: 2 s
	Poll      time.Duration // how often, where there are no kernel events; 0: 250 ms
	Settle    time.Duration // how long an event waits for more of its kind; 0: 2 ms
	MaxSettle time.Duration // how long it waits at most; 0: 20 ms

	// Warn, if it is not nil, is told what makes the watcher slower or blind,
	// once while it lasts: [ErrLimit], [ErrNoEvents], or a directory that cannot
	// be read. Run calls it, and waits for it.
	Warn func(error)
}

// What [Options.Warn] is told.
var (
	// ErrLimit says that the system allows no more watches. What could not be
	// watched is looked at every [Options.Poll], and watched once that is
	// possible again.
	ErrLimit = errors.New("watch: the system's limit for watching files is reached: " +
		"close other watchers, or on Linux raise fs.inotify.max_user_watches and fs.inotify.max_user_instances; until then it is polled")

	// ErrNoEvents says that a directory changes and the kernel does not say so,
	// as on network file systems. It is looked at every [Options.Poll] for as
	// long as Run goes on.
	ErrNoEvents = errors.New("watch: no events come for a directory that changes, as on a network file system: it is polled")
)

// Watcher watches the teams of one Claude directory.
type Watcher struct {
	opts  Options
	queue *queue
	ran   atomic.Bool
	open  func() (source, error)

	// The rest belongs to Run.
	source source
	faults chan struct{} // the source reported an error
	pumps  sync.WaitGroup
	root   *dir
	top    *dir // teams
	teams  map[string]*team
	dirs   map[string]place // by path, those that are there
	todo   []*team          // still to be looked at
	sweep  bool             // todo is a sweep, and not the poll of what has no events
	lost   bool             // events were lost: look at everything
	last   time.Time        // when everything was last looked at for that
	warned map[string]bool  // what has been warned of and still lasts
}

// New returns a watcher. It starts nothing and touches no file.
func New(opts Options) *Watcher {
	set := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	set(&opts.Sweep, 2*time.Second)
	set(&opts.Poll, 250*time.Millisecond)
	set(&opts.Settle, 2*time.Millisecond)
	set(&opts.MaxSettle, 20*time.Millisecond)
	if opts.Only == nil {
		opts.Only = func(string) bool { return true }
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Watcher{
		opts:   opts,
		queue:  newQueue(opts.Settle, opts.MaxSettle),
		open:   openKernel,
		faults: make(chan struct{}, 1),
		teams:  map[string]*team{},
		dirs:   map[string]place{},
		warned: map[string]bool{},
	}
}

// Next waits for the next event and hands it over, with its open files: whoever
// gets it calls [Event.Close]. It may be called from any goroutine, also before
// Run. An event that waits is returned even if ctx has ended; otherwise the
// error is the cause of ctx's end, or [ErrStopped] once Run has returned.
func (w *Watcher) Next(ctx context.Context) (Event, error) { return w.queue.next(ctx) }

// Run watches until ctx ends, and returns nil then. It can be called once: a
// second call and an empty root are errors. When it returns, its
// goroutines have ended and its descriptors are closed, those of events
// that nobody took too.
func (w *Watcher) Run(ctx context.Context) error {
	if w.ran.Swap(true) {
		return errors.New("watch: Run was called before: make a new Watcher")
	}
	defer w.queue.stop()
	if w.opts.Root == "" {
		return errors.New("watch: no root: set Options.Root to Claude's directory")
	}
	root, err := filepath.Abs(w.opts.Root)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	w.root = &dir{path: root, outer: true}
	w.top = &dir{path: filepath.Join(root, "teams")}
	defer func() {
		w.disconnect()
		w.pumps.Wait()
	}()

	sweep := time.NewTicker(w.opts.Sweep)
	defer sweep.Stop()
	poll := time.NewTicker(w.opts.Poll)
	defer poll.Stop()
	ready := make(chan struct{})
	close(ready)

	w.connect()
	w.rescan()
	for {
		var events <-chan fsnotify.Event
		if w.source != nil {
			events = w.source.events()
		}
		// One team at a time, so that events do not wait for a whole sweep.
		var next <-chan struct{}
		if len(w.todo) > 0 {
			next = ready
		}
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				w.disconnect()
				w.lost = true
				break
			}
			w.handle(e)
		case <-w.faults:
			w.lost = true
			if time.Since(w.last) >= w.opts.Poll {
				w.rescan()
			}
		case <-next:
			t := w.todo[0]
			w.todo = w.todo[1:]
			if w.teams[t.name] == t {
				w.scan(t, w.sweep)
			}
		case <-sweep.C:
			w.connect()
			w.judge()
			w.sweep = true
			w.todo = slices.Collect(maps.Values(w.teams))
			w.scanTop(false, true)
		case <-poll.C:
			if w.lost {
				w.rescan()
				break
			}
			w.poll()
		}
	}
}

// connect opens the source of kernel events if there is none.
func (w *Watcher) connect() {
	if w.source != nil {
		return
	}
	src, err := w.open()
	if err != nil {
		if isLimit(err) {
			err = fmt.Errorf("%w: %w", ErrLimit, err)
		} else {
			err = fmt.Errorf("watch: no kernel events, everything is polled: %w", err)
		}
		w.warn("source", err)
		return
	}
	delete(w.warned, "source")
	w.source = src
	// Apart from the loop: the source may hold a lock that Add needs while it
	// waits for an error of its own to be read.
	w.pumps.Go(func() {
		for range src.errors() {
			select {
			case w.faults <- struct{}{}:
			default:
			}
		}
	})
}

func (w *Watcher) disconnect() {
	if w.source == nil {
		return
	}
	w.source.Close()
	w.source = nil
	for _, p := range w.dirs {
		p.dir.watched = false
	}
}

// rescan looks at everything and sets every watch again.
func (w *Watcher) rescan() {
	w.lost, w.last = false, time.Now()
	for _, p := range w.dirs {
		p.dir.watched = false
	}
	w.sweep = false
	w.todo = slices.Collect(maps.Values(w.teams)) // what appears now is looked at as it does
	w.scanTop(true, false)
}

// poll looks at what the kernel says nothing of.
func (w *Watcher) poll() {
	if w.root.silent() || w.top.silent() || !w.root.here {
		w.scanTop(false, false)
	}
	if len(w.todo) > 0 {
		return
	}
	w.sweep = false
	for _, t := range w.teams {
		if t.dir.silent() || t.inboxes.silent() {
			w.todo = append(w.todo, t)
		}
	}
}

// judge is called before each sweep: it decides which directories have no
// events. One sweep may have been ahead of an event that came later; three
// without any event in between were not.
func (w *Watcher) judge() {
	limited := false
	for _, p := range w.dirs {
		d := p.dir
		limited = limited || !d.watched
		if !d.suspect {
			continue
		}
		d.suspect = false
		if d.misses++; d.misses >= 3 && !d.deaf {
			d.deaf = true
			w.warn("deaf", fmt.Errorf("%w: %s", ErrNoEvents, d.path))
		}
	}
	if !limited {
		delete(w.warned, "limit")
	}
}

// warn tells of a trouble once while it lasts.
func (w *Watcher) warn(what string, err error) {
	if !w.warned[what] {
		w.warned[what] = true
		w.opts.Warn(err)
	}
}

// isLimit reports whether err says that the system allows no more watches.
func isLimit(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
