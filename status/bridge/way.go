package bridge

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/api"
)

// A way reaches the members of a target. There is a file for each: row.go, pane.go for panes and
// sessions, machine.go, and person.go for the person of the sessions.
type way interface {
	// send sends a message to the only member. It also returns the row to follow that it became, if
	// it did.
	send(ctx context.Context, to *Target, m message) (api.Sent, *mail.Delivered, error)
	// await waits until a message that was sent has come to a state, or until wait ends, which is with ctx or after a timeout.
	await(ctx, wait context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error)
	// audience calls one for each member that a broadcast is for, with what sends it under an id.
	audience(ctx context.Context, to *Target, m api.NewBroadcast, one func(member string, send func(id string) (api.Sent, error))) error
	// ask sends a question of a person in a directory, and waits for the answer.
	ask(ctx context.Context, to *Target, m message, dir string, timeout time.Duration) (api.Answered, error)

	members(ctx context.Context, to *Target) ([]api.Member, error)
	detail(ctx context.Context, to *Target, lg *ledger.Ledger) (api.TeamDetail, error)
	status(ctx context.Context, to *Target) ([]api.Status, error)
	// rows returns what has left the inboxes of members, and what is in them. It may change q, and
	// tells found what could not be read.
	rows(ctx context.Context, to *Target, q *api.Reading, found *api.Rows) (past, now map[string][]inbox.Row, err error)

	// markRead marks messages to the person as read.
	markRead(ctx context.Context, to *Target, m api.MarkRead) (api.Marked, error)

	// prepare begins to wait, if it can be waited for, and opens the recorder if it needs one. Then
	// message or state waits.
	prepare(ctx context.Context, w *waiting) error
	message(ctx context.Context, w *waiting) (*api.Record, error)
	state(ctx context.Context, w *waiting) ([]api.Status, error)
}

// by returns the way of a target, or that of a message to it with [api.PaneOptions.Via].
func (l *Local) by(to *Target, via string) (way, error) {
	switch {
	case to.person && via != "":
		return nil, api.Decide(api.CodeInvalid, "omit via", "%s is you, and no session", to.Member())
	case to.person:
		return personWay{l}, nil
	case to.Machine != nil && via != "":
		return nil, api.Decide(api.CodeInvalid, "omit via", "%s is on another machine", to.Name())
	case to.Machine != nil:
		return machineWay{l}, nil
	case via != "" && via != api.ViaPane && via != api.ViaSession:
		return nil, api.Decide(api.CodeInvalid, seeDocument, "via: there is no %q", via)
	case via == api.ViaSession && to.Way() == api.WayPane:
		return nil, api.Decide(api.CodeInvalid, "omit via", "a pane is no session")
	case via != "", to.Way() != api.WayInbox:
		return paneWay{l}, nil
	}
	return inboxWay{l}, nil
}

// reach returns what a member of a team means, as [Targets.In] does, and the way of a message to it with [api.PaneOptions.Via].
// Close the target.
func (l *Local) reach(ctx context.Context, team, member, via string) (to Target, w way, err error) {
	if via == api.ViaQueue {
		if of, err := l.OfSessions(team); err != nil {
			return to, nil, err
		} else if of { // other names than those of sessions that take messages
			to, err = paneWay{l}.queued(ctx, member)
			return to, paneWay{l}, err
		}
	}
	if to, err = l.In(ctx, team, member); err != nil {
		return to, nil, err
	}
	if w, err = l.by(&to, via); err != nil {
		err = errors.Join(err, to.Close())
	}
	return to, w, err
}
