package relay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claim"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// inboxState is what the loop knows of the inbox between two claims.
type inboxState struct {
	dirty     bool            // the inbox may have changed since it was read
	more      bool            // rows wait in it for which there was no room
	seen      *look           // the file when nothing in it waited; nil if that is not known
	unwritten map[string]bool // deliveries that were claimed here and whose rows were certainly not marked
	named     map[string]bool // deliveries that rows name and that were looked up
	claimErr  string          // why claiming fails; empty if it does not

	holds []ledger.Hold // senders whose rows are left in the inbox, see guard
}

// look is what an inbox was like when nothing in it was left to claim.
type look struct {
	info fs.FileInfo // nil where there was none
}

// recordTimeout bounds how long the result of a claim is recorded. That is done even if
// the relay is being ended.
const recordTimeout = 10 * time.Second

// claim takes rows that wait, if there can be any, until [MaxAhead] are claimed, and removes
// rows that are done. It waits until half of the room is free: each time the whole file is
// written, and an agent that polls it can find it locked.
func (l *loop) claim(ctx context.Context) error {
	if !l.dirty && !l.more {
		return nil
	}
	open, err := l.ledger.OpenCount(ctx, l.post)
	if err != nil {
		return err
	}
	unmarked, err := l.ledger.Unmarked(ctx, l.post)
	if err != nil {
		return err
	}
	if open > MaxAhead/2 && len(unmarked) == 0 {
		return nil // looked at when there is room
	}
	config, err := l.config(ctx)
	if err != nil {
		return err
	}
	// Before the file is read: what comes later is seen next time.
	now, err := l.stat()
	if err != nil {
		return err
	}
	if !l.more && len(unmarked) == 0 && l.seen != nil && lockedfile.SameFile(l.seen.info, now) {
		l.dirty = false
		return nil
	}
	plan, err := l.plan(ctx, config, MaxAhead-open, unmarked)
	if err != nil {
		return err
	}
	if !plan.Work {
		l.dirty, l.more, l.seen = false, false, &look{info: now}
		return nil
	}
	// In the ledger before in the file: a row that says it was taken, and of
	// which the ledger knows nothing, would be lost.
	if len(plan.Fresh) > 0 {
		err := l.ledger.Claim(ctx, plan.Fresh...)
		if errors.Is(err, ledger.ErrHeld) {
			return l.claim(ctx) // a person has held a sender since that was read; nothing was claimed
		}
		if err != nil {
			return err
		}
		for _, d := range plan.Fresh {
			l.unwritten[d.UUID] = true
		}
	}
	if err := l.box.Edit(ctx, plan.Mark); err != nil {
		if errors.Is(err, lockedfile.ErrReplaced) || errors.Is(err, lockedfile.ErrClobbered) {
			clear(l.unwritten)
		}
		return err
	}
	l.at(claimed)
	if err := l.recordMarks(ctx, plan); err != nil {
		return err
	}
	clear(l.unwritten)
	if _, err := l.waiting(ctx, config); err != nil { // skips what need not start the agent
		return err
	}
	// Our own writing is a change too, and is looked at once.
	l.dirty, l.more, l.seen = false, plan.More, nil
	return nil
}

// plan says which rows of the inbox are to be marked with which deliveries. At most limit may be claimed.
func (l *loop) plan(ctx context.Context, config *teams.Config, limit int, unmarked []ledger.Delivery) (*claim.Plan, error) {
	rows, err := l.box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return nil, err
	}
	if err := l.tell(ctx, rows); err != nil {
		return nil, err
	}
	g, err := newGuard(ctx, l)
	if err != nil {
		return nil, err
	}
	return claim.New(ctx, l.ledger, l.post, rows, unmarked, claim.Rules{
		Limit: limit,
		Skip:  func(row *inbox.Row) bool { return l.skips(config, row) != "" },
		Held:  func(row *inbox.Row) bool { return g.held[row.From] },
		Admit: g.count,
		Now:   l.opts.Now,
	})
}

// recordMarks tells the ledger what became of the rows.
func (l *loop) recordMarks(ctx context.Context, plan *claim.Plan) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var err error
	if len(plan.Mine) > 0 {
		err = l.ledger.Mark(ctx, plan.Mine...)
	}
	if errors.Is(err, ledger.ErrUnknown) {
		err = nil
		for _, id := range plan.Mine {
			err = errors.Join(err, ignoreDropped(l.ledger.Mark(ctx, id), id))
		}
	}
	settle := func(state ledger.DeliveryState, reason, id string) {
		err = errors.Join(err, ignoreDropped(l.ledger.End(ctx, state, reason, id), id))
	}
	for _, id := range plan.Taken {
		settle(ledger.TakenByAgent, "its row was read by somebody else before it was claimed", id)
	}
	for _, id := range plan.Gone {
		if l.unwritten[id] {
			settle(ledger.TakenByAgent, "its row was removed by somebody else before it was claimed", id)
			continue
		}
		// It may have been marked, by a relay that was killed before it could say so,
		// and removed as a row that is read.
		settle(ledger.Failed, ledger.CauseUnknown.Reason("its row is gone, and nothing tells whether anybody has read it"), id)
	}
	return err
}

