package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/api"
)

// A way reaches the members of a target. There is a file for each: row.go, pane.go for panes and
// sessions, machine.go, and person.go for the person of the sessions.
type way interface {
	// suits returns an error for the first option of a message that cannot have it; see [refuse].
	suits(to *Target, m *api.NewMessage) error
	// says returns what is said of a target besides whom it means.
	says(to *Target) api.Target
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

// option is one of a message.
type option struct {
	name  string // in JSON
	given bool
	why   string // it is refused
}

// refuse returns an error for the first option that is given: it is not for such a message.
func refuse(what, hint string, all ...option) error {
	for _, o := range all {
		if o.given {
			return &api.Decided{Code: api.CodeInvalid, Option: o.name, Hint: hint + o.why, Err: fmt.Errorf("%s %s", o.name, what)}
		}
	}
	return nil
}

// forPrompts and forPanes are the options that only prompts, and only what is typed or written, can have.
func forPrompts(m *api.NewMessage) []option {
	return []option{{"mode", len(m.Mode) > 0 && string(m.Mode) != "null", ""}, {"isolated", m.Isolated, ""}}
}

func forPanes(m *api.NewMessage) []option {
	return []option{{"policy", m.Policy != "", ""}, {"saveDraft", m.SaveDraft, ""}, {"notifyOnStop", m.NotifyOnStop, ""}}
}

// waitFor returns an error unless a state that is to be waited for, if there is one, is one of these.
func waitFor(m *api.NewMessage, what, why string, states ...string) error {
	err := refuse(what, "omit it", option{"wait", m.Wait != "" && !slices.Contains(states, m.Wait), why})
	if d, ok := errors.AsType[*api.Decided](err); ok {
		d.Err = fmt.Errorf("wait %s %s", m.Wait, what)
	}
	return err
}

// by returns the way of a target.
func (l *Local) by(to *Target) way {
	switch {
	case to.person:
		return personWay{l}
	case to.Machine != nil:
		return machineWay{l}
	case to.Team != nil:
		return inboxWay{l}
	}
	return paneWay{l}
}

// at returns what members of a team mean, as [Targets.In] does, and the way to them. Close the target.
func (l *Local) at(ctx context.Context, team string, members ...string) (to Target, w way, err error) {
	to, err = l.In(ctx, team, members...)
	return to, l.by(&to), err
}

// reach returns whom a message is for, and the way to them. Close the target.
func (l *Local) reach(ctx context.Context, team, member string, m *api.NewMessage) (to Target, w way, err error) {
	name := member
	if m.Scope != nil {
		name, team = queueOf(m.Scope.Team, member)
	}
	if m.Via == api.ViaQueue {
		if of, err := l.OfSessions(team); err != nil {
			return to, nil, err
		} else if of { // other names than those of sessions that take messages
			to, err = paneWay{l}.queued(ctx, name)
			return to, paneWay{l}, err
		}
	}
	if m.Scope == nil {
		to, err = l.In(ctx, team, member)
	} else {
		to, err = l.addressed(ctx, *m.Scope, m.From, member, l.Team)
	}
	if w = l.by(&to); m.Via != "" && to.Team != nil {
		w = paneWay{l}
	}
	if m.Scope != nil && err == nil {
		l.Opts.Debug("team %s", to.Name())
		l.Opts.Debug("the way is %s", cmp.Or(m.Via, w.says(&to).How))
	}
	return to, w, err
}
