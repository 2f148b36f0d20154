package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// relayedBy is the key under which a row says which delivery took it.
const relayedBy = "relayedBy"

// claimer is one edit of the inbox.
type claimer struct {
	ctx    context.Context
	relay  *Relay
	config *teams.Config
	self   bool // the agent polls its inbox itself
	limit  int  // how many more may be claimed

	mine  []string // deliveries whose rows say so, or will after the edit
	taken []string // deliveries whose rows somebody else took
	more  bool     // rows wait for which there is no room
}

// look is what an inbox was like when nothing in it was left to claim.
type look struct {
	info fs.FileInfo // nil where there was none
	self bool
}

// claim takes rows that wait, if there can be any, until [MaxAhead] are claimed.
//
// It takes many at once: only when half of the room is free. Each time the whole
// file is written anew, and an agent that polls it finds it locked for as long.
// What is done goes from the file in the same writing.
func (l *loop) claim() error {
	if !l.dirty && !l.more {
		return nil
	}
	open, err := l.opts.Ledger.OpenCount(l.ctx, l.post)
	if err != nil {
		return err
	}
	unmarked, err := l.opts.Ledger.Unmarked(l.ctx, l.post)
	if err != nil {
		return err
	}
	if open > MaxAhead/2 && len(unmarked) == 0 {
		return nil // looked at when there is room
	}
	config, err := l.config()
	if err != nil {
		return err
	}
	c := &claimer{ctx: l.ctx, relay: l.Relay, config: config, self: l.self(config), limit: MaxAhead - open}
	// Before the file is read: what comes later is seen next time.
	now, err := l.stat()
	if err != nil {
		return err
	}
	if !l.more && len(unmarked) == 0 {
		if l.seen != nil && l.seen.self == c.self && same(l.seen.info, now) {
			l.dirty = false
			return nil
		}
		// Without the lock: an agent that polls must not find its inbox locked
		// for nothing. A file that has grown since nothing in it waited has got a
		// row, as a rule.
		waiting := l.seen != nil && l.seen.info != nil && now != nil && now.Size() > l.seen.info.Size()
		if !waiting {
			if waiting, err = l.waits(c); err != nil {
				return err
			}
		}
		if !waiting {
			l.dirty, l.seen = false, &look{info: now, self: c.self}
			return nil
		}
	}
	if err := l.box.Edit(l.ctx, c.edit); err != nil {
		return err
	}
	l.at(claimed)
	err = l.opts.Ledger.Mark(l.ctx, c.mine...)
	if errors.Is(err, ledger.ErrUnknown) {
		err = nil
		for _, id := range c.mine {
			err = errors.Join(err, passed(l.opts.Ledger.Mark(l.ctx, id), id))
		}
	}
	for _, id := range c.taken {
		err = errors.Join(err, passed(l.opts.Ledger.Settle(l.ctx, ledger.TakenByAgent, "its row was read or removed by somebody else before it was claimed", id), id))
	}
	if err != nil {
		return err
	}
	// Our own writing is a change too, and is looked at once.
	l.dirty, l.more, l.seen = false, c.more, nil
	return nil
}

