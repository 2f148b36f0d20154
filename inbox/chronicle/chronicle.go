// Package chronicle copies what a ledger says of relays into a journal, each
// event once.
//
// The ledger has each event by the commit of what it tells of, so it is the
// truth. The journal keeps up to where it was copied in the commit of the copy.
// So nothing is missing and nothing there twice, whoever copies, how many do so
// at once, and at whatever instant one of them is killed: the next one goes on.
//
// What a person said to an agent stands in no inbox file, so nothing that watches
// files would see it. It is copied as a message to the agent's inbox, with its
// receipt, by the same commit as the event that it was claimed: so one feed has all
// that was said, in one order.
//
// A journal that cannot be written holds up nothing. What is missing in it is
// copied when it can be again, as long as the ledger has it ([ledger.Ledger.Prune]).
package chronicle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/teams"
)

// page is how many events are copied by one commit.
const page = 200

// Copy copies what the journal does not have yet, and returns how many events
// that were. The errors are those of the ledger and of the journal.
func Copy(ctx context.Context, l *ledger.Ledger, j *journal.Journal) (copied int, err error) {
	source, err := l.Identity(ctx)
	if err != nil {
		return 0, err
	}
	for {
		after, err := j.RelayedFrom(ctx, source)
		if err != nil {
			return copied, err
		}
		events, err := l.Events(ctx, after, page)
		if err != nil || len(events) == 0 {
			return copied, err
		}
		list := make([]journal.Relayed, 0, len(events))
		for _, e := range events {
			r, err := relayed(e)
			if err != nil {
				return copied, err
			}
			list = append(list, r)
		}
		n, err := j.Relayed(ctx, source, list...)
		if copied += n; err != nil {
			return copied, err
		}
	}
}

func relayed(e ledger.Event) (journal.Relayed, error) {
	r := journal.Relayed{
		N: e.N, Root: e.Root, Team: teams.Instance{Team: e.Team, CreatedAt: e.CreatedAt}, Inbox: e.Inbox, At: e.At,
		Delivery: e.Delivery, ID: e.ID, From: e.From, Person: e.Person, State: string(e.State),
		Reason: e.Reason, PID: e.PID, Session: e.Session,
	}
	if e.Delivery == "" {
		r.State = string(e.Relay)
	}
	if !e.Person {
		return r, nil
	}
	r.ID, r.From = cmp.Or(e.ID, e.Delivery), cmp.Or(e.From, user)
	if e.Text == "" {
		return r, nil
	}
	var err error
	r.Row, err = json.Marshal(said{
		From: r.From, Text: e.Text, Summary: e.Summary, Timestamp: e.At.UTC().Format(timestamp), Color: e.Color, Type: "message", ID: r.ID,
	})
	return r, err
}

// user is who types where it is not said under which name.
const user = "user"

// timestamp is how Claude Code writes times.
const timestamp = "2006-01-02T15:04:05.000Z07:00"

// said is what a person said, as a row would have it.
type said struct {
	From      string `json:"from"`
	Text      string `json:"text"`
	Summary   string `json:"summary,omitempty"`
	Timestamp string `json:"timestamp"`
	Color     string `json:"color,omitempty"`
	Type      string `json:"type"`
	ID        string `json:"messageId"`
}

// Options says what to copy where.
type Options struct {
	Ledger  *ledger.Ledger
	Journal *journal.Journal

	// Every is how often the ledger is looked at without [Recorder.Poke]: for
	// what other processes write; 0 is 2 s.
	Every time.Duration

	// Copied, if not nil, is called when something was copied.
	Copied func()

	// Warn, if not nil, is told once when copying begins to fail.
	Warn func(error)
}

// Recorder copies as long as it runs. Make it with [New].
type Recorder struct {
	opts Options
	wake chan struct{}
}

// New returns a recorder. It starts nothing.
func New(opts Options) *Recorder {
	if opts.Every == 0 {
		opts.Every = 2 * time.Second
	}
	if opts.Copied == nil {
		opts.Copied = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Recorder{opts: opts, wake: make(chan struct{}, 1)}
}

// Poke says that there may be something to copy. It never waits.
func (r *Recorder) Poke() {
	select {
	case r.wake <- struct{}{}:
	default: // said already
	}
}

// last is how long the copying of what is left may take in the end.
const last = 2 * time.Second

// Run copies until ctx ends, and what is left then. It always returns nil: what
// could not be copied stays in the ledger.
func (r *Recorder) Run(ctx context.Context) error {
	tick := time.NewTicker(r.opts.Every)
	defer tick.Stop()
	failing := false
	step := func(ctx context.Context) {
		n, err := Copy(ctx, r.opts.Ledger, r.opts.Journal)
		if n > 0 {
			r.opts.Copied()
		}
		if err != nil && ctx.Err() == nil && !failing {
			r.opts.Warn(fmt.Errorf("what the relay does is not recorded: %w", err))
		}
		failing = err != nil
	}
	for {
		wake := r.wake
		if failing {
			wake = nil // not with each event
		}
		step(ctx)
		select {
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), last)
			defer cancel()
			step(ending)
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}
