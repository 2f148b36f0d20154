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
	"strings"
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

	holds      []ledger.Hold // senders whose rows are left in the inbox, see guard
	heldReason string        // the same for people; empty if there are none
}

// A claimer claims rows of the inbox: plan says which, by a look at the file without
// its lock, and mark marks those in one edit.
type claimer struct {
	*loop
	config *teams.Config
	self   bool // the agent reads its inbox itself: rows stay for it
	limit  int  // how many more may be claimed

	// The plan.
	work     bool                // there is something to do in the file
	fresh    []ledger.Delivery   // not claimed before
	unmarked map[string]string   // keys of the rows of claimed deliveries that are not known to be marked
	marks    map[string][]string // by key: the deliveries that its rows are marked with, in order
	left     int                 // how many those are
	compact  bool                // rows that are done are to be removed
	open     []string            // deliveries whose rows stay then
	guard    *guard

	// What mark did.
	mine  []string // unmarked deliveries whose rows say so now
	taken []string // those whose rows somebody else has marked as read
	gone  []string // those without a row
	more  bool     // rows wait for which there was no room
}

// look is what an inbox was like when nothing in it was left to claim.
type look struct {
	info fs.FileInfo // nil where there was none
	self bool
}

// recordTimeout bounds how long the result of a claim is recorded. That is done even if
// the relay is being ended.
const recordTimeout = 10 * time.Second

// claim takes rows that wait, if there can be any, until [MaxAhead] are claimed.
//
// It takes many at once: only when half of the room is free. Each time the whole
// file is written, and an agent that polls it can find it locked. Rows that are done
// are removed in the same edit.
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
	c := &claimer{loop: l, config: config, self: l.readsOwnInbox(config), limit: MaxAhead - open}
	// Before the file is read: what comes later is seen next time.
	now, err := l.stat()
	if err != nil {
		return err
	}
	if !l.more && len(unmarked) == 0 && l.seen != nil && l.seen.self == c.self && same(l.seen.info, now) {
		l.dirty = false
		return nil
	}
	if err := c.plan(ctx, unmarked); err != nil {
		return err
	}
	if !c.work {
		l.dirty, l.more, l.seen = false, false, &look{info: now, self: c.self}
		return nil
	}
	// In the ledger before in the file: a row that says it was taken, and of
	// which the ledger knows nothing, would be lost.
	if len(c.fresh) > 0 {
		if err := l.ledger.Claim(ctx, c.fresh...); err != nil {
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

// same reports whether a file has not been written between two looks at it.
func same(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// plan reads the inbox and says which rows are to be marked, with which deliveries.
// It also tells of rows that say they were taken by a delivery that is not in the
// ledger, each once.
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
	pending := map[string][]string{} // by key of the row
	for _, d := range unmarked {
		c.unmarked[d.UUID] = d.Key
		pending[d.Key] = append(pending[d.Key], d.UUID)
	}
	c.work = len(unmarked) > 0
	relayed := 0
	waiting := len(unmarked) // those whose row was not met
	occurrences := map[string]int{}
	dropped := map[string][]string{} // by key: they were given up before their row was marked
	for i := range rows {
		row := &rows[i]
		if by := deliveryOf(row); by != "" {
			if key, ok := c.unmarked[by]; ok {
				pending[key] = slices.DeleteFunc(pending[key], func(id string) bool { return id == by })
				waiting--
			}
			if row.Read {
				relayed++
			}
			continue
		}
		if row.Read || c.self {
			continue
		}
		if row.From == c.opts.Member || c.noise(row) {
			c.work = true
			continue
		}
		key := row.Key()
		if len(pending[key]) > 0 { // claimed by us before, and not marked
			c.marks[key] = append(c.marks[key], pending[key][0])
			pending[key] = pending[key][1:]
			waiting--
			continue
		}
		if c.guard.held[row.From] {
			continue
		}
		if len(c.fresh) >= c.limit {
			c.work = true
			if waiting <= 0 {
				break // 10,000 rows are not looked through each time
			}
			continue
		}
		again, err := c.again(ctx, row)
		if err != nil {
			return err
		}
		if again != "" {
			c.work = true
			c.marks[key] = append(c.marks[key], again)
			continue
		}
		hops, held, err := c.guard.count(ctx, row)
		if err != nil {
			return err
		}
		if held {
			continue
		}
		c.work = true
		if occurrences[key] == 0 {
			if occurrences[key], err = c.ledger.Occurrences(ctx, c.post, key); err != nil {
				return err
			}
			if occurrences[key] > 0 {
				if dropped[key], err = c.ledger.DroppedUnmarked(ctx, c.post, key); err != nil {
					return err
				}
			}
		}
		if left := dropped[key]; len(left) > 0 {
			c.marks[key] = append(c.marks[key], left[0])
			c.unmarked[left[0]] = key
			dropped[key] = left[1:]
			continue
		}
		occurrences[key]++
		d := c.delivery(row, key, occurrences[key])
		d.Hops = hops
		c.fresh = append(c.fresh, d)
		c.marks[key] = append(c.marks[key], d.UUID)
		c.unmarked[d.UUID] = key
	}
	for _, ids := range c.marks {
		c.left += len(ids)
	}
	if c.compact = c.work && relayed >= KeptRows+KeptRows/2; c.compact {
		if c.open, err = c.ledger.Open(ctx, c.post); err != nil {
			return err
		}
	}
	return nil
}

// again returns the delivery of a row that has an id of its own and that was taken
// before, or "". A program that writes back what it read earlier brings such a row back
// as it was before it was taken.
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
		was, err := inbox.Parse(slices.Concat([]byte("["), d.Raw, []byte("]")))
		if err == nil && len(was) == 1 && was[0].Digest() == row.Digest() {
			return d.UUID, nil
		}
	}
	return "", nil
}

