package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/status/api"
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
