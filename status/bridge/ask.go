package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/question"
	"teambridge/status/view"
	"teambridge/teams"
)

// Ask sends a message to a member and waits for the answer; see [api.Bridge]. Even with an error, it returns as
// much of the result as is known.
func (l *Local) Ask(ctx context.Context, team, member, id string, n api.NewQuestion) (a api.Answered, err error) {
	var to Target
	defer func() {
		if err = overdue(ctx, err); err != nil && a.Joined != "" { // over HTTP, only the error reaches the caller
			f := view.Explain(err)
			hint := fmt.Sprintf("you have joined %s as %s, so that agents can answer; \"teambridge leave\" undoes it", to.Name(), a.Joined)
			if f.Hint != "" {
				hint = f.Hint + "; " + hint
			}
			err = &api.Decided{Err: err, Code: f.Code, Hint: hint}
		}
	}()
	var timeout time.Duration
	if n.Timeout != "" {
		if timeout, err = time.ParseDuration(n.Timeout); err != nil || timeout < 0 {
			return a, api.Decide(api.CodeInvalid, seeDocument, "timeout: %q is not a duration such as 5m", n.Timeout)
		}
	}
	if n.DryRun {
		return a, api.Decide(api.CodeInvalid, "nothing was sent; send it with dryRun", "a question has no dry run")
	}
	to, w, err := l.reach(ctx, team, member, &n.NewMessage)
	if err != nil {
		return a, err
	}
	defer to.Close() // writes go by path
	if err := cmp.Or(w.suits(&to, &n.NewMessage), l.speaks(ctx, &to, n.From)); err != nil {
		return a, err
	}
	n.Wait = api.Seen // the wait needs these states
	a, err = w.ask(ctx, &to, message{n.NewMessage, id}, n.Dir, timeout)
	return a, whileAsked(ctx, w, &to, err, l.Attention)
}

// whileAsked extends a timeout error if the agent waits for its person: why, and what to do about it. attention
// returns the items of a team.
func whileAsked(ctx context.Context, w way, to *Target, err error, attention func(ctx context.Context, team string) ([]api.Attention, error)) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	f := view.Explain(err)
	if f.Code != api.CodeTimeout {
		return err
	}
	list, serr := w.status(ctx, to)
	if serr != nil || len(list) != 1 || list[0].Word != api.WordWaiting {
		return err
	}
	what, hint := "waits for you: "+cmp.Or(list[0].Why, "it asks something"), f.Hint
	waits, _ := attention(ctx, to.Name()) // without them, the status suffices
	for _, a := range waits {
		if a.Member == list[0].Member && (a.Kind == api.WaitsTerminal || a.Question != nil) {
			what, hint = a.What, strings.TrimSuffix(a.AtShell()+"; "+f.Hint, "; ")
		}
	}
	return api.Decide(f.Code, hint, "%w; %s %s", err, list[0].Member, what)
}

func (l inboxWay) ask(ctx context.Context, to *Target, m message, dir string, timeout time.Duration) (a api.Answered, err error) {
	member := to.Member()
	if _, err := promptOptionsOf(m.NewMessage); err != nil {
		return a, err
	}
	t := to.Team
	if member, err = t.Resolve(ctx, member); err != nil {
		return a, l.alike(ctx, err, "")
	}
	if !Agent(ctx) {
		if ours, err := l.Ours(ctx, t); err == nil && slices.Contains(ours, member) { // if the ledger cannot be read, the send fails
			return a, api.Decide(api.CodeRefused, "nothing was sent; list the agents with: teambridge members", "%s is you, and cannot answer", member)
		}
	}
	c, err := t.Config(ctx)
	if err != nil {
		return a, err
	}
	if err := t.Agent(c, member).Version().Check(member); err != nil {
		return a, err
	}
	const anyway = "teambridge send puts it into the inbox anyway"
	if err := l.canAnswer(ctx, nil, t, c, member, anyway); err != nil && m.id == "" {
		return a, err
	}
	if m.From != "" {
		m.From = t.Root().MemberName(ctx, t.Name(), m.From) // the reply comes to this inbox
	}
	// Check before joining: a refused message must not change the team.
	draft := inbox.Message{ID: m.id, From: cmp.Or(m.From, api.Guest), DefaultFrom: m.From == "", Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
	if err := cmp.Or(draft.Check(), draft.CheckProtocol(c)); err != nil {
		return a, err
	}
	rec, err := l.Record(ctx, t.Name())
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	before, err := rec.Recall(ctx, c.Instance(), member, &draft)
	if err != nil {
		return a, err
	}
	if before == nil { // otherwise it may have been answered
		if err := l.canAnswer(ctx, rec.Ledger(ctx), t, c, member, anyway); err != nil {
			return a, err
		}
		all, err := view.Statuses(ctx, status.Source{Journal: rec.Journal(), Ledger: rec.Ledger(ctx)}, t, nil, nil, time.Now())
		if err != nil {
			return a, err
		}
		if slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == member && s.State == api.StateTerminated }) {
			return a, api.Decide(api.CodeNotFound, anyway, "%s has shut down: nobody can answer", member)
		}
	}
	if m.From == "" {
		if m.From, a.Joined, err = l.askingAs(ctx, t, c, dir); err != nil {
			return a, err
		}
	}
	r, err := l.row(ctx, to, m.From, false, false)
	if err != nil {
		return a, err
	}
	q := &question.Question{
		Sender: r.sender, From: m.From, Summary: m.Summary, Text: m.Text, Changes: rec.Changes, Unfollowed: l.carrying.alone,
		CanAnswer: func(ctx context.Context, c *teams.Config) error { // no ledger is passed, so a relay that restarts does not end the wait
			return l.canAnswer(ctx, nil, t, c, member, "the message stays sent")
		},
	}
	if q.Delivered, a.Sent, err = l.sendQuestion(ctx, to, m); err != nil {
		return a, err
	}
	if before != nil {
		q.Start = before.At
		q.Again(before.Taken, before.Said)
	}
	agent := t.Agent(r.sender.Config(), member)
	q.Conversation, q.Transcripts = agent.Conversation(q.Start.Truncate(time.Millisecond)), agent.Transcripts
	if a.Sent.Delivery != "" {
		q.Prompt = func(ctx context.Context) (ledger.Delivery, error) { return l.prompted(ctx, a.Sent.Delivery) }
	}
	wait, cancel := Within(ctx, timeout, fmt.Sprintf("no answer from %s; the message %s stays sent", member, q.ID))
	defer cancel()
	l.Opts.Debug("waiting for an answer to %s", q.ID)
	reply, err := q.Await(wait)
	if err != nil {
		return a, overdue(wait, err)
	}
	a.Sent.State, a.Reply, a.Text, a.Via, a.Certain = api.Consumed, view.Recorded(reply.Message), reply.Text, reply.Via, reply.Certain
	return a, nil
}