// config reads config.json of the team, which must still be the one that the
// relay was made for: what is claimed for another must not reach this agent.
func (l *loop) config() (*teams.Config, error) {
	if err := l.opts.Team.Exists(); err != nil {
		return nil, err
	}
	c, err := l.opts.Team.Config(l.ctx)
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

// waits reports whether there is a row to take. It also tells of rows that say
// they were taken by a delivery that is not in the ledger, each once.
func (l *loop) waits(c *claimer) (bool, error) {
	rows, err := l.box.Read(l.ctx)
	if errors.Is(err, inbox.ErrMissing) || errors.Is(err, inbox.ErrEmpty) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	waiting := false
	known := make(map[string]bool, len(l.named))
	var asked []string
	for i := range rows {
		by := deliveryOf(&rows[i])
		switch {
		case by == "":
			waiting = waiting || !rows[i].Read && !c.keeps(&rows[i])
		case l.named[by]:
			known[by] = true
		default:
			asked = append(asked, by)
		}
	}
	unknown, err := l.opts.Ledger.Missing(l.ctx, l.post, asked...)
	if err != nil {
		return false, err
	}
	for _, by := range asked {
		known[by] = true // or told of
	}
	l.named = known
	if len(unknown) > 0 {
		l.opts.Warn(&UnknownDeliveryError{Inbox: l.box.Path(), Deliveries: unknown})
	}
	return waiting, nil
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

// edit claims rows in a draft of the inbox. It may run several times.
func (c *claimer) edit(d *inbox.Draft) error {
	c.mine, c.taken, c.more = nil, nil, false
	r := c.relay
	unmarked, err := r.opts.Ledger.Unmarked(c.ctx, r.post)
	if err != nil {
		return err
	}
	pending := map[string][]ledger.Delivery{} // by key of the row
	open := map[string]bool{}
	for _, p := range unmarked {
		pending[p.Key] = append(pending[p.Key], p)
		open[p.UUID] = true
	}
	occurrences := map[string]int{}
	dropped := map[string][]string{} // by key: they were given up before their row was marked
	var fresh []ledger.Delivery
	var relayed []taken
	for i, row := range d.All() {
		if by := deliveryOf(&row); by != "" {
			if open[by] {
				c.mine = append(c.mine, by)
				delete(open, by)
			}
			if row.Read {
				relayed = append(relayed, taken{i, by})
			}
			continue
		}
		if row.Read || c.keeps(&row) {
			continue
		}
		if len(fresh) >= c.limit && len(open) == 0 {
			c.more = true
			break // 10,000 rows are not looked through each time
		}
		if row.From == r.opts.Member || c.noise(&row) {
			if err := d.Set(i, "read", true); err != nil {
				return err
			}
			continue
		}
		key := row.Key()
		var id string
		for _, p := range pending[key] {
			if open[p.UUID] {
				id = p.UUID // claimed by us before a crash, and not marked
				delete(open, id)
				break
			}
		}
		if id == "" {
			if len(fresh) >= c.limit {
				c.more = true
				continue
			}
			if occurrences[key] == 0 {
				if occurrences[key], err = r.opts.Ledger.Occurrences(c.ctx, r.post, key); err != nil {
					return err
				}
				if occurrences[key] > 0 {
					if dropped[key], err = r.opts.Ledger.DroppedUnmarked(c.ctx, r.post, key); err != nil {
						return err
					}
				}
			}
			if left := dropped[key]; len(left) > 0 {
				id, dropped[key] = left[0], left[1:]
			} else {
				occurrences[key]++
				p := c.delivery(&row, key, occurrences[key])
				id = p.UUID
				fresh = append(fresh, p)
			}
		}
		if err := d.Set(i, "read", true); err != nil {
			return err
		}
		if err := d.Set(i, relayedBy, id); err != nil {
			return err
		}
		c.mine = append(c.mine, id)
	}
	for id := range open {
		c.taken = append(c.taken, id)
	}
	if err := c.compact(d, relayed); err != nil {
		return err
	}
	// In the ledger before in the file: a row that says it was taken, and of
	// which the ledger knows nothing, would be lost.
	return r.opts.Ledger.Claim(c.ctx, fresh...)
}

// taken is a row that a relay has taken.
type taken struct {
	row int
	by  string
}

// compact removes rows that are done, but for the last [KeptRows] of them, once
// half as many more have gathered.
func (c *claimer) compact(d *inbox.Draft, relayed []taken) error {
	if len(relayed) < KeptRows+KeptRows/2 {
		return nil
	}
	open, err := c.relay.opts.Ledger.Open(c.ctx, c.relay.post)
	if err != nil {
		return err
	}
	relayed = slices.DeleteFunc(relayed, func(t taken) bool { return slices.Contains(open, t.by) })
	for _, t := range relayed[:max(0, len(relayed)-KeptRows)] {
		d.Remove(t.row)
	}
	return nil
}

// delivery is the claim of a row that was not claimed before.
func (c *claimer) delivery(row *inbox.Row, key string, occurrence int) ledger.Delivery {
	p := c.relay.post
	name := strings.Join([]string{p.Root, p.Team, strconv.FormatInt(p.CreatedAt, 10), p.Inbox, key, strconv.Itoa(occurrence)}, "\n")
	return ledger.Delivery{
		UUID: uuid.NewSHA1(namespace, []byte(name)).String(), Post: p, Key: key, Occurrence: occurrence,
		ID: row.ID(), From: row.From, Kind: row.Kind(), Raw: slices.Clone(row.Raw), State: ledger.Claimed, At: time.Now(),
	}
}

// noise reports whether a row is taken and not said: an agent gains nothing by
// it.
func (c *claimer) noise(row *inbox.Row) bool {
	lead, _ := c.config.Lead()
	return row.Noise() || row.Kind() == "shutdown_request" && c.relay.opts.Member == lead.Name
}

// keeps reports whether a row stays for the agent itself: a lead of the first
// generation polls its inbox, and acts on these as no text can make it.
func (c *claimer) keeps(row *inbox.Row) bool {
	if !c.self {
		return false
	}
	kind := row.Kind()
	return slices.ContainsFunc([]string{"shutdown_", "permission_", "plan_", "sandbox_", "mode_set_", "team_permission_"},
		func(prefix string) bool { return strings.HasPrefix(kind, prefix) })
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
