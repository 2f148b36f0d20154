package watch

import (
	"cmp"
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

// Options configure a watcher. Only Root is required.
type Options struct {
	Root string // Claude's directory, which need not exist yet

	// Only, if not nil, selects the teams to watch, by the names of their directories. Run calls it. Its
	// result for a name must not change.
	Only func(team string) bool

	// Tasks makes the watcher watch task lists instead of teams. The Team of an event is then a list, and its
	// Inbox a task.
	Tasks bool

	// EventsAlone disables the sweep every 5 s, so that an idle watcher does nothing. Changes that the kernel
	// does not report, as on network file systems, are then found at the next event of their directory, or
	// never. Directories for which the kernel refuses a watch are still polled.
	EventsAlone bool

	// Warn, if not nil, receives problems that make the watcher slow or blind, each once while it lasts:
	// [ErrLimit], [ErrNoEvents], or an unreadable directory.
	Warn func(error)

	// For tests:
	sweep     time.Duration // interval of sweeps of directories; every 6th also checks files; 0: 5 s
	resweep   time.Duration // the pause after a sweep that found a change; 0: 2 s
	poll      time.Duration // interval of polls without kernel events; 0: 250 ms
	settle    time.Duration // how long an event waits for another change; 0: 2 ms
	maxSettle time.Duration // how long an event waits at most; 0: 20 ms
}

// filesEvery is how many sweeps there are for each that also checks the files of unchanged directories. This
// can be rare: Claude Code replaces files, or writes them while a lock directory is next to them, and both
// change the directory.
const filesEvery = 6

// The errors that [Options.Warn] receives.
var (
	// ErrLimit means that the system allows no more watches. Until it does, the directories without a watch
	// are polled every 250 ms.
	ErrLimit = errors.New("watch: the system's limit for watching files is reached: " +
		"close other watchers, or on Linux raise fs.inotify.max_user_watches and fs.inotify.max_user_instances; until then teambridge polls")

	// ErrNoEvents means that a directory changes without kernel events, as on network file systems. The
	// directory is then polled every 250 ms.
	ErrNoEvents = errors.New("watch: a directory changes without events, as on a network file system: it is polled")
)

// Watcher watches the teams of one Claude directory.
type Watcher struct {
	opts  Options
	queue *queue
	ran   atomic.Bool
	open  func() (source, error)

	// Only Run uses the fields below.
	source source
	faults chan struct{} // the source reported an error
	pumps  sync.WaitGroup
	root   *dir
	top    *dir // teams
	teams  map[string]*team
	dirs   map[string]*dir // existing directories, by path
	todo   []*team         // teams that are still to be checked
	sweep  bool            // todo belongs to a sweep, not to a poll
	quick  bool            // the sweep skips the files of unchanged directories
	files  int             // sweeps until the next one that checks all files
	next   *time.Timer     // fires when the next sweep is due
	lost   bool            // events were lost: check everything
	last   time.Time       // when everything was last checked because events were lost
	warned map[string]bool // warnings whose problem still lasts
}

// New returns a watcher. It starts nothing and touches no file.
func New(opts Options) *Watcher {
	opts.sweep = cmp.Or(opts.sweep, 5*time.Second)
	opts.resweep = min(opts.sweep, cmp.Or(opts.resweep, 2*time.Second))
	opts.poll = cmp.Or(opts.poll, 250*time.Millisecond)
	opts.settle = cmp.Or(opts.settle, 2*time.Millisecond)
	opts.maxSettle = cmp.Or(opts.maxSettle, 20*time.Millisecond)
	if opts.Only == nil {
		opts.Only = func(string) bool { return true }
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Watcher{
		opts:   opts,
		queue:  newQueue(opts.settle, opts.maxSettle),
		open:   openKernel,
		faults: make(chan struct{}, 1),
		files:  filesEvery,
		teams:  map[string]*team{},
		dirs:   map[string]*dir{},
		warned: map[string]bool{},
		next:   time.NewTimer(opts.sweep),
	}
}

// Next waits for the next event, which the caller must close. It is safe for concurrent use, and can be
// called before Run. A waiting event is returned even if ctx has ended. Otherwise the error is the cause of
// ctx's end, or [ErrStopped] once Run has returned.
func (w *Watcher) Next(ctx context.Context) (Event, error) { return w.queue.next(ctx) }

// Run watches until ctx ends, and then returns nil. A second call is an error, and so is an empty root. When
// Run returns, its goroutines have ended and its descriptors are closed, including those of events that were
// not taken.
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
	w.root = &dir{path: root}
	w.top = &dir{path: filepath.Join(root, "teams")}
	if w.opts.Tasks {
		w.top.path = filepath.Join(root, "tasks")
	}
	defer func() {
		w.disconnect()
		w.pumps.Wait()
	}()

	defer w.next.Stop()
	poll := time.NewTicker(w.opts.poll)
	defer poll.Stop()
	ready := make(chan struct{})
	close(ready)

	w.connect()
	w.again(w.opts.sweep)
	w.rescan()
	polling := true
	for {
		var events <-chan fsnotify.Event
		if w.source != nil {
			events = w.source.events()
		}
		// Check one team at a time, so that events do not wait for a whole sweep.
		var next <-chan struct{}
		if len(w.todo) > 0 {
			next = ready
		} else {
			polling = w.polling()
		}
		var again <-chan time.Time
		if polling || w.lost {
			again = poll.C
		}
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-events:
			if !ok {
				w.disconnect()
				w.again(w.opts.sweep)
				w.lost = true
				break
			}
			w.handle(e)
		case <-w.faults:
			w.lost = true
			if time.Since(w.last) >= w.opts.poll {
				w.rescan()
			}
		case <-next:
			t := w.todo[0]
			w.todo = w.todo[1:]
			if w.teams[t.name] == t {
				w.scan(t, w.sweep)
			}
		case <-w.next.C:
			w.connect()
			w.again(w.opts.sweep)
			w.findEventless()
			if w.files--; w.files <= 0 {
				w.files = filesEvery
			}
			w.quick = w.files < filesEvery
			w.sweep = true
			w.todo = slices.Collect(maps.Values(w.teams))
			w.scanTop(false, true)
		case <-again:
			if w.lost {
				w.rescan()
				break
			}
			w.poll()
		}
	}
}

