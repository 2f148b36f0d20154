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

// intake claims rows of the inbox. Its fields are what it knows of the inbox between two claims.
type intake struct {
	*Relay
	dirty       bool            // the inbox may have changed since it was read
	more        bool            // rows are left in it because the queue was full
	seen        *emptyInbox     // the file when nothing was left to claim; nil if unknown
	unwritten   map[string]bool // deliveries claimed by this relay whose rows are known to be unmarked
	named       map[string]bool // deliveries that rows name, already checked against the ledger
	claimErr    string          // why claiming fails; empty if it works
	claimLocked bool            // claiming fails since another program holds a lock of the inbox

	holds []ledger.Hold // held senders, whose rows stay in the inbox; see guard
}

// emptyInbox identifies an inbox file in which nothing was left to claim.
type emptyInbox struct {
	info fs.FileInfo // nil if there was no file
}

// recordTimeout bounds recording the result of a claim, which happens even while the relay shuts down.
const recordTimeout = 10 * time.Second

// claim claims unread rows until [MaxAhead] deliveries are open, and removes rows that are done. It waits
// until half of the room is free, because each claim rewrites the whole file, and an agent that polls the
// file may find it locked.
func (l *intake) claim(ctx context.Context) error {
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
		return nil // claimed when there is room
	}
	config, err := l.config(ctx)
	if err != nil {
		return err
	}
	// Before the file is read, so that a later change is noticed next time.
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
		l.dirty, l.more, l.seen = false, false, &emptyInbox{info: now}
		return nil
	}
	// The ledger comes before the file: a row that is marked as taken but unknown to the ledger would be
	// lost.
	if len(plan.Fresh) > 0 {
		err := l.ledger.Claim(ctx, plan.Fresh...)
		if errors.Is(err, ledger.ErrHeld) {
			return l.claim(ctx) // a person has held a sender in the meantime; nothing was claimed
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
	if _, err := l.waiting(ctx, config); err != nil { // skips rows that are not worth starting the agent for
		return err
	}
	// Our own write is a change too, and causes one more look at the file.
	l.dirty, l.more, l.seen = false, plan.More, nil
	return nil
}

// plan decides which rows are marked with which deliveries. It claims at most limit.
func (l *intake) plan(ctx context.Context, config *teams.Config, limit int, unmarked []ledger.Delivery) (*claim.Plan, error) {
	rows, err := l.box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return nil, err
	}
	if err := l.warnUnknown(ctx, rows); err != nil {
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

// recordMarks records in the ledger which rows were marked.
func (l *intake) recordMarks(ctx context.Context, plan *claim.Plan) error {
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
		// A relay that was killed before it recorded this may have marked the row, which was then removed as
		// read.
		settle(ledger.Failed, ledger.CauseUnknown.Reason("its row is gone, and nothing tells whether anybody has read it"), id)
	}
	return err
}

// config reads the team's config.json. It must still be the team that the relay was made for: a row of
// another team must not reach this agent.
func (r *Relay) config(ctx context.Context) (*teams.Config, error) {
	if err := r.opts.Team.Exists(); err != nil {
		return nil, err
	}
	c, err := r.opts.Team.Config(ctx)
	if err != nil {
		return nil, err
	}
	if i := c.Instance(); i.CreatedAt != r.post.CreatedAt {
		return nil, fmt.Errorf("relay: team %s was made anew: %w", i.Team, teams.ErrTeamGone)
	}
	return c, nil
}

// stat describes the inbox file; nil if there is none.
func (r *Relay) stat() (fs.FileInfo, error) {
	info, err := os.Lstat(r.box.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("relay: look at the inbox: %w", err)
	}
	return info, nil
}

// warnUnknown warns, once for each, of rows that name deliveries which were never in the ledger.
func (l *intake) warnUnknown(ctx context.Context, rows []inbox.Row) error {
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

// notPruned returns those of the missing deliveries that were never in the ledger. For a pruned delivery, the
// ledger keeps its row's key and occurrence, and the UUID is derived from these.
func (l *intake) notPruned(ctx context.Context, rows []inbox.Row, missing []string) ([]string, error) {
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

// UnknownDeliveryError reports rows that are marked as taken by deliveries that this ledger does not have: the ledger
// was lost, another ledger's relay took the rows, or somebody forged the mark. The rows are not delivered, because
// they may have been delivered already.
type UnknownDeliveryError struct {
	Inbox      string   // the path
	Deliveries []string // at least one
}

func (e *UnknownDeliveryError) Error() string {
	return fmt.Sprintf("relay: %s: %d rows say that they were taken by deliveries that are not in the ledger, the first by %.60q; they are not delivered",
		e.Inbox, len(e.Deliveries), e.Deliveries[0])
}

// waiting returns the deliveries that can go into a frame. Rows that are not for the agent are ended here as
// skipped; after a crash they are still claimed, and are skipped again.
func (l *intake) waiting(ctx context.Context, config *teams.Config) (list []ledger.Delivery, err error) {
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

// IdleReports selects which "agent is idle" reports are relayed. Reports in other forms always are.
type IdleReports string

// The choices.
const (
	AllIdleReports         IdleReports = "all"
	IdleReportsWithContent IdleReports = "summary" // those with content: a result, a failure, or the agents that were written to
	IdleReportsOfResult    IdleReports = "result"  // those with a result, a finished task, an interruption or a failure
)

// skips returns why a row is claimed but not relayed: the agent wrote it itself, or gains nothing by it. It
// returns "" for all other rows.
func (l *intake) skips(config *teams.Config, row *inbox.Row) string {
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
