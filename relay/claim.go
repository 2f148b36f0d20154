package relay

import (
	"context"
	"encoding/json"
	"errors"
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
	odd   []string // rows that say that they were taken by a delivery nobody knows
}

// claim takes the rows that wait. It returns how many it took.
func (r *Relay) claim(ctx context.Context, self bool) (int, error) {
	open, err := r.opts.Ledger.OpenCount(ctx, r.post)
	if err != nil {
		return 0, err
	}
	config, err := r.opts.Team.Config(ctx)
	if err != nil {
		return 0, err
	}
	c := &claimer{ctx: ctx, relay: r, config: config, self: self, limit: MaxAhead - open}
	if ok, err := c.needed(); err != nil || !ok {
		return 0, err
	}
	if err := r.box.Edit(ctx, c.edit); err != nil {
		return 0, err
	}
	if err := r.opts.Ledger.Mark(ctx, c.mine...); err != nil {
		return 0, err
	}
	if len(c.taken) > 0 {
		if err := r.opts.Ledger.Settle(ctx, ledger.TakenByAgent, "its row was read or removed by somebody else before it was claimed", c.taken...); err != nil {
			return 0, err
		}
	}
	for _, id := range c.odd {
		r.opts.Warn(&UnknownDeliveryError{Inbox: r.box.Path(), Delivery: id})
	}
	return len(c.mine), nil
}

// UnknownDeliveryError says that a row was taken by a relay whose ledger is not
// ours, or is gone. It is not delivered: it may have been.
type UnknownDeliveryError struct{ Inbox, Delivery string }

func (e *UnknownDeliveryError) Error() string {
	return "relay: " + e.Inbox + ": a row says that delivery " + e.Delivery + " took it, which is not in the ledger; it is not delivered"
}

// needed looks without the lock whether there is anything to do: an agent that
// polls must not find its inbox locked for nothing.
func (c *claimer) needed() (bool, error) {
	unmarked, err := c.relay.opts.Ledger.Unmarked(c.ctx, c.relay.post)
	if err != nil || len(unmarked) > 0 {
		return len(unmarked) > 0, err
	}
	rows, err := c.relay.box.Read(c.ctx)
	if errors.Is(err, inbox.ErrMissing) || errors.Is(err, inbox.ErrEmpty) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return c.limit > 0 && slices.ContainsFunc(rows, func(r inbox.Row) bool { return !r.Read && !c.keeps(&r) }), nil
}

// edit claims rows in a draft of the inbox. It may run several times.
func (c *claimer) edit(d *inbox.Draft) error {
	c.mine, c.taken, c.odd = nil, nil, nil
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
	var fresh []ledger.Delivery
	for i, row := range d.All() {
		if by := deliveryOf(&row); by != "" {
			if open[by] {
				c.mine = append(c.mine, by)
				delete(open, by)
			}
			continue
		}
		if row.Read || c.keeps(&row) {
			continue
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
				continue
			}
			if occurrences[key] == 0 {
				if occurrences[key], err = r.opts.Ledger.Occurrences(c.ctx, r.post, key); err != nil {
					return err
				}
			}
			occurrences[key]++
			p := c.delivery(&row, key, occurrences[key])
			id = p.UUID
			fresh = append(fresh, p)
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
	// In the ledger before in the file: a row that says it was taken, and of
	// which the ledger knows nothing, would be lost.
	return r.opts.Ledger.Claim(c.ctx, fresh...)
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
	var id string
	if raw, ok := row.Extra[relayedBy]; !ok || json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}

// compact removes rows that are done from the inbox, but for the last ones.
func (r *Relay) compact(ctx context.Context) error {
	open, err := r.opts.Ledger.Deliveries(ctx, ledger.DeliveryQuery{
		Root: r.post.Root, Team: r.post.Team, CreatedAt: r.post.CreatedAt, Inbox: r.post.Inbox,
		States: []ledger.DeliveryState{ledger.Claimed, ledger.FrameWritten, ledger.Accepted, ledger.Cut},
	})
	if err != nil {
		return err
	}
	_, err = r.box.Compact(ctx, KeptRows, func(row inbox.Row) bool {
		by := deliveryOf(&row)
		return row.Read && by != "" && !slices.ContainsFunc(open, func(d ledger.Delivery) bool { return d.UUID == by })
	})
	if errors.Is(err, inbox.ErrMissing) {
		return nil
	}
	return err
}
