package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/teams"
	"teambridge/teams/watch"
)

// TapOptions are the options of [NewTap]. Root and Journal are needed.
type TapOptions struct {
	Root    *teams.Root
	Journal *Journal

	// Only, if not nil, reports whether teams of a name are recorded.
	Only func(team string) bool

	// Report, if not nil, is called after each look, since [Messages.Changes] may have more, perhaps recorded by
	// another process. The tap waits for it.
	Report func()

	// Warn, if not nil, is called with each error of reading or recording; the tap continues.
	Warn func(error)
}

// Tap records the rows that pass through the inboxes of a Claude directory while it runs. It reads the files as they
// change.
//
// Package watch reports the changes, and keeps the content of a file before the next one replaces it. At the start
// the tap records the rows of the inboxes, and as gone the rows of the journal that the inboxes lack. It records
// nothing of a team that it cannot read. A team without a config.json has a creation time of 0 until its own is
// known. If a file is still not a JSON array after [inbox.Inbox.Read] has waited, the tap warns of it, once.
//
// A tap can miss rows that come and go between two looks. Looks are microseconds apart with events of the kernel, and
// a quarter of a second without them, as on network file systems.
type Tap struct {
	opts    TapOptions
	watcher *watch.Watcher
	ready   chan struct{}
	lives   map[string]*life          // of teams, by name
	last    map[string]teams.Instance // of teams that are gone, by name
	warned  map[string]string         // the last warning of each path

	waited  chan waited
	waiting map[string]bool // inbox files for which wait runs, by path
	readers sync.WaitGroup
}

// life is a team from its appearing to its end.
type life struct {
	team     *teams.Team
	instance teams.Instance
	known    bool // config.json was read
}

// waited is the result of wait.
type waited struct {
	team, inbox, path string
	err               error // of [inbox.Inbox.Read]
	at                time.Time
}

// NewTap returns a tap. It starts nothing.
func NewTap(opts TapOptions) *Tap {
	if opts.Report == nil {
		opts.Report = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Tap{
		opts:    opts,
		watcher: watch.New(watch.Options{Root: opts.Root.Path(), Only: opts.Only, Warn: opts.Warn}),
		ready:   make(chan struct{}),
		lives:   map[string]*life{},
		last:    map[string]teams.Instance{},
		warned:  map[string]string{},
		waited:  make(chan waited),
		waiting: map[string]bool{},
	}
}

// Ready returns a channel that is closed once the inboxes of the start are recorded.
func (t *Tap) Ready() <-chan struct{} { return t.ready }

// farewell limits how long a tap records after its context has ended.
var farewell = time.Second // a variable for tests

// Run records until ctx ends, and then records the teams that have ended; it returns nil. It can be called once.
func (t *Tap) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	watching := make(chan error, 1)
	go func() { watching <- t.watcher.Run(running) }()
	err := t.run(running)
	stop()
	werr := <-watching
	t.readers.Wait()
	// If the caller stops because a team ended, the event of its end has not come yet.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for name, l := range t.lives {
		if !l.there() {
			t.gone(last, l.instance, "")
		}
		t.forget(name)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(err, werr)
}

func (t *Tap) run(ctx context.Context) error {
	// The watcher runs already, so changes during the first look come again as events.
	if err := t.begin(ctx); err != nil {
		return err
	}
	close(t.ready)
	events := make(chan watch.Event)
	ended := make(chan error, 1)
	t.readers.Go(func() {
		for {
			e, err := t.watcher.Next(ctx)
			if err != nil {
				ended <- err
				return
			}
			select {
			case events <- e:
			case <-ctx.Done():
				e.Close()
			}
		}
	})
	for {
		select {
		case e := <-events:
			t.event(ctx, &e)
			e.Close()
		case s := <-t.waited:
			t.afterWait(ctx, s)
		case err := <-ended:
			return err
		}
		t.opts.Report()
	}
}

// begin records the inboxes of the start, and the rows that are gone since the last tap.
func (t *Tap) begin(ctx context.Context) error {
	all, err := t.opts.Root.Teams()
	if err != nil {
		return err
	}
	now := map[teams.Instance][]string{} // the inboxes of each team
	hidden := map[string]bool{}          // teams whose inboxes or creation times are unknown
	for _, l := range all {
		if t.opts.Only != nil && !t.opts.Only(l.Name) {
			continue
		}
		team := t.life(ctx, l.Name)
		if team == nil {
			hidden[l.Name] = true
			continue
		}
		names, err := team.team.Inboxes()
		if err != nil {
			t.warn(ctx, team.team.Path(), err)
			hidden[l.Name] = true
			continue
		}
		hidden[l.Name] = !team.known
		now[team.instance] = names
		for _, name := range names {
			t.look(ctx, l.Name, name)
		}
	}
	known, err := t.opts.Journal.Messages.Inboxes(ctx, Query{Root: t.opts.Root.Path()})
	if err != nil {
		t.opts.Warn(err)
		return ctx.Err()
	}
	var ended teams.Instance // the last team recorded as gone
	for _, k := range known {
		if t.opts.Only != nil && !t.opts.Only(k.Team) {
			continue
		}
		team := k.Instance()
		names, alive := now[team]
		switch {
		case team.Fileless():
		case alive && !slices.Contains(names, k.Inbox):
			t.gone(ctx, team, k.Inbox)
		case !alive && !hidden[k.Team] && team != ended:
			ended = team
			t.gone(ctx, team, "")
		}
	}
	return ctx.Err()
}

