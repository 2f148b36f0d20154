package bridge

import (
	"cmp"
	"context"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/history"
	"teambridge/status/view"
)

// personWay is the way to the person of the sessions. The ledger keeps the messages of their agents, and shows
// them as an inbox of the person in the team of the sessions.
type personWay struct{ *Local }

func (personWay) suits(_ *Target, m *api.NewMessage) error {
	return refuse("is for sessions, and "+mail.User+" is you", "omit it", option{"via", m.Via != "", ""}) // only agents send this way, and they can choose no other option
}

func (personWay) describe(*Target) api.Target {
	return api.Target{How: "what is kept here of sessions, as an inbox of yours"}
}

// send records a session agent's message to the person, with the messages of sessions.
func (l personWay) send(ctx context.Context, _ *Target, m message) (sent api.Sent, _ *mail.Delivered, err error) {
	start := time.Now()
	sent = api.Sent{Team: pane.SessionTeam, Member: mail.User, ID: cmp.Or(m.id, uuid.NewString()), State: api.Failed}
	if !Agent(ctx) {
		return sent, nil, api.Decide(api.CodeInvalid, "nothing was sent", "%s is you, and only agents write to you", mail.User)
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return sent, nil, err
	}
	if err := pane.Check(pane.Pane{InboxKey: inbox.InboxKey{Team: pane.SessionTeam}}, pane.Message{Text: m.Text}); err != nil {
		return sent, nil, api.Decide(api.CodeInvalid, "nothing was sent", "%s", err)
	}
	if m.DryRun {
		sent.State, sent.Reachable = api.DryRun, true
		return sent, nil, nil
	}
	if sent.Deduplicated, err = panes.Incoming.ToPerson(ctx, m.From, sent.ID, m.Text); err != nil {
		return sent, nil, err
	}
	sent.State, sent.Recorded, sent.Reachable = api.Verified, true, true
	sent.WaitedMs = time.Since(start).Milliseconds()
	return sent, nil, nil
}

// rows returns the messages of session agents to the person.
func (l personWay) rows(ctx context.Context, to *Target, q *api.Reading, _ *api.Rows) (past, now map[string][]inbox.Row, err error) {
	if lg, err := l.Ledger(ctx); err != nil || lg == nil {
		return nil, nil, err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return nil, nil, err
	}
	rows, err := panes.Incoming.Said(ctx, pane.SessionTeam)
	return nil, map[string][]inbox.Row{mail.User: rows}, err
}

func (l personWay) markRead(ctx context.Context, _ *Target, m api.MarkRead) (api.Marked, error) {
	return l.readSaid(ctx, m)
}

func (l personWay) prepare(ctx context.Context, w *waiting) (err error) {
	if !w.forMessage() {
		return errPerson
	}
	w.rec, err = l.Record(ctx, w.team)
	return err
}

// message waits until an agent of a session writes to the person.
func (l personWay) message(ctx context.Context, w *waiting) (*api.Record, error) {
	for {
		list, err := w.appeared(ctx, history.Recheck)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			if m.Inbox == mail.User {
				return new(view.Record(m, nil)), nil
			}
		}
	}
}

// errPerson is the error for operations that only agents support.
var errPerson = api.Decide(api.CodeInvalid, "what agents wrote to you is in: teambridge inbox", "%s is you, and no agent", mail.User)

func (personWay) await(_, _ context.Context, s api.Sent, _ string, _ time.Duration) (api.Sent, error) {
	return s, errPerson
}

func (personWay) audience(context.Context, *Target, api.NewBroadcast, func(string, func(string) (api.Sent, error))) error {
	return errPerson
}

func (personWay) ask(context.Context, *Target, message, string, time.Duration) (a api.Answered, err error) {
	return a, errPerson
}

func (personWay) members(context.Context, *Target) ([]api.Member, error) { return nil, errPerson }

func (personWay) detail(context.Context, *Target, *ledger.Ledger) (d api.TeamDetail, err error) {
	return d, errPerson
}

func (personWay) status(context.Context, *Target) ([]api.Status, error) { return nil, errPerson }

func (personWay) state(context.Context, *waiting) ([]api.Status, error) { return nil, errPerson }

// readSaid marks messages to the person as read, from agents of sessions or of teams on other machines.
func (l *Local) readSaid(ctx context.Context, m api.MarkRead) (done api.Marked, err error) {
	if done.Inbox = mail.User; m.Inbox != "" && m.Inbox != mail.User {
		return done, api.Decide(api.CodeRefused, "only your own messages can be marked as read", "%s would never get messages that somebody else marked as read", m.Inbox)
	}
	panes, err := l.OpenPanes(ctx)
	if err == nil {
		done.Marked, err = panes.Incoming.MarkRead(ctx, m.IDs...)
	}
	return done, err
}
