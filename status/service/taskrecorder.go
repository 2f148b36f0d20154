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

// taskRecorder records the changes of tasks while a service runs. It reads a list only when the kernel reports a
// write, or when its history is requested.
type taskRecorder struct {
	*shared
	changed func(list string) // is called when a list may have changed

	mu    sync.Mutex // held while lists are read and recorded
	began bool       // the lists were recorded at the start

	partial map[string]bool // lists that the last look could not read completely
}

// run records changes after begin until ctx ends. The watcher first reports all existing lists, so nothing between
// begin and run is missed.
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
		// Use at most half of a core, even for a large list that is written all the time.
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

// eventsWithin is how late the kernel and package watch may report a change.
const eventsWithin = time.Second

// end records that the history is complete up to now, less eventsWithin.
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

// begin records the changes since the last service. Their times are unknown.
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

// look records the present content of lists.
func (r *taskRecorder) look(ctx context.Context, names ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.began {
		return nil // the next service records it
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

// read reads a list. A missing list has no tasks.
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
