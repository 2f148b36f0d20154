// Package claim takes rows of an inbox for those who cannot read it: agents of relays, and members on other machines.
//
// A row is taken in three steps. Its delivery is committed to the ledger; the row is marked as read, with the
// delivery's UUID, in an edit under the lock of the inbox; and the ledger records the mark. A crash between two steps
// loses nothing and repeats nothing: the next [Plan] finds the delivery by the row's key, or by its UUID in the row.
//
// A program that read the inbox earlier may write back its old content. A row with an id of its own then keeps
// its earlier delivery. Rows without an id cannot be told apart, so as many are taken as there are.
package claim

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
)

// KeptRows is how many rows that are done stay in the file. Others are removed, many at once.
const KeptRows = 100

// Ledger is the part of a [ledger.Ledger] that a plan needs. Nothing calls it while the lock of the inbox is held.
type Ledger interface {
	Open(context.Context, inbox.InboxKey) (uuids []string, err error)
	Marked(ctx context.Context, k inbox.InboxKey, id string) ([]ledger.Delivery, error)
	DroppedUnmarked(ctx context.Context, k inbox.InboxKey, key string) (uuids []string, err error)
	Occurrences(ctx context.Context, k inbox.InboxKey, key string) (int, error)
}

// Rules differ between the receivers.
type Rules struct {
	Limit int // how many rows may be taken; others stay unread in the file

	// Skip, if not nil, reports whether a row is taken but not passed on. Such rows do not count for Limit.
	Skip func(*inbox.Row) bool
	// Discard, if not nil, reports whether a row is only marked as read, without a delivery.
	Discard func(*inbox.Row) bool
	// Held reports whether the messages of the row's sender are left in the inbox.
	Held func(*inbox.Row) bool
	// Admit, if not nil, counts a row that is about to be taken and passed on. It returns the row's hop count, or
	// that its sender is now held.
	Admit func(context.Context, *inbox.Row) (hops int, held bool, err error)
	// Now returns the time of a claim.
	Now func() time.Time
}

// Plan lists the rows of an inbox to mark, with their deliveries, from a reading of the file without its lock.
type Plan struct {
	Work    bool              // there is something to do in the file
	Fresh   []ledger.Delivery // to be committed before the rows are marked
	Skipped map[string]bool   // UUIDs of deliveries in Fresh that the receiver does not get

	// The results of the last [Plan.Mark].
	Mine  []string // unmarked deliveries whose rows name them now
	Taken []string // unmarked deliveries whose rows another program has marked as read
	Gone  []string // unmarked deliveries without a row
	More  bool     // unread rows are left whose senders are not held

	ledger      Ledger
	inbox       inbox.InboxKey
	rules       Rules
	unmarked    map[string]string   // row keys of claimed deliveries whose rows may be unmarked, by UUID
	marks       map[string][]string // by key: the deliveries to mark its rows with, in order
	occurrences map[string]int      // by key: the number of its deliveries, including the plan's
	dropped     map[string][]string // by key: deliveries that were dropped before their row was marked
	compact     bool                // remove rows that are done
	open        []string            // deliveries whose rows stay even then
}