// again schedules the next sweep after d, unless the watcher relies on events alone.
func (w *Watcher) again(d time.Duration) {
	if w.opts.EventsAlone && w.source != nil {
		w.next.Stop()
		return
	}
	w.next.Reset(d)
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
	if src == nil {
		return // this system has no source, so everything is polled
	}
	w.source = src
	// Not in the loop: while the source waits for its error to be read, it may hold a lock that Add needs.
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
	for _, d := range w.dirs {
		d.watched = false
	}
}

// rescan checks everything, and sets every watch again.
func (w *Watcher) rescan() {
	w.lost, w.last = false, time.Now()
	for _, d := range w.dirs {
		d.watched = false
	}
	w.sweep = false
	w.todo = slices.Collect(maps.Values(w.teams)) // teams that appear meanwhile are checked as they appear
	w.scanTop(true, false)
}

// polling reports whether anything must be polled.
func (w *Watcher) polling() bool {
	if !w.root.here || w.root.polled() || w.top.polled() {
		return true
	}
	for _, t := range w.teams {
		if t.dir.polled() || t.inboxes.polled() {
			return true
		}
	}
	return false
}

// poll checks all directories without kernel events.
func (w *Watcher) poll() {
	if w.root.polled() || w.top.polled() || !w.root.here {
		w.scanTop(false, false)
	}
	if len(w.todo) > 0 {
		return
	}
	w.sweep = false
	for _, t := range w.teams {
		if t.dir.polled() || t.inboxes.polled() {
			w.todo = append(w.todo, t)
		}
	}
}

// findEventless decides before each sweep which directories have no events: those in which three sweeps in a
// row found a change before any event came.
func (w *Watcher) findEventless() {
	limited := false
	for _, d := range w.dirs {
		limited = limited || !d.watched
		if !d.suspect {
			continue
		}
		d.suspect = false
		if d.misses++; d.misses >= 3 && !d.noEvents {
			d.noEvents = true
			w.warn("no events", fmt.Errorf("%w: %s", ErrNoEvents, d.path))
		}
	}
	if !limited {
		delete(w.warned, "limit")
	}
}

// warn reports a problem once while it lasts.
func (w *Watcher) warn(what string, err error) {
	if !w.warned[what] {
		w.warned[what] = true
		w.opts.Warn(err)
	}
}

// isLimit reports whether err means that the system allows no more watches.
func isLimit(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}
