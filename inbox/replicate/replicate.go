// Package replicate copies the events of a ledger into a journal, each event once.
//
// The ledger records an event in the commit that causes it, and the journal how far it has
// copied in the commit that copies. So no event is missed or copied twice, no matter who
// copies, how many processes copy at once, or when one of them is killed.
//
// This holds even after a power cut that took back the ledger's last commits but not the
// journal's, and after an older copy of the ledger was restored. The journal then keeps the
// lost events and gets all events that follow ([ledger.Epoch]).
//
// Watching files does not find everything, so messages are copied too: user prompts, which
// are in no file; sent and claimed rows, which an agent may take before anybody sees them,
// as one message with what was seen; and a headless agent's answers, in its own inbox.
//
// A journal that cannot be written delays nothing. What it lacks is copied later, as
// long as the ledger still has it ([ledger.Ledger.Prune]).
package replicate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
)

// page is the largest number of events that one commit copies.
const page = 200

// Copy copies the events that the journal does not have yet and returns their
// number. Then it reads the inboxes that something was sent to: see [Look]. Errors come
// from the ledger and the journal.
func Copy(ctx context.Context, l *ledger.Ledger, j *journal.Journal) (copied int, err error) {
	return copyAll(ctx, l, j, new(string))
}

func copyAll(ctx context.Context, l *ledger.Ledger, j *journal.Journal, version *string) (copied int, err error) {
	if copied, err = said(ctx, l, j, version); err != nil {
		return copied, err
	}
	n, err := copyEvents(ctx, l, j)
	return copied + n, err
}

// said observes the inboxes of the person that are no files, unless version is what it was when that was done last.
func said(ctx context.Context, l *ledger.Ledger, j *journal.Journal, version *string) (changes int, err error) {
	now, err := l.Person.SaidVersion(ctx)
	if err != nil || now == *version {
		return 0, err
	}
	at, again := time.Now(), false
	list, err := l.Person.Said(ctx, "")
	if err != nil {
		return 0, err
	}
	for len(list) > 0 {
		k := list[0].Key
		n := slices.IndexFunc(list, func(s ledger.Said) bool { return s.Key != k })
		if n < 0 {
			n = len(list)
		}
		rows := make([]inbox.Row, 0, n)
		for _, s := range list[:n] {
			row, err := inbox.ParseRow(s.Raw)
			if err != nil {
				return changes, err
			}
			row.Read = s.Read
			rows = append(rows, row)
		}
		o, err := j.Observe(ctx, journal.Snapshot{InboxKey: k, Rows: rows, At: at, Done: time.Now()})
		if changes += len(o.Changes); err != nil {
			return changes, err
		}
		again = again || len(o.Again) > 0
		list = list[n:]
	}
	if !again { // else another process has done so at the same time, perhaps with less
		*version = now
	}
	return changes, nil
}

func copyEvents(ctx context.Context, l *ledger.Ledger, j *journal.Journal) (copied int, err error) {
	if err := l.Sends.Announce(ctx); err != nil {
		return 0, err
	}
	after, err := position(ctx, l, j)
	if err != nil {
		return 0, err
	}
	var boxes []inbox.InboxKey // that something was sent to
	for {
		events, err := l.Events.After(ctx, after, page)
		if err != nil {
			return copied, err
		}
		if len(events) == 0 {
			return copied, Look(ctx, j, boxes...)
		}
		after = events[len(events)-1].N
		for _, e := range events {
			if e.Sent != "" && !slices.Contains(boxes, e.InboxKey) {
				boxes = append(boxes, e.InboxKey)
			}
		}
		for epoch, list := range epochs(events) {
			n, err := copyEpoch(ctx, j, epoch, list)
			if copied += n; err != nil {
				return copied, err
			}
		}
	}
}

// position returns the number of the last event in the ledger that the journal has: a
// journal that has an event of one epoch has all of the epochs before it. If the ledger went
// back, events with numbers that the journal knows are in an epoch that it does not know.
func position(ctx context.Context, l *ledger.Ledger, j *journal.Journal) (int64, error) {
	epochs, err := l.Events.Epochs(ctx)
	if err != nil {
		return 0, err
	}
	for i, e := range slices.Backward(epochs) {
		n, err := j.CopiedUpTo(ctx, e.ID)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		if i+1 < len(epochs) {
			n = min(n, epochs[i+1].First-1) // the ledger went back and lost the rest
		}
		return n, nil
	}
	return 0, nil
}

// epochs splits a list of events by epoch.
func epochs(events []ledger.Event) iter.Seq2[string, []ledger.Event] {
	return func(yield func(string, []ledger.Event) bool) {
		for len(events) > 0 {
			epoch := events[0].Epoch
			n := slices.IndexFunc(events, func(e ledger.Event) bool { return e.Epoch != epoch })
			if n < 0 {
				n = len(events)
			}
			if !yield(epoch, events[:n]) {
				return
			}
			events = events[n:]
		}
	}
}