// event records an event.
func (t *Tap) event(ctx context.Context, e *watch.Event) {
	switch e.Kind {
	// The events of a team that is gone come before TeamGone, those of the next team of the name after TeamAppeared.
	// A team that was made again can be reported gone a second time.
	case watch.TeamGone, watch.TeamAppeared:
		if l := t.lives[e.Team]; l != nil && !l.there() {
			if e.Kind == watch.TeamAppeared && l.in(e) {
				return // it is gone again: its events come before TeamGone
			}
			t.gone(ctx, l.instance, "")
			if ctx.Err() != nil {
				return // perhaps not recorded: Run records it at its end
			}
			t.last[e.Team] = l.instance
			t.forget(e.Team)
		}
		if e.Kind == watch.TeamAppeared {
			t.configured(ctx, e.Team)
		}
	case watch.ConfigChanged:
		t.configured(ctx, e.Team)
	case watch.Changed:
		t.versions(ctx, e)
		if e.Unkept {
			t.look(ctx, e.Team, e.Inbox)
		}
	case watch.Removed:
		t.versions(ctx, e)
		delete(t.warned, e.Path)
		// The file may exist again, and another process may have recorded that already.
		if info, err := os.Lstat(e.Path); err == nil && info.Mode().IsRegular() {
			t.look(ctx, e.Team, e.Inbox)
		} else if l := t.lives[e.Team]; l != nil && l.in(e) {
			t.gone(ctx, l.instance, e.Inbox)
		}
	}
}

// there reports whether the directory of the team is still the same.
func (l *life) there() bool {
	now, err := os.Stat(l.team.Path())
	if err != nil {
		return false
	}
	dir, err := l.team.Stat()
	return err == nil && os.SameFile(dir, now)
}

// in reports whether an event is about this team, not an earlier or later one of the same name.
func (l *life) in(e *watch.Event) bool {
	dir, err := l.team.Stat()
	return err != nil || e.In(dir)
}

// configured reads the present instance of a team, and records the changes that follow.
func (t *Tap) configured(ctx context.Context, name string) {
	l := t.lives[name]
	if l == nil {
		t.life(ctx, name)
		return
	}
	was, knew := l.instance, l.known
	t.config(ctx, l)
	if !l.known || l.instance == was {
		return
	}
	if knew {
		t.gone(ctx, was, "")
	} else if err := t.opts.Journal.Messages.Adopt(ctx, t.opts.Root.Path(), l.instance); err != nil && ctx.Err() == nil {
		t.opts.Warn(err)
	}
	names, err := l.team.Inboxes()
	if err != nil {
		t.warn(ctx, l.team.Path(), err)
		return
	}
	for _, inbox := range names {
		t.look(ctx, name, inbox)
	}
}

// versions records the contents of an inbox that package watch kept.
func (t *Tap) versions(ctx context.Context, e *watch.Event) {
	gone := true
	instance, ended := t.last[e.Team]
	if l := t.life(ctx, e.Team); l != nil && l.in(e) {
		instance, ended, gone = l.instance, false, !l.there()
	} else if !ended {
		instance, ended = teams.Instance{Team: e.Team}, true // the team ended before it was seen
	}
	look := false // at the present file
	for _, v := range e.Versions {
		s, stands, ok, err := t.version(e.Path, v.File)
		if stands && gone {
			continue // it is of the next team of this name, and comes again as its event
		}
		if err != nil {
			t.warn(ctx, e.Path, fmt.Errorf("journal: read %s: %w", e.Path, err))
		}
		if !ok {
			look = true // it is being written in place, or is not an array
			continue
		}
		look = t.observe(ctx, instance, e.Inbox, s)
	}
	if ended && len(e.Versions) > 0 {
		t.gone(ctx, instance, e.Inbox)
	}
	if look && e.Kind == watch.Changed {
		t.look(ctx, e.Team, e.Inbox)
	}
}

