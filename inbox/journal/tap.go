package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
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
// recorded as gone.
//
// # What it can miss
//
// Rows that come and go between two looks. With the events of the kernel that
// takes an agent that takes a row within microseconds of its coming; where there
// are none, as on network file systems, a quarter of a second. [Tap.Missed]
// counts what is known to have been missed.
type Tap struct {
	opts     TapOptions
	watcher  *watch.Watcher
	ready    chan struct{}
	missed   int
	teams    map[string]*teams.Team
	instance map[string]teams.Instance
	looked   map[string]time.Time // when an inbox file was last looked at, by path
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
		opts:     opts,
		watcher:  watch.New(watch.Options{Root: opts.Root.Path(), Only: opts.Only, Warn: opts.Warn}),
		ready:    make(chan struct{}),
		teams:    map[string]*teams.Team{},
		instance: map[string]teams.Instance{},
		looked:   map[string]time.Time{},
	}
}

// Ready is closed once what was there at the start is recorded.
func (t *Tap) Ready() <-chan struct{} { return t.ready }

// Missed returns how many contents of inboxes were seen to come and could not
// be kept until they were read. It may be called once Run has returned.
func (t *Tap) Missed() int { return t.missed }

// Run records until ctx ends, and returns nil then. It can be called once.
func (t *Tap) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	watching := make(chan error, 1)
	go func() { watching <- t.watcher.Run(running) }()
	err := t.run(ctx)
	stop()
	werr := <-watching
	for _, team := range t.teams {
		_ = team.Close() // nothing was written through it
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
	for {
		e, err := t.watcher.Next(ctx)
		if err != nil {
			return err
		}
		t.event(ctx, &e)
		e.Close()
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
	for _, l := range all {
		if l.Err != nil || t.opts.Only != nil && !t.opts.Only(l.Name) {
			continue
		}
		team := t.team(ctx, l.Name)
		if team == nil {
			continue
		}
		names, err := team.Inboxes()
		if err != nil {
			t.warn(ctx, err)
			continue
		}
		instance := t.instance[l.Name]
		now[instance] = append(names, "")
		for _, name := range names {
			t.look(ctx, l.Name, name)
		}
	}
	known, err := t.opts.Journal.Instances(ctx, t.opts.Root.Path())
	if err != nil {
		t.warn(ctx, err)
		return ctx.Err()
	}
	for _, i := range known {
		if t.opts.Only != nil && !t.opts.Only(i.Team.Team) {
			continue
		}
		names, alive := now[i.Team]
		if !alive {
			t.observe(ctx, Snapshot{Team: i.Team, Gone: true, At: time.Now()})
			continue
		}
		for _, name := range i.Inboxes {
			if !slices.Contains(names, name) {
				t.observe(ctx, Snapshot{Team: i.Team, Inbox: name, Gone: true, At: time.Now()})
			}
		}
	}
	return ctx.Err()
}

// event records what one event says.
func (t *Tap) event(ctx context.Context, e *watch.Event) {
	switch e.Kind {
	case watch.TeamAppeared, watch.ConfigChanged:
		// An instance that had no config.json yet may have one now.
		if i, ok := t.instance[e.Team]; !ok || i.CreatedAt == 0 || e.Kind == watch.TeamAppeared {
			t.forget(e.Team)
			t.team(ctx, e.Team)
		}
	case watch.TeamGone:
		if i, ok := t.instance[e.Team]; ok {
			t.observe(ctx, Snapshot{Team: i, Gone: true, At: time.Now()})
		}
		t.forget(e.Team)
	case watch.Changed:
		t.versions(ctx, e)
		if e.Unkept {
			t.look(ctx, e.Team, e.Inbox)
		}
	case watch.Removed:
		t.versions(ctx, e)
		delete(t.looked, e.Path)
		if i, ok := t.instance[e.Team]; ok {
			t.observe(ctx, Snapshot{Team: i, Inbox: e.Inbox, Gone: true, At: time.Now()})
		}
	}
}

// versions records the contents that an inbox had.
func (t *Tap) versions(ctx context.Context, e *watch.Event) {
	t.missed += e.Missed
	if t.team(ctx, e.Team) == nil && t.instance[e.Team].Team == "" {
		return
	}
	for n, v := range e.Versions {
		data, err := io.ReadAll(io.LimitReader(v.File, inbox.MaxSize+1))
		if err == nil && len(data) > inbox.MaxSize {
			err = fmt.Errorf("over %d MiB", inbox.MaxSize>>20)
		}
		if err != nil {
			t.warn(ctx, fmt.Errorf("journal: read %s: %w", e.Path, err))
			continue
		}
		rows, err := inbox.Parse(data)
		if err != nil {
			// Being written in place, or not an inbox. An event follows when its
			// writer is done; a look at the newest settles what it is.
			if n == len(e.Versions)-1 && e.Kind == watch.Changed && len(bytes.TrimSpace(data)) > 0 {
				t.look(ctx, e.Team, e.Inbox)
			}
			continue
		}
		// By when it was written, since it is read later than that: what came after
		// it may be recorded by now. That time comes in ticks of several ms on some
		// systems, so it can lie before that of an earlier look at what it replaced;
		// a file that still stands there is then known to be newer than that.
		s := Snapshot{Team: t.instance[e.Team], Inbox: e.Inbox, Rows: rows, At: v.ModTime}
		if now := time.Now(); !v.ModTime.After(t.looked[e.Path]) && current(e.Path, v.File) {
			s.At = now
		}
		if t.observe(ctx, s) {
			t.look(ctx, e.Team, e.Inbox)
		}
	}
}

// current reports whether a file is what stands at path now.
func current(path string, f *os.File) bool {
	now, err := os.Lstat(path)
	if err != nil {
		return false
	}
	was, err := f.Stat()
	return err == nil && os.SameFile(was, now) && was.ModTime().Equal(now.ModTime()) && was.Size() == now.Size()
}

// look records what stands in an inbox file now.
func (t *Tap) look(ctx context.Context, name, inboxName string) {
	team := t.team(ctx, name)
	if team == nil {
		return
	}
	box, err := inbox.Open(team, inboxName, nil) // reading takes no lock
	if err != nil {
		t.warn(ctx, err)
		return
	}
	for range 3 {
		at := time.Now()
		rows, err := box.Read(ctx)
		s := Snapshot{Team: t.instance[name], Inbox: inboxName, Rows: rows, At: at, Done: time.Now()}
		t.looked[box.Path()] = s.Done
		switch {
		case errors.Is(err, inbox.ErrEmpty):
		case errors.Is(err, inbox.ErrMissing):
			s.Gone = true
		case errors.Is(err, teams.ErrTeamGone):
			return // the event of that is on its way
		case err != nil:
			t.warn(ctx, err)
			return
		}
		if !t.observe(ctx, s) {
			return
		}
	}
}

// observe records a snapshot, and says whether to look again.
func (t *Tap) observe(ctx context.Context, s Snapshot) (again bool) {
	s.Root = t.opts.Root.Path()
	o, err := t.opts.Journal.Observe(ctx, s)
	if err != nil {
		t.warn(ctx, err)
		return false
	}
	return len(o.Again) > 0
}

// team returns a team that is open, nil where it cannot be opened.
func (t *Tap) team(ctx context.Context, name string) *teams.Team {
	if team := t.teams[name]; team != nil {
		if t.instance[name].CreatedAt != 0 {
			return team
		}
		t.forget(name)
	}
	team, err := t.opts.Root.Team(name)
	if err != nil {
		if !errors.Is(err, teams.ErrTeamGone) {
			t.warn(ctx, err)
		}
		return nil
	}
	t.teams[name] = team
	t.instance[name] = teams.Instance{Team: name}
	c, err := team.Config(ctx)
	switch {
	case err == nil:
		t.instance[name] = c.Instance()
	case !errors.Is(err, teams.ErrTeamGone) && !errors.Is(err, fs.ErrNotExist):
		t.warn(ctx, err)
	}
	return team
}

func (t *Tap) forget(name string) {
	if team := t.teams[name]; team != nil {
		_ = team.Close() // nothing was written through it
	}
	delete(t.teams, name)
	delete(t.instance, name)
}

func (t *Tap) warn(ctx context.Context, err error) {
	if ctx.Err() == nil {
		t.opts.Warn(err)
	}
}
