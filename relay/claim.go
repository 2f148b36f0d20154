package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// relayedBy is the key under which a row says which delivery took it.
const relayedBy = "relayedBy"

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

// A claimer claims rows of the inbox: plan says which, by a look at the file without
// its lock, and mark marks those in one edit.
type claimer struct {
	*loop
	config *teams.Config
	limit  int // how many more may be claimed

	// The plan.
	work        bool                // there is something to do in the file
	fresh       []ledger.Delivery   // not claimed before
	skipped     int                 // how many of fresh are not for the agent; limit is for the others
	unmarked    map[string]string   // keys of the rows of claimed deliveries that are not known to be marked
	marks       map[string][]string // by key: the deliveries that its rows are marked with, in order
	occurrences map[string]int      // by key: of its deliveries, with those of the plan
	dropped     map[string][]string // by key: deliveries that were given up before their row was marked
	compact     bool                // rows that are done are to be removed
	open        []string            // deliveries whose rows stay then
	guard       *guard

	// What mark did.
	mine  []string // unmarked deliveries whose rows say so now
	taken []string // those whose rows somebody else has marked as read
	gone  []string // those without a row
	more  bool     // rows wait for which there was no room
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
	c := &claimer{loop: l, config: config, limit: MaxAhead - open}
	// Before the file is read: what comes later is seen next time.
	now, err := l.stat()
	if err != nil {
		return err
	}
	if !l.more && len(unmarked) == 0 && l.seen != nil && lockedfile.SameFile(l.seen.info, now) {
		l.dirty = false
		return nil
	}
	if err := c.plan(ctx, unmarked); err != nil {
		return err
	}
	if !c.work {
		l.dirty, l.more, l.seen = false, false, &look{info: now}
		return nil
	}
	// In the ledger before in the file: a row that says it was taken, and of
	// which the ledger knows nothing, would be lost.
	if len(c.fresh) > 0 {
		err := l.ledger.Claim(ctx, c.fresh...)
		if errors.Is(err, ledger.ErrHeld) {
			return l.claim(ctx) // a person has held a sender since that was read; nothing was claimed
		}
		if err != nil {
			return err
		}
		for _, d := range c.fresh {
			l.unwritten[d.UUID] = true
		}
	}
	if err := l.box.Edit(ctx, c.mark); err != nil {
		if errors.Is(err, lockedfile.ErrReplaced) || errors.Is(err, lockedfile.ErrClobbered) {
			clear(l.unwritten)
		}
		return err
	}
	l.at(claimed)
	if err := c.record(ctx); err != nil {
		return err
	}
	clear(l.unwritten)
	if _, err := l.waiting(ctx, config); err != nil { // skips what need not start the agent
		return err
	}
	// Our own writing is a change too, and is looked at once.
	l.dirty, l.more, l.seen = false, c.more, nil
	return nil
}