// config reads config.json of the team, which must still be the one that the
// relay was made for: what is claimed for another must not reach this agent.
func (l *loop) config(ctx context.Context) (*teams.Config, error) {
	if err := l.opts.Team.Exists(); err != nil {
		return nil, err
	}
	c, err := l.opts.Team.Config(ctx)
	if err != nil {
		return nil, err
	}
	if i := c.Instance(); i.CreatedAt != l.post.CreatedAt {
		return nil, fmt.Errorf("relay: team %s was made anew: %w", i.Team, teams.ErrTeamGone)
	}
	return c, nil
}

// stat says what the inbox is like; nil where there is none.
func (l *loop) stat() (fs.FileInfo, error) {
	info, err := os.Lstat(l.box.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("relay: look at the inbox: %w", err)
	}
	return info, nil
}

// tell warns of rows that name deliveries which were never in the ledger, each once.
func (l *loop) tell(ctx context.Context, rows []inbox.Row) error {
	named := map[string]bool{}
	var asked []string
	for i := range rows {
		by := claim.Of(&rows[i])
		if by == "" {
			continue
		}
		if named[by] = true; !l.named[by] {
			asked = append(asked, by)
		}
	}
	unknown, err := l.ledger.Missing(ctx, l.post, asked...)
	if err != nil {
		return err
	}
	if unknown, err = l.notPruned(ctx, rows, unknown); err != nil {
		return err
	}
	l.named = named
	if len(unknown) > 0 {
		l.opts.Warn(&UnknownDeliveryError{Inbox: l.box.Path(), Deliveries: unknown})
	}
	return nil
}

// notPruned returns those of the missing deliveries that were never in the ledger. Of one
// that was pruned the ledger keeps the key of its row and its occurrence, from which its
// UUID is derived.
func (l *loop) notPruned(ctx context.Context, rows []inbox.Row, missing []string) ([]string, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	unknown := map[string]bool{}
	for _, id := range missing {
		unknown[id] = true
	}
	asked := map[string]bool{}
	for i := range rows {
		if !unknown[claim.Of(&rows[i])] || asked[rows[i].Key()] {
			continue
		}
		key := rows[i].Key()
		asked[key] = true
		n, err := l.ledger.Occurrences(ctx, l.post, key)
		if err != nil {
			return nil, err
		}
		for k := range n {
			delete(unknown, claim.UUID(l.post, key, k+1))
		}
	}
	return slices.DeleteFunc(missing, func(id string) bool { return !unknown[id] }), nil
}

// UnknownDeliveryError says that rows were taken by a relay whose ledger is not
// ours, or is gone, or that somebody wrote rows that say so. They are not
// delivered: they may have been.
type UnknownDeliveryError struct {
	Inbox      string   // the path
	Deliveries []string // at least one
}

func (e *UnknownDeliveryError) Error() string {
	return fmt.Sprintf("relay: %s: %d rows say that they were taken by deliveries that are not in the ledger, the first by %.60q; they are not delivered",
		e.Inbox, len(e.Deliveries), e.Deliveries[0])
}

// waiting returns the deliveries that can go into a frame. Those of rows that are not for the
// agent end here, as skipped: a crash before that leaves them claimed, and they come here again.
func (l *loop) waiting(ctx context.Context, config *teams.Config) (list []ledger.Delivery, err error) {
	all, err := l.ledger.Waiting(ctx, l.post)
	for _, d := range all {
		reason := ""
		if row := claim.Row(d); row != nil && !d.Person {
			reason = l.skips(config, row)
		}
		if reason == "" {
			list = append(list, d)
		} else if err := ignoreDropped(l.ledger.End(ctx, ledger.Skipped, reason, d.UUID), d.UUID); err != nil {
			return nil, err
		}
	}
	return list, err
}

// IdleReports says which reports that another agent is idle are relayed. Those of other forms always are.
type IdleReports string

// The choices.
const (
	AllIdleReports      IdleReports = "all"
	IdleReportsThatTell IdleReports = "summary" // those that say more: a result, a failure, or to whom the agent has written
	IdleReportsOfResult IdleReports = "result"  // those with a result, a finished task, an interruption or a failure
)

// skips returns why a row is taken and not relayed, since the agent wrote it, or gains nothing by
// it; "" for the others.
func (l *loop) skips(config *teams.Config, row *inbox.Row) string {
	lead, _ := config.Lead()
	report := row.IdleReport()
	switch {
	case row.From == l.opts.Member:
		return "the agent wrote it itself"
	case row.ConfirmsShutdown():
		return "it confirms a shutdown"
	case row.Kind() == "shutdown_request" && l.opts.Member == lead.Name:
		return "a lead is not shut down by its members"
	case report == inbox.IdleBare && l.opts.IdleReports != AllIdleReports:
		return "an idle report that says nothing else"
	case report == inbox.IdleSummary && l.opts.IdleReports == IdleReportsOfResult:
		return "an idle report without a result"
	}
	return ""
}