// sendQuestion sends a message through a target of its own, since the follower of the message may close that
// target before the answer comes.
func (l inboxWay) sendQuestion(ctx context.Context, asked *Target, m message) (d mail.Delivered, sent api.Sent, err error) {
	to, err := l.In(ctx, asked.Name(), asked.Member())
	if err != nil {
		return d, sent, err
	}
	defer to.Close() // writes go by path
	d.Start = time.Now()
	sent, row, err := l.send(ctx, &to, m)
	if err != nil {
		return d, sent, err
	}
	if row == nil { // a prompt
		d.Team, d.Member, d.ID = sent.Team, sent.Member, sent.ID
		return d, sent, nil
	}
	d, sent = *row, view.Sent(*row)
	d.Inbox, err = inbox.Open(asked.Team, d.Member, l.Opts.Locker)
	return d, sent, err
}

// canAnswer returns an error with the hint if nothing can answer for a member. lg may be nil.
func (l inboxWay) canAnswer(ctx context.Context, lg *ledger.Ledger, t *teams.Team, c *teams.Config, member, hint string) error {
	facts, err := relay.Facts(ctx, lg, l.Opts.State, t, c, member)
	if err != nil { // only the error's text depends on it
		l.Opts.Debug("whether %s is relayed to is not known: %v", member, err)
	}
	switch c.Deliverability(member, facts) {
	case teams.NotMember:
		return api.Decide(api.CodeNotFound, hint, "%s is not a member of %s: nobody can answer", member, c.Team)
	case teams.LeadGone:
		return api.Decide(api.CodeNotFound, hint, "the lead of %s is not running: nobody can answer", c.Team)
	case teams.AgentGone:
		return api.Decide(api.CodeNotFound, hint, "the process of %s has ended: nobody can answer", member)
	case teams.NoRelay:
		return api.Decide(api.CodeNotFound, hint, "%s is headless and has no running relay: nobody can answer", member)
	case teams.AtTerminal:
		if l.carrying.alone { // in a service, a prompt moves the session
			return api.Decide(api.CodeNotFound, "teambridge switch "+member+" --to remote", "the session of %s is at a person's terminal: messages wait until it moves", member)
		}
	}
	return nil
}

// askingAs returns the name to ask under. If the person has no name in the team, it joins the team, since
// agents can write only to members, and returns the new name as joined, too.
func (l inboxWay) askingAs(ctx context.Context, t *teams.Team, c *teams.Config, dir string) (name, joined string, err error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return "", "", err
	}
	if name, err = mail.Guest(ctx, lg, t, c); err != nil || name != "" {
		return name, "", err
	}
	_, err = l.Join(ctx, t.Name(), api.NewJoin{As: api.Guest, Dir: dir})
	return api.Guest, api.Guest, err
}

// prompted returns the delivery of a question that was sent as a prompt.
func (l inboxWay) prompted(ctx context.Context, delivery string) (d ledger.Delivery, err error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return d, err
	}
	list, err := lg.Deliveries.List(ctx, ledger.DeliveryQuery{UUID: delivery})
	if err == nil && len(list) == 0 {
		err = api.Decide(api.CodeUnknown, "the message stays sent", "the delivery %s is not recorded any more", delivery)
	}
	if err == nil {
		d = list[0]
	}
	return d, err
}
