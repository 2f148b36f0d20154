package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/replicate"
	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

func relayText(i *api.Relay) string {
	if i == nil {
		return "-"
	}
	state := relayState(i.State, i.Place)
	if i.Reason != "" {
		state += " (" + i.Reason + ")"
	}
	parts := []string{state}
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

// permissionMode is what the agent of a relay reported of its permissions, "-" if it did not.
func permissionMode(i *api.Relay) string {
	if i == nil {
		return "-"
	}
	return dash(i.PermissionMode)
}

// relayState is the state of a relay, with the place of a session that can move.
func relayState(state string, p *api.Place) string {
	switch {
	case p == nil:
		return state
	case state == api.PlaceLocal:
		return p.Text()
	}
	return state + ", " + p.Text()
}

// record fills the journal from the ledger and the inboxes of t until stop is called. poke
// makes it read the ledger now. Without a journal it only warns, and returns none.
func (a *app) record(ctx context.Context, l *ledger.Ledger, t *teams.Team) (j *journal.Journal, poke func(), stop func() error) {
	opening, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, journalWait))
	defer cancel()
	j, err := a.journal(opening)
	if err != nil {
		a.warn("%s; messages are not recorded", view.Describe(err))
		return nil, func() {}, func() error { return nil }
	}
	broken := false // the journal; for the tap's goroutine alone
	r := replicate.New(replicate.Options{Ledger: l, Journal: j, Warn: func(err error) { a.warn("%s", view.Describe(err)) }})
	tap := journal.NewTap(journal.TapOptions{
		Root: t.Root(), Journal: j, Only: func(name string) bool { return name == t.Name() },
		Warn: func(err error) {
			again := broken
			if broken = errors.As(err, new(*journal.Error)); !broken || !again {
				a.warn("%s", view.Describe(err))
			}
		},
	})
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	parts.Go(func() { _ = r.Run(running) }) // it has no error
	parts.Go(func() {
		if err := tap.Run(running); err != nil {
			a.warn("%s; messages are no longer recorded", view.Describe(err))
		}
	})
	return j, r.Poke, func() error {
		end()
		parts.Wait()
		if err := lastLook(context.WithoutCancel(ctx), j, t); err != nil && !broken {
			a.warn("%s; the latest messages may not be recorded", view.Describe(err))
		}
		return j.Close()
	}
}

// lastLook records what is in the inboxes of t. The tap may not have seen the latest
// messages, and the team may be removed next.
func lastLook(ctx context.Context, j *journal.Journal, t *teams.Team) error {
	ctx, cancel := context.WithTimeout(ctx, journalWait)
	defer cancel()
	c, err := t.Config(ctx)
	if err != nil {
		return nil // the team is gone
	}
	names, err := t.Inboxes()
	if err != nil {
		return nil
	}
	var boxes []journal.InboxKey
	for _, name := range names {
		boxes = append(boxes, journal.InboxKey{Root: t.Root().Path(), Team: c.Instance(), Inbox: name})
	}
	return replicate.Look(ctx, j, boxes...)
}

// facts returns what config.json does not say about a member. l may be nil.
func (a *app) facts(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config, member string) teams.Facts {
	f, err := relay.Facts(ctx, l, a.state, t, c, member)
	if err != nil { // it is for a hint
		a.debug("whether %s is relayed to is not known: %v", member, err)
	}
	return f
}

// paneFates says for people what the states of a message to a pane mean.
var paneFates = map[string]string{
	"claimed": "waits", "written": "is being typed", "accepted": "is being typed", "done": "confirmed", "given": "given to its model", "finished": "its task has ended",
}

func fateText(f *api.Fate) string {
	text := "relayed: " + f.State
	if f.Pane {
		text = "pane: " + cmp.Or(paneFates[f.State], f.State)
	}
	if f.Reason != "" {
		text += " (" + f.Reason + ")"
	}
	return text + ", " + clock(f.At)
}