// New plans the changes to the rows of an inbox. unmarked has its deliveries without a recorded mark.
func New(ctx context.Context, l Ledger, k inbox.InboxKey, rows []inbox.Row, unmarked []ledger.Delivery, rules Rules) (*Plan, error) {
	p := &Plan{
		Work: len(unmarked) > 0, Skipped: map[string]bool{}, ledger: l, inbox: k, rules: rules,
		unmarked: map[string]string{}, marks: map[string][]string{}, occurrences: map[string]int{}, dropped: map[string][]string{},
	}
	pending := map[string][]string{} // by key: unmarked deliveries whose row was not found yet
	for _, d := range unmarked {
		p.unmarked[d.UUID] = d.Key
		pending[d.Key] = append(pending[d.Key], d.UUID)
	}
	met := func(key, id string) {
		pending[key] = slices.DeleteFunc(pending[key], func(other string) bool { return other == id })
		if len(pending[key]) == 0 {
			delete(pending, key)
		}
	}
	done := 0
	for i := range rows {
		row := &rows[i]
		if by := Of(row); by != "" {
			if key, ok := p.unmarked[by]; ok {
				met(key, by)
			}
			if row.Read {
				done++
			}
			continue
		}
		if row.Read {
			continue
		}
		key, skip, id := row.Key(), rules.Skip != nil && rules.Skip(row), ""
		var err error
		if len(pending[key]) > 0 { // claimed before, but not marked
			id = pending[key][0]
			met(key, id)
		} else if rules.Discard != nil && rules.Discard(row) {
			p.Work = true
			p.marks[key] = append(p.marks[key], "")
			continue
		} else if rules.Held(row) {
			continue
		} else if !skip && len(p.Fresh)-len(p.Skipped) >= rules.Limit {
			p.Work = true
			if len(pending) == 0 {
				break // do not read 10,000 rows each time
			}
			continue
		} else if id, err = p.assign(ctx, row, key, skip); err != nil {
			return nil, err
		}
		if id != "" {
			p.Work = true
			p.marks[key] = append(p.marks[key], id)
		}
	}
	if p.compact = p.Work && done >= KeptRows+KeptRows/2; p.compact {
		var err error
		if p.open, err = l.Open(ctx, k); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// assign returns the delivery to mark a row with: the one that claimed it before, or one of the same text that was
// dropped before its row was marked, or a new one. It returns "" if the row is held.
func (p *Plan) assign(ctx context.Context, row *inbox.Row, key string, skip bool) (uuid string, err error) {
	if again, err := p.again(ctx, row); again != "" || err != nil {
		return again, err
	}
	hops := 0
	if !skip && p.rules.Admit != nil { // a row that the receiver does not get is not an exchange
		var held bool
		if hops, held, err = p.rules.Admit(ctx, row); held || err != nil {
			return "", err
		}
	}
	if p.occurrences[key] == 0 {
		if p.occurrences[key], err = p.ledger.Occurrences(ctx, p.inbox, key); err != nil {
			return "", err
		}
		if p.occurrences[key] > 0 {
			if p.dropped[key], err = p.ledger.DroppedUnmarked(ctx, p.inbox, key); err != nil {
				return "", err
			}
		}
	}
	if left := p.dropped[key]; len(left) > 0 {
		p.dropped[key], p.unmarked[left[0]] = left[1:], key
		return left[0], nil
	}
	p.occurrences[key]++
	d := ledger.Delivery{
		UUID: UUID(p.inbox, key, p.occurrences[key]), InboxKey: p.inbox, Key: key, Occurrence: p.occurrences[key], Hops: hops,
		ID: row.ID(), From: row.From, Kind: row.Kind(), Raw: slices.Clone(row.Raw), State: ledger.Claimed, At: p.rules.Now(),
	}
	if p.Fresh = append(p.Fresh, d); skip {
		p.Skipped[d.UUID] = true
	}
	p.unmarked[d.UUID] = key
	return d.UUID, nil
}

// again returns the earlier delivery of a row that has an id of its own, or "".
func (p *Plan) again(ctx context.Context, row *inbox.Row) (uuid string, err error) {
	if !row.HasID() {
		return "", nil
	}
	before, err := p.ledger.Marked(ctx, p.inbox, row.ID())
	if err != nil {
		return "", err
	}
	for _, d := range slices.Concat(before, p.Fresh) {
		if d.ID != row.ID() {
			continue
		}
		if was := Row(d); was != nil && was.Digest() == row.Digest() {
			return d.UUID, nil
		}
	}
	return "", nil
}

// Mark marks the planned rows in a draft of the inbox. It may run several times. Rows that were added after the plan
// are left for the next plan.
func (p *Plan) Mark(d *inbox.Draft) error {
	p.Mine, p.Taken, p.Gone, p.More = nil, nil, nil, false
	unmarked, marks, left := maps.Clone(p.unmarked), maps.Clone(p.marks), 0
	for _, ids := range marks {
		left += len(ids)
	}
	marked := func(id string) {
		if _, ok := unmarked[id]; ok {
			p.Mine = append(p.Mine, id)
			delete(unmarked, id)
		}
	}
	read := map[string]bool{} // keys of rows that other programs have marked
	var done []int            // rows that may be removed
	for i, row := range d.All() {
		by := Of(&row)
		switch {
		case by != "":
			marked(by)
			if p.compact && row.Read && !slices.Contains(p.open, by) {
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
			if !p.rules.Held(&row) {
				p.More = true
			}
			if p.More && left == 0 && len(unmarked) == 0 {
				break // no later row is in the plan
			}
			continue
		}
		if err := d.Set(i, "read", true); err != nil {
			return err
		}
		id := marks[key][0]
		marks[key], left = marks[key][1:], left-1
		if id == "" {
			continue
		}
		if err := d.Set(i, inbox.RelayedBy, id); err != nil {
			return err
		}
		marked(id)
	}
	for id, key := range unmarked {
		if read[key] {
			p.Taken = append(p.Taken, id)
		} else {
			p.Gone = append(p.Gone, id)
		}
	}
	// Remove rows that are done, but keep the last [KeptRows] of them.
	for _, i := range done[:max(0, len(done)-KeptRows)] {
		d.Remove(i)
	}
	return nil
}

// Of returns the delivery that took a row, according to the row, or "".
func Of(row *inbox.Row) string {
	raw, ok := row.Extra[inbox.RelayedBy]
	if !ok {
		return ""
	}
	// The common form, as this module writes it, is parsed faster: this runs for each row at each reading.
	if n := len(raw); n >= 2 && uuid.Validate(string(raw[1:n-1])) == nil && raw[0] == '"' && raw[n-1] == '"' {
		return string(raw[1 : n-1])
	}
	var id string
	if json.Unmarshal(raw, &id) != nil {
		return ""
	}
	return id
}

// Row returns the row of a delivery; nil if it has none.
func Row(d ledger.Delivery) *inbox.Row {
	row, err := inbox.ParseRow(d.Raw)
	if err != nil {
		return nil
	}
	return &row
}

// UUID derives the UUID of a delivery from its row: the occurrence-th row with that key in an inbox, counted from 1.
func UUID(k inbox.InboxKey, key string, occurrence int) string {
	return ledger.DeriveID(ledger.RelayIDs, k.Identity(), key, strconv.Itoa(occurrence))
}
