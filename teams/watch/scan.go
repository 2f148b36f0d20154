package watch

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"teambridge/teams/sharedfile"
)

// team is one lifetime of a team's directory.
type team struct {
	name    string
	id      identity // identifies its directory as it appeared
	dir     *dir
	inboxes *dir // equal to dir for a task list
	config  file
	files   map[string]*file // inboxes, by name
}

// dir is a watched directory.
type dir struct {
	path  string
	team  *team // nil for the root and for teams
	here  bool  // it existed at the last check
	stamp stamp
	young bool // it may change again without changing its stamp

	watched  bool // the kernel reports its events
	suspect  bool // a sweep found a change, and no event has come since
	misses   int  // how many sweeps in a row found a change first
	noEvents bool // the kernel reports no events for it
}

// polled reports whether the directory must be polled.
func (d *dir) polled() bool { return d.here && (!d.watched || d.noEvents) }

// suspect records that a sweep found a change in a directory before any event came. It makes the next sweep
// come soon, because other changes may have no events either.
func (w *Watcher) suspect(d *dir) {
	d.suspect = true
	w.files = 1 // the next sweep checks all files
	w.again(w.opts.resweep)
}

// file is an inbox or a config.json.
type file struct {
	name  string
	stamp stamp
	young bool // it may change again without changing its stamp
	torn  bool // it was written in place, and its lock was not released since
}

// cause is the reason to check a file.
type cause int

const (
	swept    cause = iota // a sweep, without a known change
	hinted                // an event may concern the file
	replaced              // an event: another file now has this name
	written               // an event: the file was written in place
	unlocked              // the writer has released the lock
)

// handle checks the files and directories that an event concerns.
func (w *Watcher) handle(e fsnotify.Event) {
	if e.Name == "" {
		return // only the end of a watch
	}
	d, ok := w.dirs[filepath.Dir(e.Name)]
	if !ok {
		if d, ok = w.dirs[e.Name]; ok { // an event of a directory about itself
			w.revisit(d)
		}
		return
	}
	d.suspect, d.misses = false, 0
	name := filepath.Base(e.Name)
	left := e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)
	switch {
	case d == w.root:
		if name == filepath.Base(w.top.path) {
			w.renew(w.top, left)
			w.scanTop(true, false)
		}
	case d == w.top:
		if e.Has(fsnotify.Create) || left {
			w.teamEvent(name, left)
		}
	case d != d.team.inboxes:
		w.memberEvent(d.team, name, e)
	default:
		if inbox, c, ok := inboxEvent(name, e); ok {
			w.look(d.team, inbox, c)
		}
	}
}

// teamEvent handles the appearance or disappearance of a name below teams. After a disappearance, the name
// may already belong to another team.
func (w *Watcher) teamEvent(name string, left bool) {
	t := w.teams[name]
	switch {
	case t == nil:
		w.appear(name)
	case left:
		w.gone(t)
		w.appear(name)
	default:
		t.dir.watched, t.inboxes.watched = false, false
		w.scan(t, false)
	}
}

// memberEvent handles an event in a team's directory.
func (w *Watcher) memberEvent(t *team, name string, e fsnotify.Event) {
	switch name {
	case "inboxes":
		left := e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)
		if left || e.Has(fsnotify.Create) {
			w.renew(t.inboxes, left)
			w.scanInboxes(t, false)
		}
	case "config.json", "config.json.lock":
		if c, ok := causeOf(e, name == "config.json.lock"); ok {
			w.lookConfig(t, c)
		}
	}
}

// renew makes the next visit of d set the watch again. If d was moved away, the watch has moved with it and
// would report events under the old name.
func (w *Watcher) renew(d *dir, left bool) {
	if left && w.source != nil {
		w.source.Remove(d.path) // mostly the watch is gone already, which does not matter
	}
	d.watched = false
}

// revisit checks a directory after an event about itself.
func (w *Watcher) revisit(d *dir) {
	d.watched = false
	switch {
	case d.team == nil:
		w.scanTop(false, false)
	case d == d.team.dir: // in a task list, the two are the same
		w.scan(d.team, false)
	default:
		w.scanInboxes(d.team, false)
	}
}

// inboxEvent returns the inbox that a file event concerns, and the cause to check it.
func inboxEvent(name string, e fsnotify.Event) (inbox string, c cause, ok bool) {
	name, lock := strings.CutSuffix(name, ".lock")
	if inbox, ok = inboxName(name); !ok {
		return "", 0, false
	}
	c, ok = causeOf(e, lock)
	return inbox, c, ok
}

func causeOf(e fsnotify.Event, lock bool) (c cause, ok bool) {
	switch {
	case lock && e.Has(fsnotify.Create):
		return hinted, true
	case lock && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)):
		return unlocked, true
	case lock:
		return 0, false // the holder has updated its lock
	case e.Has(fsnotify.Create):
		return replaced, true
	case e.Has(fsnotify.Write):
		return written, true
	}
	return hinted, true
}

