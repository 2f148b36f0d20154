package history

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/uuid"

	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/tasks"
	"teambridge/teams/watch"
)

// shortSession is the length of a sufficient prefix of a session id. Names of teams have it, too.
const shortSession = 8

// taskReader answers a query for tasks.
type taskReader struct {
	q    api.TaskQuery
	root *teams.Root

	all  map[string]tasks.List // by name
	lead map[string]string     // the session that leads a list's team; "" if there is none
	name string                // Who as the member spells it
}

// Tasks returns tasks of Claude Code; see [api.Bridge].
func (l *TaskLists) Tasks(ctx context.Context, q api.TaskQuery) (api.Tasks, error) {
	t, err := l.readTasks(ctx, q)
	if err != nil {
		return api.Tasks{}, err
	}
	return t.found(), nil
}

// FollowTasks yields tasks as they change; see [api.Bridge].
func (l *TaskLists) FollowTasks(ctx context.Context, q api.TaskQuery) iter.Seq2[api.Tasks, error] {
	return func(yield func(api.Tasks, error) bool) {
		if err := l.followTasks(ctx, q, func(t api.Tasks) bool { return yield(t, nil) }); err != nil && !errors.Is(err, errEnough) {
			yield(api.Tasks{}, err)
		}
	}
}

func (l *TaskLists) followTasks(ctx context.Context, q api.TaskQuery, tell func(api.Tasks) bool) (err error) {
	t, err := l.readTasks(ctx, q)
	if err != nil {
		return err
	}
	w := watch.New(watch.Options{Root: t.root.Path(), Tasks: true, Only: t.watches, Warn: l.Opts.Warn})
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // when ctx ends, Next must report that, and not the end of the watcher
	ended := make(chan error, 1)
	go func() { ended <- w.Run(watching) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	over, end := context.WithCancel(ctx) // ends before an event that is not there yet
	end()
	before := t.found()
	for more := tell(before); more; {
		// Several writes to a list cause one read.
		changed := map[string]bool{}
		for wait := ctx; ; wait = over {
			e, err := w.Next(wait)
			if err != nil && len(changed) > 0 {
				break
			}
			if err != nil {
				return err
			}
			e.Close()
			changed[e.Team] = true
		}
		for name := range changed {
			if err := t.read(ctx, name); err != nil {
				return err
			}
		}
		if now := t.found(); !reflect.DeepEqual(before, now) {
			before, more = now, tell(now)
		}
	}
	return errEnough
}

// readTasks reads the lists that a query selects.
func (l *TaskLists) readTasks(ctx context.Context, q api.TaskQuery) (*taskReader, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return nil, err
	}
	q.Who = strings.TrimPrefix(q.Who, "#")
	t := &taskReader{q: q, root: root, all: map[string]tasks.List{}, lead: map[string]string{}, name: q.Who}
	switch {
	case q.Team != "" && q.Session != "":
		return nil, api.Decide(api.CodeUsage, "omit one of them", "a team and a session were given")
	case q.Session != "" && len(q.Session) < shortSession:
		return nil, api.Decide(api.CodeInvalid, "give its id, or the first 8 characters of it", "%q is not the id of a session", q.Session)
	}
	if t.q, err = l.ofSessions(ctx, q); err != nil {
		return nil, err
	}
	t.name = t.q.Who
	names, err := root.TaskLists()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if t.watches(name) {
			if err := t.read(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	if err := t.check(ctx); err != nil {
		return nil, err
	}
	return t, nil
}

// ofSessions translates a query for the team of the sessions: each session has a list. Panes have none.
func (l *TaskLists) ofSessions(ctx context.Context, q api.TaskQuery) (api.TaskQuery, error) {
	if panes, err := l.Reserved(q.Team, pane.Team); err != nil || panes {
		return q, cmp.Or(err, api.Decide(api.CodeNotFound, "see those of all teams and sessions with: teambridge tasks --all", "%s have no list of tasks", q.Team))
	}
	if of, err := l.OfSessions(q.Team); err != nil || !of {
		return q, err
	}
	q.Team = ""
	if some, err := l.FindSessions(ctx, []string{q.Who}); q.Who != "" && err == nil {
		q.Session, q.Who = some[0].Ref.ID, ""
	}
	return q, nil
}

// watches reports whether a query could select a list.
func (t *taskReader) watches(list string) bool { return t.q.Team == "" || t.q.Team == list }

// read reads a list, and finds its session.
func (t *taskReader) read(ctx context.Context, name string) error {
	delete(t.all, name)
	var total int64
	for _, l := range t.all {
		total += l.Bytes
	}
	if total > tasks.MaxTotal { // the limit is also for all lists together
		t.all[name] = tasks.List{Name: name, Problems: []error{&tasks.Error{Path: filepath.Join(t.root.Path(), "tasks", name), Err: tasks.ErrTooMany}}}
		return nil
	}
	list, err := tasks.Read(ctx, t.root, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, teams.ErrBadName):
		return nil
	case ctx.Err() != nil:
		return err
	case err != nil: // other lists may be readable
		list = tasks.List{Name: name, Problems: []error{err}}
	}
	t.all[name] = list
	t.lead[name] = ""
	if team, err := t.root.Team(name); err == nil {
		if c, err := team.Config(ctx); err == nil { // the tasks do not depend on it
			t.lead[name] = c.LeadSessionID
		}
		return team.Close()
	}
	return nil
}

// check returns an error if the team or session does not exist, or if no owner or task has the name.
func (t *taskReader) check(ctx context.Context) error {
	if _, ok := t.all[t.q.Team]; t.q.Team != "" && !ok {
		team, err := t.root.Team(t.q.Team)
		if err != nil {
			return err
		}
		if err := team.Close(); err != nil {
			return err
		}
	}
	if t.q.Session != "" && len(t.lists()) == 0 {
		living, err := t.root.Sessions(ctx)
		if err == nil && !slices.ContainsFunc(living, func(s teams.Session) bool { return strings.HasPrefix(s.Session, t.q.Session) }) {
			err = api.Decide(api.CodeNotFound, "see those that live with: teambridge sessions", "the session %s does not run, and has no tasks", t.q.Session)
		}
		if err != nil {
			return err
		}
	}
	if t.q.Who == "" || len(t.found().Tasks) > 0 {
		return nil
	}
	names := []string{t.q.Team} // a team may have no list
	for _, list := range t.lists() {
		names = append(names, list.Name)
	}
	for _, name := range names {
		team, err := t.root.Team(name)
		if err != nil {
			continue // a session's list, or an ended team
		}
		member, err := team.Resolve(ctx, t.q.Who)
		if cerr := team.Close(); cerr != nil {
			return cerr
		}
		if err == nil {
			t.name = member // a member may have no tasks
			return nil
		}
	}
	return api.Decide(api.CodeNotFound, "see all with: teambridge tasks --all", "no task has the id %q or an owner of that name", t.q.Who)
}

// lists returns the selected lists, sorted by name.
func (t *taskReader) lists() (lists []tasks.List) {
	for _, name := range slices.Sorted(maps.Keys(t.all)) {
		if t.watches(name) && (t.q.Session == "" || strings.HasPrefix(t.session(name), t.q.Session)) {
			lists = append(lists, t.all[name])
		}
	}
	return lists
}

// session returns the session of a list, or the session that leads the list's team. It is "" if neither is known.
func (t *taskReader) session(list string) string {
	if isSession(list) {
		return list
	}
	return t.lead[list]
}

// isSession reports whether a list's name is the id of a session.
func isSession(list string) bool { return len(list) == 36 && uuid.Validate(list) == nil }

// found returns the selected tasks.
func (t *taskReader) found() api.Tasks {
	found := api.Tasks{Tasks: []api.Task{}}
	for _, list := range t.lists() {
		for _, p := range list.Problems {
			found.Problems = append(found.Problems, view.Explain(p))
		}
		for _, task := range list.Tasks {
			owner, _ := teams.Split(task.Owner)
			if task.Internal || t.q.Who != "" && !slices.Contains([]string{task.ID, task.Owner, owner}, t.name) {
				continue
			}
			one := api.Task{
				List: list.Name, Session: t.session(list.Name), ID: task.ID,
				Subject: task.Subject, Description: task.Description, ActiveForm: task.ActiveForm, Status: task.Status, Owner: task.Owner,
				Blocks: task.Blocks, BlockedBy: task.BlockedBy, WaitsFor: task.WaitsFor, Since: task.Changed, Metadata: task.Metadata,
			}
			if !isSession(list.Name) {
				one.Team = list.Name
			}
			found.Tasks = append(found.Tasks, one)
		}
	}
	return found
}
