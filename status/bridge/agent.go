package bridge

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams"
)

type agentKey struct{}

// WithAgent marks the requests with ctx as an agent's, and not a person's.
func WithAgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, agentKey{}, true)
}

// Agent reports whether an agent makes the request. An agent writes under its own name, and never as the
// person: not as a prompt, and not into a pane.
func Agent(ctx context.Context) bool {
	agent, _ := ctx.Value(agentKey{}).(bool)
	return agent && !Person(ctx)
}

type machineKey struct{}

// WithMachine marks the requests with ctx as another machine's. They name teams in full: a team that the name
// abbreviates need not be shared with the machine, and may be on a third one.
func WithMachine(ctx context.Context) context.Context {
	return context.WithValue(ctx, machineKey{}, true)
}

// speaks returns an error if an agent would send under a name of the person.
func (l *Local) speaks(ctx context.Context, to *Target, from string) error {
	if !Agent(ctx) {
		return nil
	}
	ours := []string{"", mail.User, api.Guest}
	is := strings.EqualFold
	who := from
	if to.Team != nil {
		names, err := l.Ours(ctx, to.Team)
		if err != nil {
			return err
		}
		ours = append(ours, names...)
		if name, team := teams.Split(from); team == to.Name() {
			who = name
		}
		if name, err := to.Team.Resolve(ctx, who); err == nil { // as the row will have it
			who, is = name, func(a, b string) bool { return a == b }
		}
	}
	if slices.ContainsFunc(ours, func(name string) bool { return is(name, who) }) {
		return api.Decide(api.CodeRefused, "nothing was sent", "an agent sends under its own name, and not as %q", cmp.Or(from, mail.User))
	}
	return nil
}

// writtenBy returns the sender's name in a row to a team. A sender NAME@TEAM of the same team is called NAME,
// and one of another team keeps its team.
func (l *Local) writtenBy(ctx context.Context, to *Target, from string) (string, error) {
	name, team := teams.Split(from)
	switch {
	case team == to.Name():
		return name, nil
	case team != pane.SessionTeam:
		return from, nil
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return "", err
	}
	shown, _, err := panes.Registry.Sender(ctx, pane.Pane{}, from)
	if shown += "@" + team; len(shown) > inbox.MaxFrom {
		shown = from
	}
	return shown, err
}
