package bridge

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/tasks"
	"teambridge/teams/watch"
)

// taskRecorder records what becomes of tasks while a service runs. It looks at a list when the kernel tells
// that it was written, and at no other time, except when somebody asks for its history.
type taskRecorder struct {
	*Service

	mu    sync.Mutex // from a look at lists until it is recorded
	began bool       // what was there at the start is recorded

	partial map[string]bool // lists of which the last look did not find all
}

// run records after begin until ctx ends. The watcher tells first of what is there, so nothing is missed in between.
func (r *taskRecorder) run(ctx context.Context) error {
	w := watch.New(watch.Options{Root: r.opts.Root.Path(), Tasks: true, EventsAlone: true, Warn: r.Service.warn("recording tasks")})
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(watching) }()
	defer func() {
		stop()
		<-ended
	}()
	for {
		e, err := w.Next(ctx)
		if err != nil {
			break
		}
		e.Close()
		began := time.Now()
		if err := r.look(ctx, e.Team); err != nil && ctx.Err() == nil {
			r.Service.warn("recording tasks")(err)
		}
		r.states.TasksChanged(e.Team)
		signals.Send(r.dirty)
		// A list that is large, and written all the time, leaves half a core to others.
		select {
		case <-ctx.Done():
		case <-time.After(time.Since(began)):
		}
	}
	if ctx.Err() == nil {
		return errors.New("watching ended")
	}
	r.end(context.WithoutCancel(ctx))
	return nil
}

// eventsWithin is how late the kernel and package watch may tell of a change.
const eventsWithin = time.Second

// end notes that everything up to now was recorded, but for what was just changed.
func (r *taskRecorder) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastLookWithin)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.began {
		return
	}
	if err := r.journal.TasksKnownUntil(ctx, r.opts.Root.Path(), time.Now().Add(-eventsWithin)); err != nil {
		r.Service.warn("recording tasks")(err)
	}
}

// begin records what has changed since the last service, at some time before now.
func (r *taskRecorder) begin(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, err := r.opts.Root.TaskLists()
	if err != nil {
		return err
	}
	known, err := r.journal.TaskLists(ctx, r.opts.Root.Path())
	if err != nil {
		return err
	}
	names = append(names, known...)
	slices.Sort(names)
	var looks []journal.TaskLook
	for _, name := range slices.Compact(names) {
		look, err := r.read(ctx, name)
		if err != nil {
			return err
		}
		look.Gap = true
		looks = append(looks, look)
	}
	if len(looks) == 0 { // from now on, everything is new
		err = r.journal.TasksKnownUntil(ctx, r.opts.Root.Path(), time.Now())
	} else {
		_, err = r.journal.ObserveTasks(ctx, r.opts.Root.Path(), looks...)
	}
	r.began = err == nil
	return err
}

// look records what is in lists now.
func (r *taskRecorder) look(ctx context.Context, names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.began {
		return nil // the next service tells
	}
	for _, name := range names {
		look, err := r.read(ctx, name)
		if err == nil {
			_, err = r.journal.ObserveTasks(ctx, r.opts.Root.Path(), look)
		}
		if err != nil {
			return err
		}
		if !look.Partial {
			delete(r.partial, name)
		}
	}
	return nil
}

// read reads a list. One that is not there has no tasks.
func (r *taskRecorder) read(ctx context.Context, name string) (journal.TaskLook, error) {
	look := journal.TaskLook{List: name}
	list, err := tasks.Read(ctx, r.opts.Root, name)
	switch {
	case ctx.Err() != nil:
		return look, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, teams.ErrBadName):
	case err != nil:
		look.Partial = true
	}
	look.At, look.Partial, look.Unread = time.Now(), look.Partial || list.Partial, list.Unread
	if look.Missed = r.partial[name] && !look.Partial; look.Partial {
		r.partial[name] = true
	}
	for _, t := range list.Tasks {
		if !t.Internal {
			look.Tasks = append(look.Tasks, journal.Task{ID: t.ID, Subject: t.Subject, Status: t.Status, Owner: t.Owner, BlockedBy: t.BlockedBy, Changed: t.Changed})
		}
	}
	return look, nil
}

// TaskHistory returns what became of tasks; see [api.Bridge].
func (l *TaskLists) TaskHistory(ctx context.Context, q api.TaskHistoryQuery) (h api.TaskHistory, err error) {
	h.Changes = []api.TaskChange{}
	who := q.Who
	q.Who = "" // who had a task need not have one now
	t, missing := l.tasking(ctx, q.TaskQuery)
	if missing != nil && view.Explain(missing).Code != api.CodeNotFound {
		return h, missing
	}
	q.Who = strings.TrimPrefix(who, "#")
	root, err := l.Opts.Root()
	if err != nil {
		return h, err
	}
	j, err := l.Journal(ctx)
	if err != nil {
		return h, err
	}
	if j == nil {
		return h, missing
	}
	recorded, err := j.ChangedTaskLists(ctx, root.Path())
	if err != nil {
		return h, err
	}
	query := journal.TaskQuery{Root: root.Path(), Before: q.Before, Limit: min(cmp.Or(q.Limit, api.TaskChanges), api.MostTaskChanges)}
	var living []string
	if t != nil {
		for _, list := range t.lists() {
			living = append(living, list.Name)
		}
	}
	if q.Team != "" || q.Session != "" {
		query.Lists = slices.Clone(living)
		for _, name := range recorded {
			if name == q.Team || q.Session != "" && isSession(name) && strings.HasPrefix(name, q.Session) {
				query.Lists = append(query.Lists, name)
			}
		}
		if missing != nil && len(query.Lists) == 0 {
			return h, missing
		}
	}
	if rec := l.opts.Recording; rec != nil { // what was just changed, too
		if err := rec.LookAtTasks(ctx, living...); err != nil {
			return h, err
		}
	}
	if query.Who = q.Who; q.Who != "" && t != nil {
		t.q.Who, t.name = q.Who, q.Who
		missing = t.known(ctx) // also finds how the name is spelled
		query.Who = t.name
	}
	changes, more, err := j.TaskChanges(ctx, query)
	if err != nil {
		return h, err
	}
	if len(changes) == 0 && missing != nil {
		return h, missing
	}
	h.More = more
	if since, err := j.TasksRecordedSince(ctx, root.Path()); err != nil {
		return h, err
	} else if !since.IsZero() {
		h.Since = &since
	}
	for _, c := range changes {
		one := api.TaskChange{Seq: c.Seq, List: c.List, ID: c.ID, Subject: c.Subject, What: c.What, Was: c.Was, Now: c.Now, At: c.At}
		if !c.After.IsZero() {
			one.After = &c.After
		}
		if isSession(c.List) {
			one.Session = c.List
		} else {
			one.Team = c.List
		}
		h.Changes = append(h.Changes, one)
	}
	return h, nil
}
