package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"teambridge/inbox/chronicle"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/teams"
)

// relayInfo is what is known of a member's relay. The names are those of --json.
type relayInfo struct {
	State       relay.State `json:"state"` // starting, waiting, idle, working, backing off, dead, stopped
	Running     bool        `json:"running"`
	Queue       int         `json:"queue"` // claimed, and not done
	DeadLetters int         `json:"deadLetters"`
	LastAck     *time.Time  `json:"lastAck,omitempty"` // of the agent
	PID         int         `json:"pid,omitempty"`     // of the relay
	AgentPID    int         `json:"agentPid,omitempty"`
	Session     string      `json:"session,omitempty"`
	Reason      string      `json:"reason,omitempty"`
}

func asRelay(o relay.Outlook) *relayInfo {
	i := &relayInfo{
		State: o.State, Running: o.Running, Queue: o.Queue, DeadLetters: o.Failed,
		PID: o.Relay, AgentPID: o.PID, Session: o.Session, Reason: o.Reason,
	}
	if !o.LastAck.IsZero() {
		at := o.LastAck.UTC()
		i.LastAck = &at
	}
	return i
}

// text is what a person is told of a relay.
func (i *relayInfo) text() string {
	if i == nil {
		return "-"
	}
	parts := []string{string(i.State)}
	if i.Queue > 0 {
		parts = append(parts, fmt.Sprintf("%d in the queue", i.Queue))
	}
	if i.DeadLetters > 0 {
		parts = append(parts, plural(i.DeadLetters, "dead letter"))
	}
	if i.LastAck != nil {
		parts = append(parts, "last answer "+clock(*i.LastAck))
	}
	return strings.Join(parts, ", ")
}

// lasting leaves out what changes with each message.
func (i *relayInfo) lasting() *relayInfo {
	if i == nil {
		return nil
	}
	return &relayInfo{State: i.State, DeadLetters: i.DeadLetters, Reason: i.Reason}
}

// relays tells how the relay of each member of a team stands, of those that have
// one, or had one and are not reached any more.
func (a *app) relays(ctx context.Context, l *ledger.Ledger, t *teams.Team) (map[string]*relayInfo, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	state, err := a.state()
	if err != nil {
		return nil, err
	}
	known := map[string]*relayInfo{}
	for _, m := range c.Members {
		o, found, err := relay.Look(ctx, l, state, t, c, m.Name)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		f, err := relay.Facts(ctx, l, state, t, c, m.Name)
		if err != nil {
			return nil, err
		}
		if f.Headless || o.Queue > 0 {
			known[m.Name] = asRelay(o)
		}
	}
	return known, nil
}

// ledgerIfAny opens the ledger if there is one: nil, and no error, where nothing
// was sent or relayed yet.
func (a *app) ledgerIfAny(ctx context.Context) (*ledger.Ledger, error) {
	dir, err := a.state()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "ledger.db")); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return a.ledger(ctx)
}

// recordRelays copies what happens to relays into the journal, until stop. poke says
// that something may have happened. A journal that fails stops no relay.
func (a *app) recordRelays(ctx context.Context, l *ledger.Ledger) (poke func(), stop func() error) {
	opening, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, journalWait))
	defer cancel()
	j, err := a.journal(opening)
	if err != nil {
		a.warn("%s; what the relay does is not recorded now", describeError(err))
		return func() {}, func() error { return nil }
	}
	r := chronicle.New(chronicle.Options{Ledger: l, Journal: j, Warn: func(err error) { a.warn("%s", describeError(err)) }})
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- r.Run(running) }()
	return r.Poke, func() error {
		end()
		return errors.Join(<-ended, j.Close())
	}
}

// facts is what is known of a member beside what config.json says. l may be nil.
func (a *app) facts(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config, member string) teams.Facts {
	state, err := a.state()
	if err == nil {
		var f teams.Facts
		if f, err = relay.Facts(ctx, l, state, t, c, member); err == nil {
			return f
		}
	}
	// It is for a hint.
	a.debug("whether %s is relayed to is not known: %v", member, err)
	return teams.Facts{}
}

// fate is what became of a message that was relayed. The names are those of --json.
type fate struct {
	Delivery string    `json:"delivery"`
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"` // when it came to that state
}

func (f *fate) text() string {
	if f == nil {
		return ""
	}
	text := "relayed: " + f.State
	if f.Reason != "" {
		text += " (" + f.Reason + ")"
	}
	return text + ", " + clock(f.At)
}

// fates tells what became of recorded messages, nil of those that were not
// relayed.
func fates(ctx context.Context, l *ledger.Ledger, found []journal.Message) ([]*fate, error) {
	list := make([]*fate, len(found))
	for i, m := range found {
		post := ledger.Post{Root: m.Root, Team: m.Team.Team, CreatedAt: m.Team.CreatedAt, Inbox: m.Inbox}
		d, ok, err := l.Fate(ctx, post, m.Key(), m.Occurrence)
		if err != nil {
			return nil, err
		}
		if ok {
			list[i] = &fate{Delivery: d.UUID, State: string(d.State), Reason: d.Reason, At: d.At}
		}
	}
	return list, nil
}
