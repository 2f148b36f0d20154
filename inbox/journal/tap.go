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

// TapOptions says what a [Tap] records. Root and Journal are needed.
type TapOptions struct {
	Root    *teams.Root
	Journal *Journal

	// Only, if not nil, says which teams are recorded, by name.
	Only func(team string) bool

	// Report, if not nil, is called each time something was looked at: then
	// [Journal.Changes] may have more. It is called where nothing was recorded,
	// too, since another process may have been faster. What takes long in it
	// keeps the tap from seeing what comes meanwhile.
	Report func()

	// Warn, if not nil, is told what could not be read or recorded; the tap goes
	// on.
	Warn func(error)
}

// Tap records what passes through the inboxes of a Claude directory while it
// runs, from the files as they change.
//
// It is told of a change by package watch, which keeps what a file had in it
// before the next one replaced it. What is in the inboxes when it starts is
// recorded first; and what the journal holds to be in them and is not is
// recorded as gone. Of a team that cannot be looked into nothing is.
//
// A team whose config.json is not there yet is recorded with a creation time of
// 0, and by its own once that is known. An inbox that is no array is looked at
// again for as long as [inbox.Inbox.Read] does, while others go on; if it stays
// so it is warned of, once, and nothing of it is recorded.
//
// # What it can miss
//
// Rows that come and go between two looks. With the events of the kernel that
// takes an agent that takes a row within microseconds of its coming; where there
// are none, as on network file systems, a quarter of a second.
type Tap struct {
	opts    TapOptions
	watcher *watch.Watcher
	ready   chan struct{}
	lives   map[string]*life          // of teams, by name
	last    map[string]teams.Instance // of teams that are gone, by name
	warned  map[string]string         // what was said last of a path

	settled chan settled
	waiting map[string]bool // inbox files that are waited for, by path
	readers sync.WaitGroup
}

// life is a team from its appearing to its end.
type life struct {
	team     *teams.Team
	instance teams.Instance
	known    bool // config.json was read
}

// settled is an inbox that was waited for.
type settled struct {
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
		settled: make(chan settled),
		waiting: map[string]bool{},
	}
}

// Ready is closed once what was there at the start is recorded.
func (t *Tap) Ready() <-chan struct{} { return t.ready }

// farewell is how long a tap that was told to end may take for its last word.
const farewell = time.Second

// Run records until ctx ends, and then what has ended by then; it returns nil.
// It can be called once.
func (t *Tap) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	watching := make(chan error, 1)
	go func() { watching <- t.watcher.Run(running) }()
	err := t.run(running)
	stop()
	werr := <-watching
	t.readers.Wait()
	// Whoever stops because a team ended is faster than the event of that; what
	// is in the journal as there would stay so until somebody taps again.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	for name, l := range t.lives {
		if !l.there() {
			t.observe(last, Snapshot{Team: l.instance, Gone: true, At: time.Now()})
		}
		t.forget(name)
	}
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(err, werr)
}

func (t *Tap) run(ctx context.Context) error {
	// The watcher runs already, so what comes during the first look is seen
	// again as an event.
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
		case s := <-t.settled:
			t.settle(ctx, s)
		case err := <-ended:
			return err
		}
		t.opts.Report()
	}
}

// begin records what is there at the start, and what is not there any more.
func (t *Tap) begin(ctx context.Context) error {
	all, err := t.opts.Root.Teams()
	if err != nil {
		return err
	}
	now := map[teams.Instance][]string{} // the inboxes that are there
	hidden := map[string]bool{}          // teams of which that is not known
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
	known, err := t.opts.Journal.Inboxes(ctx, Query{Root: t.opts.Root.Path()})
	if err != nil {
		t.opts.Warn(err)
		return ctx.Err()
	}
	var ended teams.Instance // the last one that was recorded as gone
	for _, k := range known {
		if t.opts.Only != nil && !t.opts.Only(k.Team.Team) {
			continue
		}
		names, alive := now[k.Team]
		switch {
		case alive && !slices.Contains(names, k.Inbox):
			t.observe(ctx, Snapshot{Team: k.Team, Inbox: k.Inbox, Gone: true, At: time.Now()})
		case !alive && !hidden[k.Team.Team] && k.Team != ended:
			ended = k.Team
			t.observe(ctx, Snapshot{Team: k.Team, Gone: true, At: time.Now()})
		}
	}
	return ctx.Err()
}