// tell warns of rows that name deliveries which were never in the ledger, each once.
func (c *claimer) tell(ctx context.Context, rows []inbox.Row) error {
	known := make(map[string]bool, len(c.named))
	var asked []string
	for i := range rows {
		switch by := deliveryOf(&rows[i]); {
		case by == "":
		case c.named[by]:
			known[by] = true
		default:
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
	for _, by := range asked {
		known[by] = true // or warned of
	}
	c.named = known
	if len(unknown) > 0 {
		c.opts.Warn(&UnknownDeliveryError{Inbox: c.box.Path(), Deliveries: unknown})
	}
	return nil
}

// notPruned returns those of the missing deliveries that were never in the ledger. Of a
// delivery that was pruned the ledger keeps the key of its row and its occurrence. Its
// UUID is derived from both, so it can be computed again from the row that names it.
func (c *claimer) notPruned(ctx context.Context, rows []inbox.Row, missing []string) ([]string, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	unknown := make(map[string]bool, len(missing))
	for _, id := range missing {
		unknown[id] = true
	}
	asked := map[string]bool{}
	for i := range rows {
		if !unknown[deliveryOf(&rows[i])] {
			continue
		}
		key := rows[i].Key()
		if asked[key] {
			continue
		}
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
	unmarked, marks, left := maps.Clone(c.unmarked), maps.Clone(c.marks), c.left
	read := map[string]bool{} // keys of rows that others have marked
	var relayed []taken
	for i, row := range d.All() {
		if by := deliveryOf(&row); by != "" {
			if _, ok := unmarked[by]; ok {
				c.mine = append(c.mine, by)
				delete(unmarked, by)
			}
			if row.Read {
				relayed = append(relayed, taken{i, by})
			}
			continue
		}
		if row.Read {
			if len(unmarked) > 0 {
				read[row.Key()] = true
			}
			continue
		}
		if c.self {
			continue
		}
		if row.From == c.opts.Member || c.noise(&row) {
			if err := d.Set(i, "read", true); err != nil {
				return err
			}
			continue
		}
		if c.guard.held[row.From] && len(marks[row.Key()]) == 0 {
			continue
		}
		if left == 0 {
			c.more = true
			break
		}
		key := row.Key()
		ids := marks[key]
		if len(ids) == 0 {
			c.more = true
			continue
		}
		if err := d.Set(i, "read", true); err != nil {
			return err
		}
		if err := d.Set(i, relayedBy, ids[0]); err != nil {
			return err
		}
		if _, ok := unmarked[ids[0]]; ok {
			c.mine = append(c.mine, ids[0])
			delete(unmarked, ids[0])
		}
		marks[key], left = ids[1:], left-1
	}
	for id, key := range unmarked {
		if read[key] {
			c.taken = append(c.taken, id)
		} else {
			c.gone = append(c.gone, id)
		}
	}
	c.remove(d, relayed)
	return nil
}

// taken is a row that a relay has taken.
type taken struct {
	row int
	by  string
}

// remove removes rows that are done, but for the last [KeptRows] of them, once half as
// many more have gathered.
func (c *claimer) remove(d *inbox.Draft, relayed []taken) {
	if !c.compact {
		return
	}
	relayed = slices.DeleteFunc(relayed, func(t taken) bool { return slices.Contains(c.open, t.by) })
	for _, t := range relayed[:max(0, len(relayed)-KeptRows)] {
		d.Remove(t.row)
	}
}

// delivery is the claim of a row that was not claimed before.
func (c *claimer) delivery(row *inbox.Row, key string, occurrence int) ledger.Delivery {
	return ledger.Delivery{
		UUID: deliveryUUID(c.post, key, occurrence), InboxKey: c.post, Key: key, Occurrence: occurrence,
		ID: row.ID(), From: row.From, Kind: row.Kind(), Raw: slices.Clone(row.Raw), State: ledger.Claimed, At: c.opts.Now(),
	}
}

// deliveryUUID derives the UUID of a delivery from the row that it is of.
func deliveryUUID(p ledger.InboxKey, key string, occurrence int) string {
	name := strings.Join([]string{p.Root, p.Team, strconv.FormatInt(p.CreatedAt, 10), p.Inbox, key, strconv.Itoa(occurrence)}, "\n")
	return uuid.NewSHA1(namespace, []byte(name)).String()
}

// noise reports whether a row is taken and not said: an agent gains nothing by
// it.
func (c *claimer) noise(row *inbox.Row) bool {
	lead, _ := c.config.Lead()
	return row.Noise() || row.Kind() == "shutdown_request" && c.opts.Member == lead.Name
}

// deliveryOf returns the delivery that a row says it was taken by.
func deliveryOf(row *inbox.Row) string {
	raw, ok := row.Extra[relayedBy]
	if !ok {
		return ""
	}
	// As we write it; it is asked of each row each time.
	if n := len(raw); n >= 2 && uuid.Validate(string(raw[1:n-1])) == nil && raw[0] == '"' && raw[n-1] == '"' {
		return string(raw[1 : n-1])
	}
	var id string
	if json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}