func copyEpoch(ctx context.Context, j *journal.Journal, epoch string, events []ledger.Event) (copied int, err error) {
	list := make([]journal.RelayEvent, 0, len(events))
	for _, e := range events {
		r, err := relayed(e)
		if err != nil {
			return 0, err
		}
		list = append(list, r)
	}
	return j.CopyEvents(ctx, epoch, list...)
}

func relayed(e ledger.Event) (journal.RelayEvent, error) {
	r := journal.RelayEvent{
		N: e.N, InboxKey: e.InboxKey, At: e.At,
		Delivery: e.Delivery, ID: e.ID, From: e.From, Person: e.Person, Pane: e.Pane, Elsewhere: e.Machine != "", State: string(e.State),
		Reason: e.Reason, PID: e.PID, Session: e.Session,
	}
	if cause, _ := ledger.SplitReason(e.Reason); cause == ledger.CauseUnknown {
		r.Unproven = r.Pane || r.Elsewhere
	}
	switch {
	case e.Sent != "":
		r.Sent, r.Row, r.State = true, e.Row, string(journal.Verified)
		if e.Sent == ledger.SentUnknown {
			r.State = string(journal.Unknown)
		}
		return r, nil
	case e.Answer != "":
		r.Answer, r.Row = e.Answer, e.Row
		return r, nil
	case e.Delivery == "":
		r.State = string(e.Relay)
	}
	if !e.Person {
		r.Row = e.Row
		return r, nil
	}
	r.ID, r.From = cmp.Or(e.ID, e.Delivery), cmp.Or(e.From, user)
	if e.Text == "" {
		return r, nil
	}
	var err error
	r.Row, err = json.Marshal(promptRow{
		From: r.From, Text: e.Text, Summary: e.Summary, Timestamp: e.At.UTC().Format(timestamp), Color: e.Color, Type: "message", ID: r.ID,
	})
	return r, err
}

// user is the sender of a prompt that names none.
const user = "user"

// timestamp is the layout in which Claude Code writes times.
const timestamp = "2006-01-02T15:04:05.000Z07:00"

// promptRow is a user prompt in the format of an inbox row.
type promptRow struct {
	From      string `json:"from"`
	Text      string `json:"text"`
	Summary   string `json:"summary,omitempty"`
	Timestamp string `json:"timestamp"`
	Color     string `json:"color,omitempty"`
	Type      string `json:"type"`
	ID        string `json:"messageId"`
}

// Options are the options of [New]. Ledger and Journal are needed.
type Options struct {
	Ledger  *ledger.Ledger
	Journal *journal.Journal

	// Every is the interval at which the ledger is read without [Replicator.Poke],
	// for events of other processes. 0 means 2 s.
	Every time.Duration
	// Told says that Poke is called after each change of the ledger. It is then read without
	// that only after a failure.
	Told bool

	// Copied, if not nil, is called after events were copied.
	Copied func()

	// Warn, if not nil, is called once when copying begins to fail.
	Warn func(error)
}

// A Replicator copies events while it runs. Make one with [New].
type Replicator struct {
	opts Options
	wake chan struct{}
	said string // the version of what was said when it was observed last
}

// New returns a Replicator. It starts nothing.
func New(opts Options) *Replicator {
	if opts.Every == 0 {
		opts.Every = 2 * time.Second
	}
	if opts.Copied == nil {
		opts.Copied = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Replicator{opts: opts, wake: make(chan struct{}, 1)}
}

// Poke tells r that there may be new events. It never blocks.
func (r *Replicator) Poke() {
	select {
	case r.wake <- struct{}{}:
	default: // already told
	}
}

// lastCopy limits how long Run may copy after its context has ended.
var lastCopy = 2 * time.Second // a variable for tests

// Run copies events until ctx ends, and then those that are left. It always returns
// nil: events that could not be copied stay in the ledger.
func (r *Replicator) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.opts.Every)
	defer ticker.Stop()
	failing := false
	step := func(ctx context.Context) {
		n, err := copyAll(ctx, r.opts.Ledger, r.opts.Journal, &r.said)
		if n > 0 {
			r.opts.Copied()
		}
		if err != nil && ctx.Err() == nil && !failing {
			r.opts.Warn(fmt.Errorf("what is sent and relayed is not recorded: %w", err))
		}
		failing = err != nil
	}
	for {
		wake, tick := r.wake, ticker.C
		if failing {
			wake = nil // try again at the next tick, not with each event
		}
		step(ctx)
		if r.opts.Told && !failing {
			tick = nil
		}
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCopy)
			defer cancel()
			step(ending)
			return nil
		case <-wake:
		case <-tick:
		}
	}
}
