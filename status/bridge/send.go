package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"teambridge/inbox/mail"
	"teambridge/relay/mode"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
	"teambridge/teams"
)

// message is a message to send. Sending again under the same id is sending once; "" is a new one.
type message struct {
	api.NewMessage
	id string
}

func (m *message) mail() mail.Message {
	return mail.Message{ID: m.id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
}

// Send sends a message to a member of a team. It is typed into a pane, if the team is that of the
// panes or the message says so; a message of a person to an agent of the service is a prompt; and
// all others become a row of the member's inbox, since everybody can write rows, and a row must
// never become a prompt.
//
// Of what was put into a queue, the state is [api.Verified] or [api.Waiting]: see
// [Local.Await]. If there is an error, what is known is returned even then, and nothing was
// sent if the state is empty.
func (l *Local) Send(ctx context.Context, team, member, id string, m api.NewMessage) (api.Sent, error) {
	to, err := l.In(ctx, team, member)
	if err != nil {
		return api.Sent{}, err
	}
	defer to.Close() // nothing was written through it
	sent, _, err := l.sendTo(ctx, &to, message{m, id})
	return sent, err
}

// sendTo sends a message to the only member of a target, as [Local.Send] does. It also returns
// the row of a message to follow that was put into an inbox; else nil.
func (l *Local) sendTo(ctx context.Context, to *Target, m message) (sent api.Sent, row *mail.Delivered, err error) {
	opts, err := promptOptionsOf(m.NewMessage)
	if err != nil {
		return sent, nil, err
	}
	if m.Via != "" && m.Via != api.ViaPane {
		return sent, nil, api.Decide(api.CodeInvalid, seeDocument, "via: there is no %q", m.Via)
	}
	if to.Way() == api.WayPane || m.Via == api.ViaPane {
		p, err := l.paneOf(ctx, to, m.Tmux)
		if err != nil {
			return sent, nil, err
		}
		if opts != (promptOptions{}) {
			return sent, nil, api.Decide(api.CodeInvalid, seeDocument, "mode and isolated are only for prompts to an agent that this service relays to")
		}
		sent, err = l.sendToPane(ctx, p, m)
		return sent, nil, err
	}
	if m.PaneOptions != (api.PaneOptions{}) {
		return sent, nil, onlyForPanes()
	}
	box, err := l.row(ctx, to, m.From, m.Force, m.DryRun)
	if err != nil {
		return sent, nil, err
	}
	written := m.mail()
	if err := box.sender.Validate(written); err != nil {
		return sent, nil, err
	}
	member, err := box.sender.Resolve(to.Member(), m.Force)
	if nf, ok := errors.AsType[*teams.NotFoundError](err); ok && nf.Kind == "member" {
		err = &api.Decided{Err: err, Code: api.CodeNotFound, Hint: "list the members with: teambridge members; --force makes an inbox that nobody is known to read"}
	}
	if err != nil {
		return sent, nil, err
	}
	if m.DryRun {
		if opts != (promptOptions{}) {
			if _, reason, err := box.promptable(ctx, member); err != nil || reason != "" {
				return sent, nil, cmp.Or(err, notPrompted(reason))
			}
		}
		d, err := box.sender.Check(ctx, member, written)
		if err == nil {
			d.State = api.DryRun
		}
		return view.Sent(d), nil, err
	}
	defer box.follow()
	sent, err = box.send(ctx, member, written, opts, m.Follow)
	if len(box.put) > 0 {
		row = &box.put[0]
	}
	return sent, row, err
}

// Broadcast sends a message to all agents of a team, as [Local.Send] does. If id is not "",
// each message has the id ID-MEMBER. If it cannot be sent to one, the others still get it: the
// error is in what is returned for that one.
func (l *Local) Broadcast(ctx context.Context, team, id string, m api.NewBroadcast) (all []api.Sent, err error) {
	to, err := l.In(ctx, team)
	if err != nil {
		return nil, err
	}
	defer to.Close() // nothing was written through it
	one := func(member string) string {
		if id == "" {
			return ""
		}
		return id + "-" + member
	}
	add := func(s api.Sent, err error) {
		if err != nil {
			s.Error = new(view.Explain(err))
		}
		all = append(all, s)
	}
	members, box, err := l.audience(ctx, &to, m)
	if err != nil {
		return nil, err
	}
	if to.Way() == api.WayPane {
		for _, p := range to.Panes {
			if slices.Contains(members, p.Inbox) {
				add(l.sendToPane(ctx, p, message{api.NewMessage{Text: m.Text, Summary: m.Summary, From: m.From, PaneOptions: m.PaneOptions}, one(p.Inbox)}))
			}
		}
		return all, nil
	}
	defer box.follow()
	for _, member := range members {
		add(box.send(ctx, member, mail.Message{ID: one(member), Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}, promptOptions{}, false))
	}
	return all, nil
}

// audience returns the names of those that a message to all agents of a target is for, and the way
// to their inboxes.
func (l *Local) audience(ctx context.Context, to *Target, m api.NewBroadcast) (members []string, box *row, err error) {
	if to.Way() == api.WayPane {
		if m.Via != "" {
			return nil, nil, api.Decide(api.CodeInvalid, seeDocument, "via is not for panes")
		}
		list, err := pane.Audience(to.Panes, m.From, m.Except)
		for _, p := range list {
			members = append(members, p.Inbox)
		}
		if err == nil && len(list) == 0 {
			err = api.Decide(api.CodeNotFound, "register one with: teambridge pane add NAME --pane TARGET", "there is no pane to send to")
		}
		return members, nil, err
	}
	if m.PaneOptions != (api.PaneOptions{}) {
		return nil, nil, onlyForPanes()
	}
	if box, err = l.row(ctx, to, m.From, false, false); err != nil {
		return nil, nil, err
	}
	if err := box.sender.Validate(mail.Message{Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}); err != nil {
		return nil, nil, err
	}
	members, err = box.sender.Audience(m.Except, m.IncludeLead)
	if err == nil && len(members) == 0 {
		err = api.Decide(api.CodeNotFound, "list the members with: teambridge members; --include-lead, or includeLead in the API, sends to the lead too",
			"there is nobody to send to in %s", to.Name())
	}
	return members, box, err
}

// Await waits until a message has come to a state; see [api.Bridge]. A command knows the messages
// that it has sent, a service all. What a command has put into the queue of a pane, Await types.
func (l *Local) Await(ctx context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	start := time.Now()
	wait, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		wait, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	var err error
	switch {
	case until == api.Confirmed:
		s, err = l.awaitPane(ctx, wait, s)
	case until != api.Consumed && until != api.Seen:
		err = api.Decide(api.CodeUsage, "", "a message cannot be waited for until it is %q", until)
	case l.opts.Service != nil:
		s, err = l.awaitReceipt(wait, s, until, timeout)
	default:
		s, err = l.awaitRow(wait, s, until, timeout)
	}
	s.WaitedMs += time.Since(start).Milliseconds()
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	return s, err
}

// promptOptions say how an agent works on a prompt. No row of an inbox can say that.
type promptOptions struct {
	mode     mode.Mode
	isolated bool
}

func promptOptionsOf(m api.NewMessage) (opts promptOptions, err error) {
	opts.isolated = m.Isolated
	if len(m.Mode) > 0 && string(m.Mode) != "null" {
		if opts.mode, err = mode.Parse(m.Mode); err != nil {
			err = api.Decide(api.CodeInvalid, seeDocument, "mode: %v", err)
		}
	}
	return opts, err
}

// notPrompted is the error for a message that can only be a prompt, and cannot be one.
func notPrompted(reason string) error {
	return api.Decide(api.CodeInvalid, "without mode and isolated, it is put into the inbox as a teammate's message",
		"mode and isolated are only for agents that a service relays to: %s", reason)
}

const seeDocument = "see GET /openapi.json"

func onlyForPanes() error {
	return api.Decide(api.CodeInvalid, "without them, it is put into the inbox", "via, policy, saveDraft and notifyOnStop are only for panes")
}

// Worst returns the error that a broadcast ends with, given what became of each message: nil if
// all were sent.
func Worst(all []api.Sent) error {
	var worst api.Error
	failed := 0
	for _, s := range all {
		if s.Error != nil {
			if failed++; s.Error.Code.Exit() > worst.Code.Exit() || worst.Code == "" {
				worst = *s.Error
			}
		}
	}
	if failed == 0 {
		return nil
	}
	return api.Decide(worst.Code, "the output says which, and why", "%d of %s could not be sent", failed, plain.Plural(len(all), "message"))
}
