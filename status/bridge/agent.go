package bridge

import (
	"cmp"
	"context"
	"slices"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams"
)

type agentKey struct{}

// WithAgent says that an agent asks for what is done with ctx, and no person.
func WithAgent(ctx context.Context) context.Context {
	return context.WithValue(ctx, agentKey{}, true)
}

// Agent reports whether an agent asks. It writes under its own name, and never as the person: not as a prompt, and into no pane.
func Agent(ctx context.Context) bool {
	agent, _ := ctx.Value(agentKey{}).(bool)
	return agent && !Person(ctx)
}

// speaks returns an error if an agent would send under a name of the person.
func (l *Local) speaks(ctx context.Context, to *Target, from string) error {
	if !Agent(ctx) {
		return nil
	}
	ours := []string{"", mail.User, api.Guest}
	if to.Team != nil {
		names, err := l.Ours(ctx, to.Team)
		if err != nil {
			return err
		}
		ours = append(ours, names...)
	}
	if slices.Contains(ours, from) {
		return api.Decide(api.CodeRefused, "nothing was sent", "an agent sends under its own name, and not as %q", cmp.Or(from, mail.User))
	}
	return nil
}

// writtenBy returns the name that a row to a team has from NAME[@TEAM]: another member's as it is called there, and what is
// elsewhere with its team.
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
