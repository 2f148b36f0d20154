package service

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/signals"
	"teambridge/teams"
	"teambridge/teams/tasks"
	"teambridge/teams/watch"
)

// taskRecorder records what becomes of tasks while a service runs. It looks at a list when the kernel tells
// that it was written, and at no other time, except when somebody asks for its history.
type taskRecorder struct {
	*shared
	changed func(list string) // tells that what is shown of a list may have changed

	mu    sync.Mutex // from a look at lists until it is recorded
	began bool       // what was there at the start is recorded

	partial map[string]bool // lists that the last look could not read completely
}

// run records after begin until ctx ends. The watcher tells first of what is there, so nothing is missed in between.
func (r *taskRecorder) run(ctx context.Context) error {
	w := watch.New(watch.Options{Root: r.opts.Root.Path(), Tasks: true, EventsAlone: true, Warn: r.warn("recording tasks")})
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
			r.warn("recording tasks")(err)
		}
		r.changed(e.Team)
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
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.began {
		return
	}
	if err := r.journal.Tasks.KnownUntil(ctx, r.opts.Root.Path(), time.Now().Add(-eventsWithin)); err != nil {
		r.warn("recording tasks")(err)
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
	known, err := r.journal.Tasks.Lists(ctx, r.opts.Root.Path())
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
		err = r.journal.Tasks.KnownUntil(ctx, r.opts.Root.Path(), time.Now())
	} else {
		_, err = r.journal.Tasks.Observe(ctx, r.opts.Root.Path(), looks...)
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
			_, err = r.journal.Tasks.Observe(ctx, r.opts.Root.Path(), look)
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
