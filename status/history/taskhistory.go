package history

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/view"
)

// TaskHistory returns the history of tasks; see [api.Bridge].
func (l *TaskLists) TaskHistory(ctx context.Context, q api.TaskHistoryQuery) (h api.TaskHistory, err error) {
	h.Changes = []api.TaskChange{}
	if q.TaskQuery, err = l.ofSessions(ctx, q.TaskQuery); err != nil {
		return h, err
	}
	who := q.Who
	q.Who = "" // an earlier owner may have no tasks now
	t, missing := l.readTasks(ctx, q.TaskQuery)
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
	recorded, err := j.Tasks.ChangedLists(ctx, root.Path())
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
	if err := l.rec.LookAtTasks(ctx, living...); err != nil { // include the latest changes
		return h, err
	}
	if query.Who = q.Who; q.Who != "" && t != nil {
		t.q.Who, t.name = q.Who, q.Who
		missing = t.check(ctx) // check also finds the spelling of the name
		query.Who = t.name
	}
	changes, more, err := j.Tasks.Changes(ctx, query)
	if err != nil {
		return h, err
	}
	if len(changes) == 0 && missing != nil {
		return h, missing
	}
	h.More = more
	if since, err := j.Tasks.RecordedSince(ctx, root.Path()); err != nil {
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