// version reads a file that was at path. If it is still there after reading (stands), the time of the snapshot is
// that of reading. If not, the inbox had this content at some time since the file was written.
func (t *Tap) version(path string, f *os.File) (s Snapshot, stands, ok bool, err error) {
	s.At = time.Now()
	before, err := f.Stat()
	if err != nil {
		return s, false, false, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, 0, inbox.MaxSize+1))
	if err != nil {
		return s, false, false, err
	}
	after, err := f.Stat()
	if err != nil {
		return s, false, false, err
	}
	now, err := os.Lstat(path)
	stands = err == nil && os.SameFile(now, after)
	if !stands {
		s.At = after.ModTime()
	}
	s.Done = time.Now()
	if s.Done.Before(s.At) { // a time of another clock, or the clock was set back
		s.At = s.Done
	}
	switch s.Rows, err = inbox.ParseFile(path, data); {
	case len(data) > inbox.MaxSize:
		return s, stands, false, fmt.Errorf("over %d MiB", inbox.MaxSize>>20)
	case err != nil, !before.ModTime().Equal(after.ModTime()), before.Size() != after.Size():
		return s, stands, false, nil // not an array, or written meanwhile, so its parts may not fit together
	}
	delete(t.warned, path)
	return s, stands, true, nil
}

// look records the present rows of an inbox file. If the file is being written, it waits in the background.
func (t *Tap) look(ctx context.Context, name, inboxName string) {
	l := t.life(ctx, name)
	if l == nil {
		return
	}
	box, err := inbox.Open(l.team, inboxName, nil) // reading takes no lock
	if err != nil {
		t.warn(ctx, name+"/"+inboxName, err)
		return
	}
	for range 3 {
		s, err := readOnce(ctx, box)
		switch {
		case errors.Is(err, context.Canceled):
			t.wait(ctx, name, box)
			return
		case err != nil:
			t.fault(ctx, box.Path(), err)
			return
		}
		delete(t.warned, box.Path())
		if !t.observe(ctx, l.instance, inboxName, s) {
			return
		}
	}
}

// wait waits until an inbox becomes an array, or Read gives up.
func (t *Tap) wait(ctx context.Context, name string, box *inbox.Inbox) {
	path := box.Path()
	if t.waiting[path] || ctx.Err() != nil {
		return
	}
	t.waiting[path] = true
	t.readers.Go(func() {
		_, err := box.Read(ctx)
		select {
		case t.waited <- waited{name, box.Name(), path, err, time.Now()}:
		case <-ctx.Done():
		}
	})
}

// afterWait records the result of wait.
func (t *Tap) afterWait(ctx context.Context, s waited) {
	delete(t.waiting, s.path)
	l := t.lives[s.team]
	switch {
	case s.err == nil, errors.Is(s.err, inbox.ErrMissing):
		t.look(ctx, s.team, s.inbox)
	case errors.Is(s.err, inbox.ErrEmpty) && l != nil:
		t.observe(ctx, l.instance, s.inbox, Snapshot{At: s.at})
	default:
		t.fault(ctx, s.path, s.err)
	}
}

// fault warns of an inbox that cannot be read, unless its team is gone: the event of its end will follow.
func (t *Tap) fault(ctx context.Context, path string, err error) {
	if !errors.Is(err, teams.ErrTeamGone) && !errors.Is(err, fs.ErrClosed) {
		t.warn(ctx, path, err)
	}
}

// gone records that an inbox is gone or, if name is "", all inboxes of the team.
func (t *Tap) gone(ctx context.Context, of teams.Instance, name string) {
	t.observe(ctx, of, name, Snapshot{Gone: true, At: time.Now()})
}

// observe records a snapshot of an inbox and reports whether to look again.
func (t *Tap) observe(ctx context.Context, of teams.Instance, name string, s Snapshot) (again bool) {
	s.InboxKey = inbox.Key(t.opts.Root.Path(), of, name)
	o, err := t.opts.Journal.Messages.Observe(ctx, s)
	if err != nil {
		if ctx.Err() == nil {
			t.opts.Warn(err)
		}
		return false
	}
	return len(o.Again) > 0
}

// life returns an open team, or nil if it cannot be opened.
func (t *Tap) life(ctx context.Context, name string) *life {
	if l := t.lives[name]; l != nil {
		return l
	}
	team, err := t.opts.Root.Team(name)
	if err != nil {
		if !errors.As(err, new(*teams.NotFoundError)) && !errors.Is(err, teams.ErrTeamGone) {
			t.warn(ctx, "team "+name, err)
		}
		return nil
	}
	l := &life{team: team, instance: teams.Instance{Team: name}}
	t.lives[name] = l
	t.config(ctx, l)
	return l
}

// config reads the instance of a team.
func (t *Tap) config(ctx context.Context, l *life) {
	c, err := l.team.Config(ctx)
	switch {
	case err == nil:
		l.instance, l.known = c.Instance(), true
		delete(t.warned, l.team.Path())
	case !errors.Is(err, teams.ErrTeamGone):
		t.warn(ctx, l.team.Path(), err)
	}
}

func (t *Tap) forget(name string) {
	if l := t.lives[name]; l != nil {
		_ = l.team.Close() // it was only read
	}
	delete(t.lives, name)
}

// warn warns of a path, once for each new error.
func (t *Tap) warn(ctx context.Context, path string, err error) {
	if ctx.Err() == nil && t.warned[path] != err.Error() {
		t.warned[path] = err.Error()
		t.opts.Warn(err)
	}
}
