package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"teambridge/inbox/ledger"
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

// relays returns the relays of a team's members, and the oldest open question of each. Only
// the service knows the questions, and why a relay is stopped; silent is why it could not be
// asked.
func (a *app) relays(ctx context.Context, l *ledger.Ledger, t *teams.Team) (known map[string]*api.Relay, asked map[string]*api.Question, silent, err error) {
	if known, err = view.Relays(ctx, l, a.state, t); err != nil {
		return nil, nil, nil, err
	}
	asked = map[string]*api.Question{}
	list, _, silent := a.relaysServed(ctx, l, t.Root(), t.Name())
	for i := range list {
		e := &list[i]
		if e.Team != t.Name() || e.Created == nil {
			continue
		}
		if !e.Running {
			known[e.Member] = &e.Relay
		}
		if len(e.Questions) > 0 {
			asked[e.Member] = &e.Questions[0]
		}
	}
	return known, asked, silent, nil
}

// relaysAsked is relays for statuses that are waited for: it warns if the service is silent.
func (a *app) relaysAsked(ctx context.Context, t *teams.Team) (known map[string]*api.Relay, asked map[string]*api.Question, err error) {
	l, err := a.ledger(ctx)
	if err != nil {
		return nil, nil, err
	}
	known, asked, silent, err := a.relays(ctx, l, t)
	a.without(silent)
	return known, asked, err
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
