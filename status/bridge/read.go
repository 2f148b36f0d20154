package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// Read returns messages that are in inboxes; see [api.Bridge].
func (l *Local) Read(ctx context.Context, team string, q api.Reading) (found api.Rows, err error) {
	if q.Limit < 0 {
		return found, api.Decide(api.CodeInvalid, "", "the limit %d is negative", q.Limit)
	}
	past, now, err := l.rowsOf(ctx, team, &q, &found)
	if err != nil {
		return found, err
	}
	all := map[string][]inbox.Row{}
	for _, inboxes := range []map[string][]inbox.Row{past, now} {
		for name, rows := range inboxes {
			all[name] = append(all[name], rows...)
		}
	}
	entries := inbox.Merge(all)
	after := -1
	if q.After != "" {
		ids := make([]string, len(entries))
		for i, e := range entries {
			ids[i] = e.ID()
		}
		id, err := view.WholeID(q.After, ids)
		if err != nil {
			return found, err
		}
		if after = slices.Index(ids, id); id == "" || after < 0 {
			return found, api.Decide(api.CodeNotFound, "list the ids with: teambridge read --protocol --json", "no message that is there has the id %s", q.After)
		}
	}
	found.Messages = []api.Message{}
	for i, e := range entries {
		gone := e.Index < len(past[e.Inbox])
		at, dated := e.Time() // rows without a valid time are not filtered by it
		switch {
		case i <= after, dated && !q.Since.IsZero() && !at.After(q.Since), q.From != "" && e.From != q.From, q.Unread && (e.Read || gone):
		case !q.Protocol && e.Noise():
			found.Hidden++
		default:
			m := view.Message(team, e)
			m.Gone = gone
			found.Messages = append(found.Messages, m)
		}
	}
	if q.Limit > 0 && len(found.Messages) > q.Limit {
		found.Messages = found.Messages[len(found.Messages)-q.Limit:]
	}
	return found, nil
}

// rowsOf returns the earlier and the present messages in inboxes of a team.
func (l *Local) rowsOf(ctx context.Context, team string, q *api.Reading, found *api.Rows) (past, now map[string][]inbox.Row, err error) {
	names := q.Inboxes
	if q.Own && len(names) == 0 {
		if of, err := l.OfSessions(team); err != nil {
			return nil, nil, err
		} else if of { // only the person's own messages can be marked as read
			names = []string{mail.User}
		}
	}
	to, w, err := l.at(ctx, team, names...)
	if err != nil {
		return nil, nil, err
	}
	defer to.Close() // writes go by path
	return w.rows(ctx, &to, q, found)
}

// rows returns the earlier and the present messages in inboxes of a team. If one inbox cannot be read, the
// others still are.
func (l inboxWay) rows(ctx context.Context, to *Target, q *api.Reading, found *api.Rows) (past, now map[string][]inbox.Row, err error) {
	t := to.Team
	if q.From != "" {
		q.From = t.Root().MemberName(ctx, t.Name(), q.From)
	}
	names, err := l.Inboxes(ctx, t, q.Inboxes, q.Own)
	if err != nil {
		return nil, nil, err
	}
	now = map[string][]inbox.Row{}
	unreadable := map[string]bool{}
	for _, name := range names {
		box, err := inbox.Open(t, name, nil) // reading takes no lock
		if err != nil {
			return nil, nil, err
		}
		var passed []inbox.PassedOver
		if now[name], passed, err = box.ReadAll(ctx); len(passed) > 0 {
			found.Notes = append(found.Notes, view.PassedOver(box.Path(), passed))
		}
		switch {
		case err == nil, errors.Is(err, inbox.ErrMissing):
		case errors.Is(err, inbox.ErrEmpty):
			// An inbox without messages contains an empty array, so a file without content is a problem.
			found.Notes = append(found.Notes, view.Describe(err))
		case ctx.Err() != nil, errors.Is(err, teams.ErrTeamGone):
			return nil, nil, err
		default:
			found.Problems = append(found.Problems, view.Explain(err))
			unreadable[name] = true
		}
	}
	if !q.History {
		return nil, now, nil
	}
	all := len(q.Inboxes) == 0 && !q.Own
	past, err = l.past(ctx, t, func(name string) bool { return all || slices.Contains(names, name) }, now, unreadable)
	if err != nil && ctx.Err() == nil {
		found.Notes = append(found.Notes, fmt.Sprintf("%s; earlier messages are not shown", view.Describe(err)))
		err = nil
	}
	return past, now, err
}

// past returns the recorded messages that have left their inboxes. If an inbox is unreadable, the messages that
// should still be there are put into now.
func (l inboxWay) past(ctx context.Context, t *teams.Team, wanted func(string) bool, now map[string][]inbox.Row, unreadable map[string]bool) (map[string][]inbox.Row, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	j, err := l.Journal(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	l.Refresh(ctx, j, journal.Query{Root: t.Root().Path(), Team: c.Team})
	there := map[string]int{}
	for name, rows := range now {
		for i := range rows {
			there[name+"/"+rows[i].Key()]++
		}
	}
	past, hidden := map[string][]inbox.Row{}, map[string][]inbox.Row{}
	// Newest first: of equal rows, the last ones are still in the inbox.
	q := journal.Query{Root: t.Root().Path(), Team: c.Team, CreatedAt: c.Instance().CreatedAt, Newest: true}
	for m, err := range j.Messages.All(ctx, q) {
		if err != nil {
			return nil, err
		}
		key := m.Inbox + "/" + m.Key()
		switch {
		case !wanted(m.Inbox), m.Answer != "":
		case there[key] > 0:
			there[key]--
		case unreadable[m.Inbox] && m.GoneAt.IsZero():
			hidden[m.Inbox] = append(hidden[m.Inbox], m.Row)
		default:
			past[m.Inbox] = append(past[m.Inbox], m.Row)
		}
	}
	for _, rows := range past {
		slices.Reverse(rows)
	}
	for name, rows := range hidden {
		slices.Reverse(rows)
		now[name] = rows
	}
	return past, nil
}
