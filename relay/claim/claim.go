// Package claim takes rows of an inbox for those who do not read it themselves: an agent behind a relay, or a member on another machine.
//
// A row is taken in three steps. Its delivery is committed to the ledger; the row is marked as read, with the UUID of the delivery, in an
// edit under the lock of the inbox; and the ledger records that it is marked. A crash between two steps loses nothing
// and repeats nothing: the next [Plan] finds the delivery again by the row's key, or its UUID in the row.
//
// A program that read the inbox earlier may write back what it read. A row with an id of its own is then marked with the delivery that it
// had; of rows without an id, which cannot be told apart, as many are taken as there are.
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

// KeptRows is how many rows that are done stay in the file: others are removed, many at once.
const KeptRows = 100

// Ledger is what a plan asks of a [ledger.Ledger], none of it while the lock of the inbox is held.
type Ledger interface {
	Open(context.Context, inbox.InboxKey) (uuids []string, err error)
	Marked(ctx context.Context, k inbox.InboxKey, id string) ([]ledger.Delivery, error)
	DroppedUnmarked(ctx context.Context, k inbox.InboxKey, key string) (uuids []string, err error)
	Occurrences(ctx context.Context, k inbox.InboxKey, key string) (int, error)
}

// Rules are what differs between those for whom rows are taken.
type Rules struct {
	Limit int // how many rows may be taken; more stay unread in the file

	// Skip, if it is not nil, reports whether a row is taken although the receiver does not get it. Such rows do not count for Limit.
	Skip func(*inbox.Row) bool
	// Discard, if it is not nil, reports whether a row is only marked as read: no delivery takes it.
	Discard func(*inbox.Row) bool
	// Held reports whether the messages of the row's sender are left in the inbox.
	Held func(*inbox.Row) bool
	// Admit, if it is not nil, counts a row that is about to be taken and not skipped. It returns the row's hop count, or that
	// its sender is held from now on.
	Admit func(context.Context, *inbox.Row) (hops int, held bool, err error)
	// Now returns the time of a claim.
	Now func() time.Time
}

// Plan says which rows of an inbox are to be marked with which deliveries, by a look at the file without its lock.
type Plan struct {
	Work    bool              // there is something to do in the file
	Fresh   []ledger.Delivery // to be committed before the rows are marked
	Skipped map[string]bool   // the UUIDs of those of Fresh that the receiver does not get

	// What the last [Plan.Mark] found.
	Mine  []string // unmarked deliveries whose rows name them now
	Taken []string // those whose rows somebody else has marked as read
	Gone  []string // those without a row
	More  bool     // rows wait for which there was no room

	ledger      Ledger
	inbox       inbox.InboxKey
	rules       Rules
	unmarked    map[string]string   // keys of the rows of claimed deliveries that are not known to be marked
	marks       map[string][]string // by key: the deliveries that its rows are marked with, in order
	occurrences map[string]int      // by key: of its deliveries, with those of the plan
	dropped     map[string][]string // by key: deliveries that were given up before their row was marked
	compact     bool                // rows that are done are to be removed
	open        []string            // deliveries whose rows stay then
}

// New plans what to do with the rows of an inbox. unmarked are the deliveries of the inbox that are not recorded as marked.
func New(ctx context.Context, l Ledger, k inbox.InboxKey, rows []inbox.Row, unmarked []ledger.Delivery, rules Rules) (*Plan, error) {
	p := &Plan{
		Work: len(unmarked) > 0, Skipped: map[string]bool{}, ledger: l, inbox: k, rules: rules,
		unmarked: map[string]string{}, marks: map[string][]string{}, occurrences: map[string]int{}, dropped: map[string][]string{},
	}
	pending := map[string][]string{} // by key: unmarked deliveries whose row was not met
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
		if len(pending[key]) > 0 { // claimed before, and not marked
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
				break // 10,000 rows are not looked through each time
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

// assign returns the delivery that a row is to be marked with: that which claimed it before, one of the same text that was dropped before
// its row was marked, or a new one. It is empty if the row is held.
func (p *Plan) assign(ctx context.Context, row *inbox.Row, key string, skip bool) (uuid string, err error) {
	if again, err := p.again(ctx, row); again != "" || err != nil {
		return again, err
	}
	hops := 0
	if !skip && p.rules.Admit != nil { // what the receiver does not get is no exchange
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

// again returns the delivery of a row that has an id of its own and was taken before, or "".
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

// Mark marks the rows that were planned, in a draft of the inbox. It may run several times. What has come since the plan was made is left
// for the next one.
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
	read := map[string]bool{} // keys of rows that others have marked
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
				break // nothing that follows is of the plan
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
	// Rows that are done are removed, but for the last [KeptRows] of them.
	for _, i := range done[:max(0, len(done)-KeptRows)] {
		d.Remove(i)
	}
	return nil
}

// Of returns the delivery that a row says it was taken by, or "".
func Of(row *inbox.Row) string {
	raw, ok := row.Extra[inbox.RelayedBy]
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

// Row returns the row that a delivery is of; nil if it is none.
func Row(d ledger.Delivery) *inbox.Row {
	row, err := inbox.ParseRow(d.Raw)
	if err != nil {
		return nil
	}
	return &row
}

// UUID derives the UUID of a delivery from the row that it is of: the occurrence-th row with that key in an inbox, from 1.
func UUID(k inbox.InboxKey, key string, occurrence int) string {
	return ledger.DeriveID(ledger.RelayIDs, k.Identity(), key, strconv.Itoa(occurrence))
}