// record tells the ledger what became of the rows.
func (c *claimer) record(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	var err error
	if len(c.mine) > 0 {
		err = c.ledger.Mark(ctx, c.mine...)
	}
	if errors.Is(err, ledger.ErrUnknown) {
		err = nil
		for _, id := range c.mine {
			err = errors.Join(err, ignoreDropped(c.ledger.Mark(ctx, id), id))
		}
	}
	settle := func(state ledger.DeliveryState, reason, id string) {
		err = errors.Join(err, ignoreDropped(c.ledger.EndDeliveries(ctx, state, reason, id), id))
	}
	for _, id := range c.taken {
		settle(ledger.TakenByAgent, "its row was read by somebody else before it was claimed", id)
	}
	for _, id := range c.gone {
		if c.unwritten[id] {
			settle(ledger.TakenByAgent, "its row was removed by somebody else before it was claimed", id)
			continue
		}
		// It may have been marked, by a relay that was killed before it could say so,
		// and removed as a row that is read.
		settle(ledger.Failed, "unknown: its row is gone, and nothing tells whether anybody has read it", id)
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

// plan reads the inbox and says which rows are to be marked, with which deliveries.
func (c *claimer) plan(ctx context.Context, unmarked []ledger.Delivery) error {
	rows, err := c.box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return err
	}
	if err := c.tell(ctx, rows); err != nil {
		return err
	}
	if c.guard, err = newGuard(ctx, c); err != nil {
		return err
	}
	c.unmarked, c.marks = map[string]string{}, map[string][]string{}
	c.occurrences, c.dropped = map[string]int{}, map[string][]string{}
	pending := map[string][]string{} // by key: unmarked deliveries whose row was not met
	for _, d := range unmarked {
		c.unmarked[d.UUID] = d.Key
		pending[d.Key] = append(pending[d.Key], d.UUID)
	}
	met := func(key, id string) {
		pending[key] = slices.DeleteFunc(pending[key], func(other string) bool { return other == id })
		if len(pending[key]) == 0 {
			delete(pending, key)
		}
	}
	c.work = len(unmarked) > 0
	relayed := 0
	for i := range rows {
		row := &rows[i]
		if by := deliveryOf(row); by != "" {
			if key, ok := c.unmarked[by]; ok {
				met(key, by)
			}
			if row.Read {
				relayed++
			}
			continue
		}
		if row.Read {
			continue
		}
		key, skip := row.Key(), c.skips(c.config, row) != ""
		id := ""
		if len(pending[key]) > 0 { // claimed by us before, and not marked
			id = pending[key][0]
			met(key, id)
		} else if c.guard.held[row.From] {
			continue
		} else if !skip && len(c.fresh)-c.skipped >= c.limit {
			c.work = true
			if len(pending) == 0 {
				break // 10,000 rows are not looked through each time
			}
			continue
		} else if id, err = c.assign(ctx, row, key, skip); err != nil {
			return err
		}
		if id != "" {
			c.work = true
			c.marks[key] = append(c.marks[key], id)
		}
	}
	if c.compact = c.work && relayed >= KeptRows+KeptRows/2; c.compact {
		c.open, err = c.ledger.Open(ctx, c.post)
		return err
	}
	return nil
}

// assign returns the delivery that a row is to be marked with: that which claimed it
// before, one of the same text that was dropped before its row was marked, or a new one.
// It is empty if the row is held.
func (c *claimer) assign(ctx context.Context, row *inbox.Row, key string, skip bool) (uuid string, err error) {
	if again, err := c.again(ctx, row); again != "" || err != nil {
		return again, err
	}
	hops := 0
	if !skip { // what the agent does not get is no exchange
		var held bool
		if hops, held, err = c.guard.count(ctx, row); held || err != nil {
			return "", err
		}
	}
	if c.occurrences[key] == 0 {
		if c.occurrences[key], err = c.ledger.Occurrences(ctx, c.post, key); err != nil {
			return "", err
		}
		if c.occurrences[key] > 0 {
			if c.dropped[key], err = c.ledger.DroppedUnmarked(ctx, c.post, key); err != nil {
				return "", err
			}
		}
	}
	if left := c.dropped[key]; len(left) > 0 {
		c.dropped[key], c.unmarked[left[0]] = left[1:], key
		return left[0], nil
	}
	c.occurrences[key]++
	d := ledger.Delivery{
		UUID: deliveryUUID(c.post, key, c.occurrences[key]), InboxKey: c.post, Key: key, Occurrence: c.occurrences[key], Hops: hops,
		ID: row.ID(), From: row.From, Kind: row.Kind(), Raw: slices.Clone(row.Raw), State: ledger.Claimed, At: c.opts.Now(),
	}
	if c.fresh = append(c.fresh, d); skip {
		c.skipped++
	}
	c.unmarked[d.UUID] = key
	return d.UUID, nil
}

// again returns the delivery of a row that has an id of its own and that was taken before,
// or "". A program that writes back what it read earlier brings such a row back.
func (c *claimer) again(ctx context.Context, row *inbox.Row) (uuid string, err error) {
	if !row.HasID() {
		return "", nil
	}
	before, err := c.ledger.Marked(ctx, c.post, row.ID())
	if err != nil {
		return "", err
	}
	for _, d := range slices.Concat(before, c.fresh) {
		if d.ID != row.ID() {
			continue
		}
		if was := rowOf(d); was != nil && was.Digest() == row.Digest() {
			return d.UUID, nil
		}
	}
	return "", nil
}

// tell warns of rows that name deliveries which were never in the ledger, each once.
func (c *claimer) tell(ctx context.Context, rows []inbox.Row) error {
	named := map[string]bool{}
	var asked []string
	for i := range rows {
		by := deliveryOf(&rows[i])
		if by == "" {
			continue
		}
		if named[by] = true; !c.named[by] {
			asked = append(asked, by)
		}
	}
	unknown, err := c.ledger.Missing(ctx, c.post, asked...)
	if err != nil {
		return err
	}
	if unknown, err = c.notPruned(ctx, rows, unknown); err != nil {
		return err
	}
	c.named = named
	if len(unknown) > 0 {
		c.opts.Warn(&UnknownDeliveryError{Inbox: c.box.Path(), Deliveries: unknown})
	}
	return nil
}

// notPruned returns those of the missing deliveries that were never in the ledger. Of one
// that was pruned the ledger keeps the key of its row and its occurrence, from which its
// UUID is derived.
func (c *claimer) notPruned(ctx context.Context, rows []inbox.Row, missing []string) ([]string, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	unknown := map[string]bool{}
	for _, id := range missing {
		unknown[id] = true
	}
	asked := map[string]bool{}
	for i := range rows {
		if !unknown[deliveryOf(&rows[i])] || asked[rows[i].Key()] {
			continue
		}
		key := rows[i].Key()
		asked[key] = true
		n, err := c.ledger.Occurrences(ctx, c.post, key)
		if err != nil {
			return nil, err
		}
		for k := range n {
			delete(unknown, deliveryUUID(c.post, key, k+1))
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

// mark marks the rows that were planned, in a draft of the inbox. It may run several
// times. What has come since the plan was made is left for the next one.
func (c *claimer) mark(d *inbox.Draft) error {
	c.mine, c.taken, c.gone, c.more = nil, nil, nil, false
	unmarked, marks, left := maps.Clone(c.unmarked), maps.Clone(c.marks), 0
	for _, ids := range marks {
		left += len(ids)
	}
	marked := func(id string) {
		if _, ok := unmarked[id]; ok {
			c.mine = append(c.mine, id)
			delete(unmarked, id)
		}
	}
	read := map[string]bool{} // keys of rows that others have marked
	var done []int            // rows that may be removed
	for i, row := range d.All() {
		by := deliveryOf(&row)
		switch {
		case by != "":
			marked(by)
			if c.compact && row.Read && !slices.Contains(c.open, by) {
				done = append(done, i)
			}
			continue
		case row.Read:
			if len(unmarked) > 0 {
				read[row.Key()] = true
			}
			continue
		}
		key := row.Key()
		if ids := marks[key]; len(ids) == 0 {
			if !c.guard.held[row.From] {
				c.more = true
			}
			if c.more && left == 0 && len(unmarked) == 0 {
				break // nothing that follows is of the plan
			}
			continue
		}
		if err := d.Set(i, "read", true); err != nil {
			return err
		}
		id := marks[key][0]
		if err := d.Set(i, relayedBy, id); err != nil {
			return err
		}
		marked(id)
		marks[key], left = marks[key][1:], left-1
	}
	for id, key := range unmarked {
		if read[key] {
			c.taken = append(c.taken, id)
		} else {
			c.gone = append(c.gone, id)
		}
	}
	// Rows that are done are removed, but for the last [KeptRows] of them.
	for _, i := range done[:max(0, len(done)-KeptRows)] {
		d.Remove(i)
	}
	return nil
}

// deliveryUUID derives the UUID of a delivery from the row that it is of.
func deliveryUUID(p ledger.InboxKey, key string, occurrence int) string {
	return derive(keyName(p), key, strconv.Itoa(occurrence))
}

// waiting returns the deliveries that can go into a frame. Those of rows that are not for the
// agent end here, as skipped: a crash before that leaves them claimed, and they come here again.
func (l *loop) waiting(ctx context.Context, config *teams.Config) (list []ledger.Delivery, err error) {
	all, err := l.ledger.Waiting(ctx, l.post)
	for _, d := range all {
		reason := ""
		if row := rowOf(d); row != nil && !d.Person {
			reason = l.skips(config, row)
		}
		if reason == "" {
			list = append(list, d)
		} else if err := ignoreDropped(l.ledger.EndDeliveries(ctx, ledger.Skipped, reason, d.UUID), d.UUID); err != nil {
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

// deliveryOf returns the delivery that a row says it was taken by.
func deliveryOf(row *inbox.Row) string {
	raw, ok := row.Extra[relayedBy]
	if !ok {
		return ""
	}
	// As we write it: faster, and asked of each row each time.
	if n := len(raw); n >= 2 && uuid.Validate(string(raw[1:n-1])) == nil && raw[0] == '"' && raw[n-1] == '"' {
		return string(raw[1 : n-1])
	}
	var id string
	if json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}
