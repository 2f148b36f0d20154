package bridge

import (
	"context"
	"errors"
	"slices"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams"
)

// What agents of sessions write to the person is in the ledger, and is shown as an inbox of the person in their team.

// ofSessions reports whether a name is that of the team of the sessions, and of no real one.
func (l *Local) ofSessions(team string) (bool, error) { return l.reserved(team, pane.SessionTeam) }

// reserved reports whether a name is the reserved one, of the panes or of the sessions, and no real team has it.
func (l *Local) reserved(team, name string) (bool, error) {
	if team != name {
		return false, nil
	}
	root, err := l.opts.Root()
	if err != nil {
		return false, err
	}
	t, err := root.Team(team)
	if err == nil {
		return false, t.Close()
	}
	return errors.Is(err, teams.ErrTeamGone) || errors.As(err, new(*teams.NotFoundError)), nil
}

// toPerson reports whether what is to be read is what agents of sessions wrote to the person.
func (l *Local) toPerson(team string, q *api.Reading) (bool, error) {
	if own := q.Own && len(q.Inboxes) == 0 || slices.Contains(q.Inboxes, mail.User); !own {
		return false, nil
	}
	of, err := l.ofSessions(team)
	if of && len(q.Inboxes) > 1 {
		err = api.Decide(api.CodeUsage, "read them separately", "%s is you, and the others are sessions", mail.User)
	}
	return of, err
}

// said returns what agents of sessions wrote to the person.
func (l *Local) said(ctx context.Context) (map[string][]inbox.Row, error) {
	if lg, err := l.Ledger(ctx); err != nil || lg == nil {
		return nil, err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := panes.Said(ctx, pane.SessionTeam)
	return map[string][]inbox.Row{mail.User: rows}, err
}

// readSaid marks what agents of sessions wrote to the person as read.
func (l *Local) readSaid(ctx context.Context, m api.MarkRead) (done api.Marked, err error) {
	if done.Inbox = mail.User; m.Inbox != "" && m.Inbox != mail.User {
		return done, api.Decide(api.CodeRefused, "only your own messages can be marked as read", "%s would never get messages that somebody else marked as read", m.Inbox)
	}
	panes, err := l.OpenPanes(ctx)
	if err == nil {
		done.Marked, err = panes.MarkRead(ctx, m.IDs...)
	}
	return done, err
}
