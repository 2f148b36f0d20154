package watch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Limits of open versions: of the inbox of one event, and of all waiting events.
const (
	MaxVersions = 32
	MaxFiles    = 256
)

// ErrStopped is the error of [Watcher.Next] once [Watcher.Run] has returned.
var ErrStopped = errors.New("watch: stopped")

// key identifies the events to join. A team that was made again has another key.
type key struct {
	team  *team
	kind  Kind // Changed for all events of an inbox
	inbox string
}

// entry is a waiting event.
type entry struct {
	key
	event Event
	due   time.Time
	last  stamp // the newest version, kept or not
}

// queue holds the waiting events, at most one for each key. Run adds events, and Next takes them.
type queue struct {
	settle, maxSettle time.Duration

	mu      sync.Mutex
	waiting []*entry // in the order of their first changes
	byKey   map[key]*entry
	files   int // open files in waiting

	wake chan struct{} // an event may now be due earlier
	done chan struct{} // closed by stop
}

func newQueue(settle, maxSettle time.Duration) *queue {
	return &queue{
		settle:    settle,
		maxSettle: maxSettle,
		byKey:     map[key]*entry{},
		wake:      make(chan struct{}, 1),
		done:      make(chan struct{}),
	}
}

// file records a new state of a file.
func (q *queue) file(k key, path string, s observation) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entry(k, path, s.at)
	e.event.Kind = k.kind
	e.due = earlier(e.event.At.Add(q.maxSettle), s.at.Add(q.settle))
	if k.kind == Changed {
		q.keep(e, s)
	}
}

// removed records that an inbox was removed.
func (q *queue) removed(k key, path string, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entry(k, path, at)
	e.markRemoved()
	e.due = earlier(e.event.At.Add(q.maxSettle), at.Add(q.settle))
}

// team records that a team has appeared.
func (q *queue) team(t *team, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.entry(key{team: t, kind: TeamAppeared}, t.dir.path, at)
}

// gone records that a team was removed. Kept versions of its inboxes are delivered first. If the team's
// appearance was not delivered yet and no version is kept, all its events are dropped; otherwise short-lived
// teams would fill the queue.
func (q *queue) gone(t *team, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	told := q.byKey[key{team: t, kind: TeamAppeared}] == nil
	kept := false
	q.drop(func(e *entry) bool {
		if e.team != t || e.kind == TeamAppeared {
			return false
		}
		if e.kind != Changed || !told && len(e.event.Versions) == 0 {
			return true
		}
		e.markRemoved()
		e.due = at
		kept = true
		return false
	})
	if !told && !kept {
		q.drop(func(e *entry) bool { return e.team == t })
		return
	}
	q.entry(key{team: t, kind: TeamGone}, t.dir.path, at)
	q.poke()
}

// hurry makes the event of a file due at once, because the writer has finished.
func (q *queue) hurry(k key, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.byKey[k]; e != nil && e.due.After(at) {
		e.due = at
		q.poke()
	}
}

// holds reports whether an event for k is waiting, and whether it has the version id open.
func (q *queue) holds(k key, id identity) (waits, open bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.byKey[k]
	if e == nil {
		return false, false
	}
	n := len(e.event.Versions)
	return true, n > 0 && !e.event.Unkept && e.event.Versions[n-1].id == id
}

// entry returns the entry of k. A new entry is due at once.
func (q *queue) entry(k key, path string, at time.Time) *entry {
	e := q.byKey[k]
	if e == nil {
		e = &entry{key: k, due: at, event: Event{Kind: k.kind, Team: k.team.name, Inbox: k.inbox, Path: path, At: at, dir: k.team.id}}
		q.byKey[k] = e
		q.waiting = append(q.waiting, e)
		q.poke()
	}
	return e
}

// markRemoved records that the inbox of an entry was removed.
func (e *entry) markRemoved() {
	if e.event.Unkept {
		e.event.Missed++
	}
	e.event.Kind, e.event.Unkept, e.last = Removed, false, stamp{}
}

// keep adds a version to an entry, within the limits.
func (q *queue) keep(e *entry, s observation) {
	last := e.last
	e.last = s.stamp
	n := len(e.event.Versions)
	if n > 0 && !e.event.Unkept && e.event.Versions[n-1].id == s.stamp.id {
		// The file was written in place: one descriptor shows its whole content.
		v := &e.event.Versions[n-1]
		v.Size, v.ModTime = s.stamp.size, time.Unix(0, s.stamp.modTime)
		s.close()
		return
	}
	if e.event.Unkept {
		if last.id != s.stamp.id {
			e.event.Missed++
		}
	} else if n > 0 {
		e.event.Versions[n-1].outgrown = s.stamp.size >= e.event.Versions[n-1].Size
	}
	e.event.Unkept = s.file == nil
	if s.file == nil {
		return
	}
	e.event.Versions = append(e.event.Versions, Version{
		File: s.file, Size: s.stamp.size, ModTime: time.Unix(0, s.stamp.modTime), id: s.stamp.id,
	})
	q.files++
	if len(e.event.Versions) > MaxVersions || q.files > MaxFiles {
		q.thin(e)
	}
}

// thin closes one version of an entry.
func (q *queue) thin(e *entry) {
	vs := e.event.Versions
	i := slices.IndexFunc(vs, func(v Version) bool { return v.outgrown })
	if i < 0 {
		i = 0
		if len(vs) == 1 {
			e.event.Unkept = true
		} else {
			e.event.Missed++
		}
	}
	vs[i].File.Close()
	e.event.Versions = slices.Delete(vs, i, i+1)
	q.files--
}

// drop removes the entries that which selects.
func (q *queue) drop(which func(*entry) bool) {
	q.waiting = slices.DeleteFunc(q.waiting, func(e *entry) bool {
		if !which(e) {
			return false
		}
		q.files -= len(e.event.Versions)
		e.event.Close()
		delete(q.byKey, e.key)
		return true
	})
}

// next waits for the next event.
func (q *queue) next(ctx context.Context) (Event, error) {
	for {
		e, wait, err := q.take(time.Now())
		if err != nil {
			return Event{}, err
		}
		if e != nil {
			return e.event, nil
		}
		var settled <-chan time.Time
		if wait > 0 {
			settled = time.After(wait)
		}
		select {
		case <-settled:
		case <-q.wake:
		case <-q.done:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			q.mu.Lock()
			q.poke() // another caller may now have to wait for the same event
			q.mu.Unlock()
			return Event{}, err
		}
	}
}

// take removes and returns the first due entry. If none is due, it returns how long to wait for one; 0 if
// none is waiting.
func (q *queue) take(now time.Time) (*entry, time.Duration, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-q.done:
		return nil, 0, ErrStopped
	default:
	}
	var wait time.Duration
	for i, e := range q.waiting {
		if left := e.due.Sub(now); left > 0 {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		delete(q.byKey, e.key)
		q.files -= len(e.event.Versions)
		if len(q.waiting) > 0 {
			q.poke()
		}
		return e, 0, nil
	}
	return nil, wait, nil
}

// stop drops all waiting events, and ends all calls of next.
func (q *queue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.done)
	q.drop(func(*entry) bool { return true })
}

// poke wakes one caller of next.
func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
