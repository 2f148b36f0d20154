package relay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
)

// Two agents that answer each other [MaxExchanges] times within [exchangeWindow] would continue for ever, so further
// messages from one of them to the other are held.
const (
	MaxExchanges   = 20
	exchangeWindow = time.Minute
)

// guard detects agents that answer each other for ever. It belongs to one plan: all messages of a sender that
// are claimed together share a hop count.
type guard struct {
	*intake
	held   map[string]bool // by sender
	hops   map[string]int  // by sender; only senders counted so far
	people []string        // members that are people; nil until needed
}

// newGuard reads the current holds.
func newGuard(ctx context.Context, l *intake) (*guard, error) {
	holds, err := l.ledger.Held(ctx, l.post)
	if err != nil {
		return nil, err
	}
	g := &guard{intake: l, held: map[string]bool{}, hops: map[string]int{}}
	for _, h := range holds {
		g.held[h.Sender] = true
	}
	l.holds = holds
	return g, nil
}

// count returns the hop count of a row that is to be claimed, and whether its sender is now held.
func (g *guard) count(ctx context.Context, row *inbox.Row) (hops int, held bool, err error) {
	if hops, known := g.hops[row.From]; known {
		return hops, false, nil
	}
	if g.people == nil {
		joins, err := g.ledger.Joins(ctx, g.post.Root, g.post.Team, g.post.CreatedAt)
		if err != nil {
			return 0, false, err
		}
		g.people = []string{"user"}
		for _, j := range joins {
			g.people = append(g.people, j.Member)
		}
	}
	now := g.opts.Now()
	x := ledger.Exchanges{}
	if row.From != "" && len(row.From) <= maxSender && !slices.Contains(g.people, row.From) {
		x, err = g.ledger.Exchanges(ctx, g.post, row.From, g.people, now, exchangeWindow, MaxExchanges-1)
		if err != nil {
			return 0, false, err
		}
	}
	if x.Since.IsZero() || now.Sub(x.Since) > exchangeWindow || x.Since.After(now) { // or the clock was set back
		g.hops[row.From] = x.Hops
		return x.Hops, false, nil
	}
	h := ledger.Hold{InboxKey: g.post, Sender: row.From, Since: now, Reason: fmt.Sprintf(
		"%s and %s answered each other %d times within %s; see teambridge relay release", row.From, g.opts.Member, MaxExchanges, exchangeWindow)}
	if err := g.ledger.Hold(ctx, h); err != nil {
		return 0, false, err
	}
	g.held[row.From] = true
	g.opts.Warn(fmt.Errorf("relay: the messages of %s to %s are held: %s", h.Sender, g.opts.Member, h.Reason))
	g.holds = append(slices.Clone(g.holds), h)
	return 0, true, nil
}

// maxSender is the longest sender name that can be an inbox.
const maxSender = 256

// heldReason describes the holds to people; empty if there are none.
func (l *intake) heldReason() string {
	if len(l.holds) == 0 {
		return ""
	}
	var names []string
	for _, h := range l.holds {
		names = append(names, h.Sender)
	}
	return "the messages of " + strings.Join(names, ", ") + " are held: " + l.holds[len(l.holds)-1].Reason
}

// recordRecipients records the agents that this agent has written to, according to its own output.
func (l *intake) recordRecipients(ctx context.Context, recipients []string) error {
	var names []string
	for _, name := range recipients {
		if config, err := l.config(ctx); err == nil {
			if member, err := config.Resolve(name, nil); err == nil {
				name = member
			}
		}
		if name != "" && len(name) <= maxSender {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	err := l.ledger.Answered(ctx, l.post, names...)
	if temporary(err) || ctx.Err() != nil {
		return nil // this exchange is lost, which is harmless
	}
	return err
}

// released reports whether a hold has ended.
func (l *intake) released(ctx context.Context) (bool, error) {
	if len(l.holds) == 0 {
		return false, nil
	}
	now, err := l.ledger.Held(ctx, l.post)
	if err != nil {
		return false, err
	}
	return !slices.EqualFunc(now, l.holds, func(a, b ledger.Hold) bool { return a.Sender == b.Sender }), nil
}

// why joins the reasons that the status shows. Those in more come last.
func (l *loop) why(more ...string) string {
	return cmp.Or(append([]string{l.claimErr, l.ledgerErr, l.heldReason(), l.session.Lost}, more...)...)
}
