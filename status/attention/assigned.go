package attention

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"teambridge/relay/pane"
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

// TasksChanged reports that a task list has changed or was removed.
func (c *Cache) TasksChanged(list string) {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	if c.listsChanged == nil {
		c.listsChanged = map[string]bool{}
	}
	c.listsChanged[list] = true
}

// lookForTasks marks as stale the teams whose task lists have changed. c.mu is held.
func (c *Cache) lookForTasks() {
	c.reporting.Lock()
	defer c.reporting.Unlock()
	for list := range c.listsChanged {
		delete(c.lists, list)
		if e := c.entries[list]; e != nil {
			e.stale = true
		}
		// A list without a team belongs to a session.
		if e := c.entries[pane.SessionTeam]; e != nil {
			e.stale = true
		}
	}
	c.listsChanged = nil
}

// tasksIn reads a task list. With [Options.TasksNotified], it reads the list once for each change. c.mu is held.
func (c *Cache) tasksIn(ctx context.Context, name string) (l taskList, err error) {
	if l, ok := c.lists[name]; ok {
		return l, nil
	}
	list, err := tasks.Read(ctx, c.opts.Root, name)
	switch {
	case ctx.Err() != nil:
		return l, err
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, teams.ErrBadName):
	default: // the page of the tasks shows why a list cannot be read
		l.there, l.inProgress = true, map[string]assigned{}
	}
	for _, t := range list.Tasks {
		owner, _ := teams.Split(t.Owner)
		if t.Status != tasks.InProgress || t.Internal || t.Changed.Before(l.inProgress[owner].changed) {
			continue
		}
		what := t.ActiveForm
		if what == "" {
			what = t.Subject
		}
		l.inProgress[owner] = assigned{t.ID, excerpt.Line(what, maxTask), t.Changed}
	}
	if c.opts.TasksNotified {
		if c.lists == nil {
			c.lists = map[string]taskList{}
		}
		c.lists[name] = l
	}
	return l, nil
}

// readAssigned reads which tasks the members of a team have in progress. c.mu is held.
func (c *Cache) readAssigned(ctx context.Context, e *cachedTeam) error {
	l, err := c.tasksIn(ctx, e.team.Team)
	e.assigned = func(member string) (string, assigned) { return e.team.Team, l.inProgress[member] }
	if err != nil || !l.there {
		e.assigned = nil
	}
	return err
}

// readOwn does the same for sessions. Each session has its own list. c.mu is held.
func (c *Cache) readOwn(ctx context.Context, e *cachedTeam, ids map[string]string) error {
	own := map[string]taskList{}
	for _, id := range ids {
		l, err := c.tasksIn(ctx, id)
		if err != nil {
			return err
		}
		own[id] = l
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