// event records what one event says.
func (t *Tap) event(ctx context.Context, e *watch.Event) {
	switch e.Kind {
	// What is of a team that is gone comes before TeamGone, what is of the next one
	// behind TeamAppeared. One that was made again can be reported gone once more.
	case watch.TeamGone, watch.TeamAppeared:
		if l := t.lives[e.Team]; l != nil && !l.there() {
			t.observe(ctx, Snapshot{Team: l.instance, Gone: true, At: time.Now()})
			if ctx.Err() != nil {
				return // it may not have been recorded: Run does it as its last word
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
		// Another process may have recorded already that it was made again.
		if info, err := os.Lstat(e.Path); err == nil && info.Mode().IsRegular() {
			t.look(ctx, e.Team, e.Inbox)
		} else if l := t.lives[e.Team]; l != nil {
			t.observe(ctx, Snapshot{Team: l.instance, Inbox: e.Inbox, Gone: true, At: time.Now()})
		}
	}
}

// there reports whether the team's directory still is the one it was.
func (l *life) there() bool {
	now, err := os.Stat(l.team.Path())
	if err != nil {
		return false
	}
	dir, err := l.team.Stat()
	return err == nil && os.SameFile(dir, now)
}

// configured looks at the config.json of a team, by which it is known which one
// of its name it is.
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
		t.observe(ctx, Snapshot{Team: was, Gone: true, At: time.Now()})
	} else if err := t.opts.Journal.Adopt(ctx, t.opts.Root.Path(), l.instance); err != nil && ctx.Err() == nil {
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

// versions records the contents that an inbox had.
func (t *Tap) versions(ctx context.Context, e *watch.Event) {
	gone := true
	instance, ended := t.last[e.Team]
	if l := t.life(ctx, e.Team); l != nil {
		instance, ended, gone = l.instance, false, !l.there()
	} else if !ended {
		instance, ended = teams.Instance{Team: e.Team}, true // it came and went before it was seen
	}
	look := false // at what is there now
	for _, v := range e.Versions {
		s, stands, ok, err := t.version(e.Path, v.File)
		if stands && gone {
			continue // it is of the next team of this name, and told of again as such
		}
		if err != nil {
			t.warn(ctx, e.Path, fmt.Errorf("journal: read %s: %w", e.Path, err))
		}
		if !ok {
			look = true // it is being written in place, or is no array
			continue
		}
		s.Team, s.Inbox = instance, e.Inbox
		look = t.observe(ctx, s)
	}
	if ended && len(e.Versions) > 0 {
		t.observe(ctx, Snapshot{Team: instance, Inbox: e.Inbox, Gone: true, At: time.Now()})
	}
	if look && e.Kind == watch.Changed {
		t.look(ctx, e.Team, e.Inbox)
	}
}

// version reads a file that stood at path. What still is there when it was
// read was so at that time. What does not was so at some time since it was
// written; file systems tell that in ticks of some ms, and never too late.
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
	if s.Done.Before(s.At) { // a clock that is not ours, or was set back
		s.At = s.Done
	}
	switch s.Rows, err = inbox.Parse(data); {
	case len(data) > inbox.MaxSize:
		return s, stands, false, fmt.Errorf("over %d MiB", inbox.MaxSize>>20)
	case err != nil, !before.ModTime().Equal(after.ModTime()), before.Size() != after.Size():
		return s, stands, false, nil // written meanwhile, its parts need not fit together
	}
	delete(t.warned, path)
	return s, stands, true, nil
}

// look records what is in an inbox file now. One that is being written is
// waited for, while others go on.
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
	// Read looks once before it waits.
	once, cancel := context.WithCancel(ctx)
	cancel()
	for range 3 {
		at := time.Now()
		rows, err := box.Read(once)
		s := Snapshot{Team: l.instance, Inbox: inboxName, Rows: rows, At: at, Done: time.Now()}
		switch {
		case errors.Is(err, inbox.ErrMissing):
			s.Gone = true
		case errors.Is(err, context.Canceled):
			t.wait(ctx, name, box)
			return
		case err != nil:
			t.fault(ctx, box.Path(), err)
			return
		}
		delete(t.warned, box.Path())
		if !t.observe(ctx, s) {
			return
		}
	}
}

// wait waits until an inbox that is no array becomes one, or does not.
func (t *Tap) wait(ctx context.Context, name string, box *inbox.Inbox) {
	path := box.Path()
	if t.waiting[path] || ctx.Err() != nil {
		return
	}
	t.waiting[path] = true
	t.readers.Go(func() {
		_, err := box.Read(ctx)
		select {
		case t.settled <- settled{name, box.Name(), path, err, time.Now()}:
		case <-ctx.Done():
		}
	})
}

// settle records what came of waiting for an inbox.
func (t *Tap) settle(ctx context.Context, s settled) {
	delete(t.waiting, s.path)
	l := t.lives[s.team]
	switch {
	case s.err == nil, errors.Is(s.err, inbox.ErrMissing):
		t.look(ctx, s.team, s.inbox)
	case errors.Is(s.err, inbox.ErrEmpty) && l != nil:
		t.observe(ctx, Snapshot{Team: l.instance, Inbox: s.inbox, At: s.at})
	default:
		t.fault(ctx, s.path, s.err)
	}
}

// fault warns of an inbox that cannot be read, but for one of a team that is
// gone: the event of that is on its way.
func (t *Tap) fault(ctx context.Context, path string, err error) {
	if !errors.Is(err, teams.ErrTeamGone) && !errors.Is(err, fs.ErrClosed) {
		t.warn(ctx, path, err)
	}
}

// observe records a snapshot, and says whether to look again.
func (t *Tap) observe(ctx context.Context, s Snapshot) (again bool) {
	s.Root = t.opts.Root.Path()
	o, err := t.opts.Journal.Observe(ctx, s)
	if err != nil {
		if ctx.Err() == nil {
			t.opts.Warn(err)
		}
		return false
	}
	return len(o.Again) > 0
}

// life returns a team that is open, nil where it cannot be opened.
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

// config reads which one of its name a team is.
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
		_ = l.team.Close() // nothing was written through it
	}
	delete(t.lives, name)
}

// warn says what is wrong with a path, once while it lasts.
func (t *Tap) warn(ctx context.Context, path string, err error) {
	if ctx.Err() == nil && t.warned[path] != err.Error() {
		t.warned[path] = err.Error()
		t.opts.Warn(err)
	}
}
