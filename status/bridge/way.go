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

// A way brings messages to the members of a target. Each way has a file: row.go, pane.go for panes and
// sessions, machine.go, and person.go for the person of the sessions.
type way interface {
	// suits returns an error for the first option of a message that the way does not support; see [refuse].
	suits(to *Target, m *api.NewMessage) error
	// describe describes the way to a target.
	describe(to *Target) api.Target
	// send sends a message to the only member. If the message became a row, it also returns the row, to be followed.
	send(ctx context.Context, to *Target, m message) (api.Sent, *mail.Delivered, error)
	// await waits until a sent message has reached a state, or until wait ends: with ctx, or after a timeout.
	await(ctx, wait context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error)
	// audience calls one for each recipient of a broadcast, with a function that sends the message under an id.
	audience(ctx context.Context, to *Target, m api.NewBroadcast, one func(member string, send func(id string) (api.Sent, error))) error
	// ask sends a question of a person in a directory, and waits for the answer.
	ask(ctx context.Context, to *Target, m message, dir string, timeout time.Duration) (api.Answered, error)

	members(ctx context.Context, to *Target) ([]api.Member, error)
	detail(ctx context.Context, to *Target, lg *ledger.Ledger) (api.TeamDetail, error)
	status(ctx context.Context, to *Target) ([]api.Status, error)
	// rows returns earlier and present messages in the inboxes of members. It may change q, and adds a note to
	// found for each inbox that cannot be read.
	rows(ctx context.Context, to *Target, q *api.Reading, found *api.Rows) (past, now map[string][]inbox.Row, err error)

	// markRead marks messages to the person as read.
	markRead(ctx context.Context, to *Target, m api.MarkRead) (api.Marked, error)

	// prepare starts a wait, or returns an error if the way does not support it. It opens the recorder if one
	// is needed. Afterwards, message or state waits.
	prepare(ctx context.Context, w *waiting) error
	message(ctx context.Context, w *waiting) (*api.Record, error)
	state(ctx context.Context, w *waiting) ([]api.Status, error)
}

// option is an option of a message.
type option struct {
	name  string // in JSON
	given bool
	why   string // added to the hint
}

// refuse returns an error for the first given option, since the way does not support it.
func refuse(what, hint string, all ...option) error {
	for _, o := range all {
		if o.given {
			return &api.Decided{Code: api.CodeInvalid, Option: o.name, Hint: hint + o.why, Err: fmt.Errorf("%s %s", o.name, what)}
		}
	}
	return nil
}

// forPrompts and forPanes return the options that only prompts, and only messages to panes and sessions, support.
func forPrompts(m *api.NewMessage) []option {
	return []option{{"mode", len(m.Mode) > 0 && string(m.Mode) != "null", ""}, {"isolated", m.Isolated, ""}}
}

func forPanes(m *api.NewMessage) []option {
	return []option{{"policy", m.Policy != "", ""}, {"saveDraft", m.SaveDraft, ""}, {"notifyOnStop", m.NotifyOnStop, ""}}
}

// waitFor returns an error if the message is to be waited for until a state that is not in states.
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

// at returns the target for members of a team, as [Targets.In] does, and the way to it. Close the target.
func (l *Local) at(ctx context.Context, team string, members ...string) (to Target, w way, err error) {
	to, err = l.In(ctx, team, members...)
	return to, l.by(&to), err
}

// reach returns the target of a message, and the way to it. Close the target.
func (l *Local) reach(ctx context.Context, team, member string, m *api.NewMessage) (to Target, w way, err error) {
	name := member
	if m.Scope != nil {
		name, team = queueOf(m.Scope.Team, member)
	}
	if m.Via == api.ViaQueue {
		if of, err := l.OfSessions(team); err != nil {
			return to, nil, err
		} else if of { // others than sessions that take messages
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
		l.Opts.Debug("the way is %s", cmp.Or(m.Via, w.describe(&to).How))
	}
	return to, w, err
}
