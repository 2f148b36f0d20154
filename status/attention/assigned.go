package attention

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/excerpt"
	"teambridge/teams/tasks"
)

// taskList is the part of one of Claude Code's task lists that an overview shows.
type taskList struct {
	there      bool
	inProgress map[string]assigned // tasks in progress, by owner
}

// assigned is a task in progress.
type assigned struct {
	id, what string
	changed  time.Time
}

// taskLists reads task lists. All its fields but news belong to the goroutine that holds Cache.mu.
type taskLists struct {
	opts  *Options
	known map[string]taskList // by name; empty without [Options.TasksNotified]

	mu   sync.Mutex
	news map[string]bool // lists that changed since the last refresh
}

// TasksChanged reports that a task list has changed or was removed.
func (l *taskLists) TasksChanged(list string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.news[list] = true
}

// changed returns the lists that have changed since its last call.
func (l *taskLists) changed() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := l.news
	l.news = map[string]bool{}
	for list := range news {
		delete(l.known, list)
	}
	return news
}

// read reads a task list. With [Options.TasksNotified], it reads the list once for each change.
func (l *taskLists) read(ctx context.Context, name string) (t taskList, err error) {
	if t, ok := l.known[name]; ok {
		return t, nil
	}
	list, err := tasks.Read(ctx, l.opts.Root, name)
	switch {
	case ctx.Err() != nil:
		return t, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, teams.ErrBadName):
	default: // the page of the tasks shows why a list cannot be read
		t.there, t.inProgress = true, map[string]assigned{}
	}
	for _, one := range list.Tasks {
		owner, _ := teams.Split(one.Owner)
		if one.Status != tasks.InProgress || one.Internal || one.Changed.Before(t.inProgress[owner].changed) {
			continue
		}
		t.inProgress[owner] = assigned{one.ID, excerpt.Line(cmp.Or(one.ActiveForm, one.Subject), maxTask), one.Changed}
	}
	if l.opts.TasksNotified {
		l.known[name] = t
	}
	return t, nil
}

// ofTeam reads which tasks the members of a team have in progress.
func (l *taskLists) ofTeam(ctx context.Context, e *cachedTeam) error {
	t, err := l.read(ctx, e.team.Team)
	e.assigned = func(member string) (string, assigned) { return e.team.Team, t.inProgress[member] }
	if err != nil || !t.there {
		e.assigned = nil
	}
	return err
}

// ofSessions does the same for sessions. Each session has its own list.
func (l *taskLists) ofSessions(ctx context.Context, e *cachedTeam, ids map[string]string) error {
	own := map[string]taskList{}
	for _, id := range ids {
		t, err := l.read(ctx, id)
		if err != nil {
			return err
		}
		own[id] = t
	}
	e.assigned = func(member string) (list string, a assigned) {
		id := ids[member]
		if !own[id].there {
			return "", a
		}
		for _, one := range own[id].inProgress { // the list is the session's, so its tasks are, too, whatever owner they name
			if !one.changed.Before(a.changed) {
				a = one
			}
		}
		return id, a
	}
	return nil
}

// assign sets the task that an agent works on, and the list of its tasks.
func (e *cachedTeam) assign(s *api.Status) {
	if e.assigned == nil {
		return
	}
	var a assigned
	if s.TaskList, a = e.assigned(s.Member); a.what != "" {
		s.Task, s.TaskID = a.what, a.id
	}
}
