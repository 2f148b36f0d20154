package bridge

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// inboxWay is the way of rows in members' inboxes and, for agents of a service, of prompts.
type inboxWay struct{ *Local }

func (inboxWay) suits(_ *Target, m *api.NewMessage) error {
	return cmp.Or(
		refuse("is for panes, and this message goes to an inbox", "register a pane with: teambridge pane add; or, for a member whose agent runs in tmux, add --via pane", forPanes(m)...),
		waitFor(m, "is for messages to other machines", "", api.Verified, api.Received, api.Consumed, api.Seen))
}

func (inboxWay) describe(*Target) api.Target {
	return api.Target{How: "the inbox or, if the service runs the agent, a prompt: it is in a team; --via session and --via pane are others"}
}

func (l inboxWay) send(ctx context.Context, to *Target, m message) (sent api.Sent, put *mail.Delivered, err error) {
	opts, err := promptOptionsOf(m.NewMessage)
	if err != nil {
		return sent, nil, err
	}
	box, err := l.row(ctx, to, m.From, m.Force, m.DryRun)
	if err != nil {
		return sent, nil, err
	}
	written := m.mail()
	if err := box.sender.Validate(written); err != nil {
		return sent, nil, err
	}
	// An agent may write to the person even if the agents of the target's team cannot.
	member, err := box.sender.Resolve(to.Member(), m.Force || Agent(ctx) && to.Member() == mail.User)
	if err != nil {
		return sent, nil, l.alike(ctx, err, "list the members with: teambridge members; --force creates an inbox, even if no agent reads it")
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
	sent, err = box.send(ctx, member, written, opts, m.Wait != "")
	if len(box.put) > 0 {
		put = &box.put[0]
	}
	return sent, put, err
}

func (l inboxWay) audience(ctx context.Context, to *Target, m api.NewBroadcast, one func(string, func(string) (api.Sent, error))) error {
	box, err := l.row(ctx, to, m.From, false, false)
	if err != nil {
		return err
	}
	written := mail.Message{Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
	if err := box.sender.Validate(written); err != nil {
		return err
	}
	members, err := box.sender.Audience(m.Except, m.IncludeLead)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return nobodyToSendTo(to)
	}
	defer box.follow()
	for _, member := range members {
		one(member, func(id string) (api.Sent, error) {
			written.ID = id
			return box.send(ctx, member, written, promptOptions{}, false)
		})
	}
	return nil
}

// nobodyToSendTo is the error of a broadcast that leaves out all members.
func nobodyToSendTo(to *Target) error {
	return api.Decide(api.CodeNotFound, "list the members with: teambridge members; --include-lead, or includeLead in the API, sends to the lead too",
		"there is nobody to send to in %s", to.Name())
}

// row sends rows to the inboxes of a team's members.
type row struct {
	*Local
	sender *mail.Sender
	to     *Target
	force  bool
	blind  error // why the ledger is missing; the send was forced
	put    []mail.Delivered
}

// row returns a row for a team. A dry run does not open the ledger, since opening may write.
func (l inboxWay) row(ctx context.Context, to *Target, from string, force, dryRun bool) (*row, error) {
	r := &row{Local: l.Local, to: to, force: force}
	from, err := l.writtenBy(ctx, to, from)
	if err != nil {
		return nil, err
	}
	opts := mail.Options{Team: to.Team, Locker: l.Opts.Locker, From: from}
	if opts.Config, err = to.Team.Config(ctx); err != nil {
		return nil, err
	}
	if !dryRun {
		if opts.Ledger, err = l.Opts.Ledger(ctx); err != nil {
			if !force {
				return nil, fmt.Errorf("%w: %w", inbox.ErrNoMemory, err)
			}
			opts.Ledger, r.blind = nil, err
		}
	}
	opts.Facts = func(member string) teams.Facts {
		f, err := relay.Facts(ctx, opts.Ledger, l.Opts.State, to.Team, opts.Config, member)
		if err != nil { // only a hint depends on it
			l.Opts.Debug("whether %s is relayed to is not known: %v", member, err)
		}
		return f
	}
	opts.Journal, opts.RecordWithin, opts.Unrecorded = l.OpenJournal, l.Opts.RecordWithin, l.unrecorded
	opts.Conversations = l.carrying.Conversations
	r.sender, err = mail.New(ctx, opts)
	return r, err
}

// unrecorded warns that the journal cannot be used: in a command, once. The message is sent anyway.
func (l inboxWay) unrecorded(err error) {
	l.mu.Lock()
	warned := l.warned && l.carrying.alone
	l.warned = true
	l.mu.Unlock()
	if !warned {
		l.Opts.Warn(fmt.Errorf("%w; the history may lack this message", err))
	}
}

// send sends a message to a member: as a prompt if possible, or else as a row.
func (r *row) send(ctx context.Context, member string, m mail.Message, opts promptOptions, follow bool) (api.Sent, error) {
	sent, reason, err := r.prompt(ctx, member, m, opts)
	if err != nil || reason == "" {
		return sent, err
	}
	if opts != (promptOptions{}) {
		return sent, notPrompted(reason)
	}
	track := r.fates.track(follow)
	d, err := r.append(ctx, member, m, track)
	if err != nil {
		return view.Sent(d), err
	}
	if track {
		r.put = append(r.put, d)
	}
	if d.Reachable() && r.sender.Waiting(ctx, d) {
		d.Reach = teams.Unread
	}
	sent = view.Sent(d)
	sent.NoAnswer = !r.sender.Answerable(member)
	return sent, nil
}

// follow starts to follow the rows that were sent. Nothing more may be sent then: the follower closes the team.
func (r *row) follow() {
	r.to.kept = len(r.put) > 0 && r.fates.follow(r.sender, r.put)
}

// append puts a message into the inbox of a member, and records the row if it is to be tracked. Even with an
// error, it returns as much of the result as is known.
func (r *row) append(ctx context.Context, member string, m mail.Message, track bool) (mail.Delivered, error) {
	d, err := r.sender.Put(ctx, member, m, inbox.AppendOptions{Force: r.force, Track: track})
	switch {
	case err != nil:
		return d, err
	case r.blind != nil:
		r.Opts.Warn(fmt.Errorf("the message is in the inbox, but will not be in the history: %w", r.blind))
	case d.Unrecorded != nil:
		r.Opts.Warn(fmt.Errorf("the message is in the inbox, but that was not recorded: %w", d.Unrecorded))
	}
	r.fates.record(ctx, r.sender, d)
	d.Seen = nil // saves memory
	return d, nil
}

// await waits until the agent has taken a message, or its model has received it.
func (l inboxWay) await(_, ctx context.Context, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	switch {
	case until != api.Consumed && until != api.Seen:
		return s, api.Decide(api.CodeUsage, "", "a message cannot be waited for until it is %q", until)
	case until == api.Seen && l.outdated(ctx, s) != nil:
		return s, api.Decide(api.CodeUnknown, "the message stays sent", "nothing shows that a model has received the message: %v", l.outdated(ctx, s))
	}
	return l.fates.await(ctx, l, s, until, timeout)
}

// outdated returns an error if the Claude Code of a message's recipient is too old.
func (l inboxWay) outdated(ctx context.Context, s api.Sent) error {
	root, err := l.Opts.Root()
	if err != nil {
		return nil // the wait reports the problem
	}
	t, err := root.Team(s.Team)
	if err != nil {
		return nil
	}
	defer t.Close() // it was only read
	c, err := t.Config(ctx)
	if err != nil {
		return nil
	}
	return t.Agent(c, s.Member).Version().Check(s.Member)
}

// notTaken is the error for a message that was not taken within a time. ctx may have ended.
func (l inboxWay) notTaken(ctx context.Context, t *teams.Team, s api.Sent, after time.Duration) error {
	what := "nothing shows that " + s.Member + " has taken the message"
	if box, err := inbox.Open(t, s.Member, l.Opts.Locker); err == nil {
		rows, err := box.Read(context.WithoutCancel(ctx))
		if t := inbox.Track(rows, s.ID); err == nil && t != nil && t.Look(&inbox.Seen{Rows: rows}, false) == inbox.Unconsumed {
			what = s.Member + " has not taken the message, which stays in its inbox"
		}
	}
	if c, err := t.Config(context.WithoutCancel(ctx)); err == nil && t.Ended(c, time.Now())[s.Member] {
		what += ": its process has ended"
	}
	return api.Decide(api.CodeTimeout, "", "timed out after %s: %s", after, what)
}

// notSeen is the error for a message that was taken, but for which nothing shows within a time that the model
// received it.
func (l inboxWay) notSeen(t *teams.Team, s api.Sent, after time.Duration) error {
	hint := ""
	if c, err := t.Config(context.Background()); err == nil {
		if len(t.Agent(c, s.Member).Transcripts()) == 0 {
			hint = "no transcript of " + s.Member + " was found"
		}
	}
	return api.Decide(api.CodeTimeout, hint, "timed out after %s: %s has taken the message, but nothing shows that its model has received it", after, s.Member)
}