// inboxName returns the inbox whose file has this name.
func inboxName(name string) (string, bool) {
	inbox, ok := strings.CutSuffix(name, ".json")
	return inbox, ok && inbox != "" && inbox[0] != '.'
}

// scanTop checks the root and teams. With all, it lists teams even if the time of the directory is unchanged.
func (w *Watcher) scanTop(all, sweep bool) {
	rootHeard, topHeard := sweep && w.root.watched, sweep && w.top.watched
	if _, ok := w.visit(w.root); !ok {
		w.leave(w.top)
		w.allGone()
		return
	}
	was, id := w.top.here, w.top.stamp.id
	changed, ok := w.visit(w.top)
	if was != ok && rootHeard {
		w.suspect(w.root)
	}
	// Another directory may have teams of the same names. A poll finds that itself.
	if !ok || was && w.top.stamp.id != id && w.source != nil {
		w.allGone()
	}
	if !ok {
		return
	}
	if !changed && !all {
		return
	}
	names, ok := w.list(w.top)
	if !ok {
		return
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	// Those that are gone come first: a renamed directory has the watch of its old name, which ends here.
	for name, t := range w.teams {
		s, err := observeDir(t.dir.path, w.root.path)
		if !there[name] || err == nil && s.stamp.id != t.dir.stamp.id {
			w.gone(t)
			if topHeard {
				w.suspect(w.top)
			}
		}
	}
	for _, name := range names {
		if w.teams[name] == nil && w.appear(name) && topHeard {
			w.suspect(w.top)
		}
	}
}

// appear adds the team of a name, if it exists.
func (w *Watcher) appear(name string) bool {
	if name == "" || name[0] == '.' || !w.opts.Only(name) {
		return false
	}
	path := filepath.Join(w.top.path, name)
	s, err := observeDir(path, w.root.path)
	if err != nil {
		if !missing(err) {
			w.warn(path, fmt.Errorf("watch: team: %w", err))
		}
		return false
	}
	delete(w.warned, path)
	t := &team{
		name:   name,
		id:     s.stamp.id,
		config: file{name: "config.json"},
		files:  map[string]*file{},
	}
	t.dir = &dir{path: path, team: t, stamp: s.stamp} // not here yet, so that its first visit lists it
	if t.inboxes = t.dir; !w.opts.Tasks {
		t.inboxes = &dir{path: filepath.Join(path, "inboxes"), team: t}
	}
	w.teams[name] = t
	w.queue.team(t, s.at)
	// The current config.json belongs to the team's appearance.
	if c, err := observe(filepath.Join(path, t.config.name), false); err == nil && !w.opts.Tasks {
		t.config.stamp, t.config.young = c.stamp, c.young()
	}
	w.scan(t, false)
	return w.teams[name] == t
}

func (w *Watcher) allGone() {
	for _, t := range w.teams {
		w.gone(t)
	}
}

func (w *Watcher) gone(t *team) {
	delete(w.teams, t.name)
	w.leave(t.inboxes)
	w.leave(t.dir)
	inside := t.dir.path + string(filepath.Separator)
	maps.DeleteFunc(w.warned, func(what string, _ bool) bool {
		return strings.HasPrefix(strings.TrimPrefix(what, "read "), inside)
	})
	w.queue.gone(t, time.Now())
}

// scan checks all of a team.
func (w *Watcher) scan(t *team, sweep bool) {
	id := t.dir.stamp.id
	heard := t.dir.watched
	changed, ok := w.visit(t.dir)
	if !ok || t.dir.stamp.id != id {
		w.gone(t)
		if ok {
			w.appear(t.name)
		}
		if sweep && w.top.watched {
			w.suspect(w.top)
		}
		return
	}
	if t.inboxes == t.dir {
		w.scanFiles(t, changed, sweep && heard, sweep)
		return
	}
	if (changed || !w.passes(t.dir, sweep)) && w.lookConfig(t, swept) && sweep && heard {
		w.suspect(t.dir)
	}
	w.scanInboxes(t, sweep)
}

// passes reports whether to skip the files in d: the directory is unchanged, and events report changes of its
// files.
func (w *Watcher) passes(d *dir, sweep bool) bool { return sweep && w.quick && !d.polled() }

// scanInboxes checks the inboxes of a team.
func (w *Watcher) scanInboxes(t *team, sweep bool) {
	heard := sweep && t.inboxes.watched
	changed, ok := w.visit(t.inboxes)
	w.scanFiles(t, ok && changed, heard, sweep)
}

// scanFiles checks the inboxes of a team. With list, it also looks for new ones. heard means that the
// directory's events were reported.
func (w *Watcher) scanFiles(t *team, list, heard, sweep bool) {
	if !list && w.passes(t.inboxes, sweep) {
		return
	}
	found := false
	if list {
		names, _ := w.list(t.inboxes)
		for _, name := range names {
			if inbox, ok := inboxName(name); ok && t.files[inbox] == nil {
				found = w.look(t, inbox, swept) || found
			}
		}
	}
	for inbox := range t.files {
		found = w.look(t, inbox, swept) || found
	}
	if found && heard {
		w.suspect(t.inboxes)
	}
}

// look checks one inbox, and reports whether its state is new.
func (w *Watcher) look(t *team, inbox string, c cause) bool {
	path := filepath.Join(t.inboxes.path, inbox+".json")
	k := key{team: t, kind: Changed, inbox: inbox}
	f := t.files[inbox]
	if c == swept && f != nil && !(f.young && t.inboxes.polled()) {
		// Try the cheap check first: of a thousand inboxes, usually none has changed.
		if s, err := observe(path, false); err == nil && s.stamp == f.stamp {
			return false
		}
	}
	s, err := observe(path, true)
	switch {
	case missing(err):
		if f == nil {
			return false
		}
		delete(t.files, inbox)
		w.queue.removed(k, path, s.at)
		if c == unlocked {
			w.queue.hurry(k, s.at)
		}
		return true
	case err != nil:
		w.warn(path, fmt.Errorf("watch: inbox: %w", err))
		return false
	}
	delete(w.warned, path)
	if f == nil {
		f = &file{name: inbox + ".json"}
		t.files[inbox] = f
	}
	return w.note(k, path, f, s, c, t.inboxes.polled())
}

// lookConfig checks a team's config.json.
func (w *Watcher) lookConfig(t *team, c cause) bool {
	path := filepath.Join(t.dir.path, t.config.name)
	s, err := observe(path, false)
	if err != nil && !missing(err) {
		w.warn(path, fmt.Errorf("watch: team: %w", err))
		return false
	}
	if err == nil {
		delete(w.warned, path)
	}
	return w.note(key{team: t, kind: ConfigChanged}, path, &t.config, s, c, t.dir.polled())
}

// note queues an event for a file if it has changed, and reports whether it has.
func (w *Watcher) note(k key, path string, f *file, s observation, c cause, polled bool) bool {
	news := s.stamp != f.stamp
	if !news {
		waits, open := w.queue.holds(k, s.stamp.id)
		switch {
		case c == unlocked:
			// A reader may have read the file in the middle of a write in place.
			news = f.torn && !waits
		case f.young && !open:
			// The file may have changed within the tick of its stamp.
			news = c == replaced || c == written || c == swept && polled
		}
	}
	switch c {
	case written:
		f.torn = true
	case unlocked, replaced:
		f.torn = false
	}
	f.stamp, f.young = s.stamp, s.young()
	if news {
		w.queue.file(k, path, s)
	} else {
		s.close()
	}
	if c == unlocked {
		w.queue.hurry(k, s.at)
	}
	return news
}

// visit checks a directory and sets its watch. It reports whether the names in it must be listed, and whether
// it exists.
func (w *Watcher) visit(d *dir) (changed, ok bool) {
	limit := w.root.path
	if d == w.root {
		limit = ""
	}
	s, err := observeDir(d.path, limit)
	if err != nil {
		if !missing(err) {
			w.warn(d.path, fmt.Errorf("watch: %w", err))
		} else {
			delete(w.warned, d.path)
		}
		w.leave(d)
		return false, false
	}
	delete(w.warned, d.path)
	changed = !d.here || d.young || s.stamp != d.stamp
	if d.here && s.stamp.id != d.stamp.id {
		w.renew(d, true)
	}
	d.here, d.stamp, d.young = true, s.stamp, s.young()
	w.dirs[d.path] = d
	if !d.watched && w.source != nil {
		// The names must be listed after the watch is set, because files that were made before have no event.
		if err := w.source.Add(d.path); err == nil {
			d.watched, changed = true, true
		} else if isLimit(err) {
			w.warn("limit", fmt.Errorf("%w: %s: %w", ErrLimit, d.path, err))
		} else if !missing(err) {
			w.warn("read "+d.path, fmt.Errorf("watch: %s: %w: it is polled", d.path, err))
		}
	}
	return changed, true
}

// leave forgets a directory that was removed.
func (w *Watcher) leave(d *dir) {
	if !d.here {
		return
	}
	w.renew(d, true)
	d.here, d.stamp = false, stamp{}
	delete(w.dirs, d.path)
}

// list returns the names in a directory.
func (w *Watcher) list(d *dir) ([]string, bool) {
	f, err := sharedfile.Open(d.path)
	if err == nil {
		defer f.Close()
		var names []string
		if names, err = f.Readdirnames(-1); err == nil {
			delete(w.warned, "read "+d.path)
			return names, true
		}
	}
	d.young = true // list it again, even if its time does not change
	if !missing(err) {
		w.warn("read "+d.path, fmt.Errorf("watch: %w", err))
	}
	return nil, false
}
