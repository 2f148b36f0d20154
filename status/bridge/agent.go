package bridge

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
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
	shown, _, err := panes.Sender(ctx, pane.Pane{}, from)
	if shown += "@" + team; len(shown) > inbox.MaxFrom {
		shown = from
	}
	return shown, err
}

// tell records what the agent of a session writes to the person, among the messages of sessions.
func (l *Local) tell(ctx context.Context, id string, m api.NewMessage) (sent api.Sent, err error) {
	start := time.Now()
	sent = api.Sent{Team: pane.SessionTeam, Member: mail.User, ID: cmp.Or(id, uuid.NewString()), State: api.Failed}
	if !Agent(ctx) {
		return sent, api.Decide(api.CodeInvalid, "nothing was sent", "%s is you, and only agents write to you", mail.User)
	}
	if err := l.speaks(ctx, &Target{}, m.From); err != nil {
		return sent, err
	}
	panes, err := l.OpenPanes(ctx)
	if err != nil {
		return sent, err
	}
	if err := pane.Check(pane.Pane{InboxKey: ledger.InboxKey{Team: pane.SessionTeam}}, pane.Message{Text: m.Text}); err != nil {
		return sent, api.Decide(api.CodeInvalid, "nothing was sent", "%s", err)
	}
	if m.DryRun {
		sent.State, sent.Reachable = api.DryRun, true
		return sent, nil
	}
	if sent.Deduplicated, err = panes.ToPerson(ctx, m.From, sent.ID, m.Text); err != nil {
		return sent, err
	}
	sent.State, sent.Recorded, sent.Reachable = api.Verified, true, true
	sent.WaitedMs = time.Since(start).Milliseconds()
	return sent, nil
}
