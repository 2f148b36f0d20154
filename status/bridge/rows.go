package bridge

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/history"
	"teambridge/status/view"
	"teambridge/teams"
)

// rows follows rows after they were put into inboxes: in a command the command's own rows, and in a service all.
type rows interface {
	// track reports whether rows have to be tracked; follow is true if the caller will wait for them.
	track(follow bool) bool
	// record records a row that was put into an inbox.
	record(ctx context.Context, sender *mail.Sender, d mail.Delivered)
	// follow follows the rows of a sender. If it returns true, it will close the sender's team.
	follow(sender *mail.Sender, put []mail.Delivered) bool
	// await waits until the agent has taken a message, or its model has received it.
	await(ctx context.Context, l inboxWay, s api.Sent, until string, timeout time.Duration) (api.Sent, error)
}

// ownRows are the rows that a command has put into inboxes.
type ownRows struct {
	mu   sync.Mutex
	sent map[string]following
}

// following is a row that this process follows, and the sender that can look at it.
type following struct {
	sender *mail.Sender
	d      mail.Delivered
}

func followed(team, member, id string) string { return team + "\n" + member + "\n" + id }

func (r *ownRows) track(follow bool) bool { return follow }

func (r *ownRows) record(ctx context.Context, sender *mail.Sender, d mail.Delivered) {
	if d.Seen != nil {
		sender.Record(ctx, journal.SnapshotOf(sender.Key(d), d.Seen))
	}
}

func (r *ownRows) follow(sender *mail.Sender, put []mail.Delivered) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range put {
		r.sent[followed(d.Team, d.Member, d.ID)] = following{sender, d}
	}
	return true
}

// await waits until the agent has taken a message that this process has sent, or its model has received it.
func (r *ownRows) await(ctx context.Context, l inboxWay, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	r.mu.Lock()
	f, own := r.sent[followed(s.Team, s.Member, s.ID)]
	r.mu.Unlock()
	if !own {
		return s, api.Decide(api.CodeNotFound, "a service follows all messages", "the message %q to %s was not sent by this process", s.ID, s.Member)
	}
	taken := false
	var err error
	if until == api.Seen {
		taken, err = f.sender.AwaitSeen(ctx, f.d)
	} else {
		err = f.sender.Await(ctx, f.d)
	}
	if err == nil || Agent(ctx) { // an agent's server runs for long, and does not ask again
		r.mu.Lock()
		delete(r.sent, followed(s.Team, s.Member, s.ID))
		r.mu.Unlock()
		defer f.sender.Team().Close() // it was only read
	}
	switch {
	case err == nil:
		s.State = until
	case !errors.Is(ctx.Err(), context.DeadlineExceeded):
	case taken:
		err = l.notSeen(f.sender.Team(), s, timeout)
	default:
		err = l.notTaken(ctx, f.sender.Team(), s, timeout)
	}
	return s, err
}

func (c *Carrying) track(bool) bool { return true }

func (c *Carrying) record(ctx context.Context, sender *mail.Sender, d mail.Delivered) {
	c.Record(ctx, sender, d)
}

func (c *Carrying) follow(sender *mail.Sender, put []mail.Delivered) bool {
	return c.Follow(sender, put)
}

// await waits until the receipt of a message that the service follows has the state.
func (c *Carrying) await(ctx context.Context, l inboxWay, s api.Sent, until string, timeout time.Duration) (api.Sent, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return s, err
	}
	t, err := root.Team(s.Team)
	if err != nil {
		return s, err
	}
	defer t.Close() // it was only read
	news, done := c.News()
	defer done()
	look := time.NewTicker(history.Recheck) // nothing signals the end of a team
	defer look.Stop()
	for {
		gone := t.Exists()
		r, err := l.Receipt(context.WithoutCancel(ctx), s.Team, 0, s.Member, s.ID)
		switch {
		case err != nil:
			return s, cmp.Or(gone, err)
		case r.State == api.Lost:
			return s, api.Decide(api.CodeLost, view.Explain(inbox.ErrLost).Hint, "%s", r.Reason)
		case r.State == api.Unknown && gone == nil:
			return s, api.Decide(api.CodeUnknown, view.Explain(inbox.ErrUnclear).Hint, "%s", r.Reason)
		case until == api.Seen && r.SeenAt != nil, until == api.Consumed && r.State == api.Consumed:
			s.State = until
			return s, nil
		case gone != nil:
			return s, gone
		case r.State == api.Consumed: // its relay may have taken it, and given it up
			key := inbox.SendKey{InboxKey: inbox.Key(root.Path(), teams.Instance{Team: r.Team, CreatedAt: r.CreatedAt}, r.Member), ID: s.ID}
			lg, err := l.Opts.Ledger(ctx)
			if err != nil {
				return s, err
			}
			if fate, err := mail.Relayed(ctx, lg, key, nil); fate == inbox.Lost || fate == inbox.Unknown {
				return s, err
			}
		}
		select {
		case <-news:
		case <-look.C:
		case <-ctx.Done():
			switch {
			case !errors.Is(ctx.Err(), context.DeadlineExceeded):
				return s, context.Cause(ctx)
			case r.State == api.Consumed:
				return s, l.notSeen(t, s, timeout)
			}
			return s, l.notTaken(ctx, t, s, timeout)
		}
	}
}
