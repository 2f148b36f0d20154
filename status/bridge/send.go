package bridge

import (
	"cmp"
	"context"
	"time"

	"teambridge/inbox/mail"
	"teambridge/relay/mode"
	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/status/view"
)

// message is a message to send. A message with a known id is sent once; "" means a new id.
type message struct {
	api.NewMessage
	id string
}

func (m *message) mail() mail.Message {
	return mail.Message{ID: m.id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
}

// Send sends a message to a member of a team. It is typed into a pane if the team is the panes' or the message
// asks for it. A person's message to an agent of the service is a prompt. All other messages become rows in the
// member's inbox. Everybody can write rows, so a row must never become a prompt.
//
// The state of a queued message is [api.Verified] or [api.Waiting]: see [Local.Await]. Even with an error, Send
// returns as much of the result as is known. If the state is then empty, nothing was sent.
func (l *Local) Send(ctx context.Context, team, member, id string, m api.NewMessage) (api.Sent, error) {
	to, w, err := l.reach(ctx, team, member, &m)
	if err != nil {
		return api.Sent{}, err
	}
	defer to.Close() // it was only read
	if err := cmp.Or(w.suits(&to, &m), l.speaks(ctx, &to, m.From)); err != nil {
		return api.Sent{}, err
	}
	sent, _, err := w.send(ctx, &to, message{m, id})
	return sent, err
}

// Broadcast sends a message to all agents of a team, as [Local.Send] does. If id is not "", each message has
// the id ID-MEMBER. If one message cannot be sent, its result has the error, and the others are still sent.
func (l *Local) Broadcast(ctx context.Context, team, id string, m api.NewBroadcast) (all []api.Sent, err error) {
	var to Target
	if m.Scope != nil {
		to, err = l.Resolve(ctx, *m.Scope)
	} else {
		to, err = l.In(ctx, team)
	}
	if err != nil {
		return nil, err
	}
	defer to.Close() // it was only read
	w := l.by(&to)
	each := api.NewMessage{Text: m.Text, Summary: m.Summary, Color: m.Color, From: m.From, Protocol: m.Protocol, PaneOptions: m.PaneOptions}
	err = cmp.Or(refuse("is not for broadcasts", "omit it", option{"via", m.Via != "", ""}), w.suits(&to, &each), l.speaks(ctx, &to, m.From))
	if err != nil {
		return nil, err
	}
	err = w.audience(ctx, &to, m, func(member string, send func(id string) (api.Sent, error)) {
		one := id
		if id != "" {
			one += "-" + member
		}
		s, err := send(one)
		if err != nil {
			s.Team, s.Member = to.Name(), member
			s.Error = new(view.Explain(err))
		}
		all = append(all, s)
	})
	return all, err
}

// Await waits until a message has reached a state; see [api.Bridge]. A command knows the messages that it has
// sent, and a service knows all. If a command has put the message into the queue of a pane, Await types it.
func (l *Local) Await(ctx context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	s, err := l.waitFor(ctx, s, until, timeout)
	l.mu.Lock()
	warned := l.warned // what the agent does is not known without the journal, and would be a second warning
	l.mu.Unlock()
	if err == nil || ctx.Err() != nil || toMachine(s) || warned {
		return s, err
	}
	to, w, lost := l.at(ctx, s.Team, s.Member)
	if lost != nil {
		return s, err
	}
	defer to.Close() // it was only read
	return s, whileAsked(ctx, w, &to, err, l.Attention)
}

// waitFor is Await without the reason why the agent is late.
func (l *Local) waitFor(ctx context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	start := time.Now()
	wait, cancel := Within(ctx, timeout, "the message is not "+until)
	defer cancel()
	s, err := l.sentBy(ctx, s, until).await(ctx, wait, s, until, timeout)
	s.WaitedMs += time.Since(start).Milliseconds()
	if ctx.Err() != nil && err != nil {
		err = context.Cause(ctx)
	}
	return s, err
}

// sentBy returns the way of a sent message.
func (l *Local) sentBy(ctx context.Context, s api.Sent, until string) way {
	switch {
	case toMachine(s):
		return machineWay{l}
	case until == api.Confirmed, until == api.Seen && paneWay{l}.inPane(ctx, s):
		return paneWay{l}
	}
	return inboxWay{l}
}

// promptOptions configure how an agent works on a prompt. Rows of inboxes have no such options.
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

// notPrompted is the error for a message that must be a prompt and cannot be one.
func notPrompted(reason string) error {
	return api.Decide(api.CodeInvalid, "omit mode and isolated to put it into the inbox as a teammate's message",
		"mode and isolated are only for agents that a service relays to: %s", reason)
}

const seeDocument = "see GET /openapi.json"

// Worst returns the error of a broadcast, given the result of each message. It is nil if all were sent.
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
