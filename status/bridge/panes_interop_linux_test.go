package bridge_test

import (
	"context"
	"slices"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// The service writes to a real agent in a pane: each step is an event, the answer is recorded, and the person learns
// that the task is done, without a hook.
func TestRealPane(t *testing.T) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		home := standin.NewHome(t, nil)
		claude := standin.StartTerminal(t, v, home)
		ctx, cancel := context.WithTimeout(bridge.WithPerson(t.Context()), patience)
		defer cancel()
		p := &panes{world: &world{Fixture: teamstest.Open(t, home.Root), TB: t, ctx: ctx}, Tmux: claude.Tmux, id: "%0"}
		p.start()
		p.add("build")
		p.word(api.WordIdle)
		e := p.events("", "")
		sent := p.send(api.TeamPanes, "build", "one", api.NewMessage{Text: "task one", PaneOptions: api.PaneOptions{NotifyOnStop: true}})
		var steps []string
		e.until(func(v api.Event) bool {
			if v.Relay != nil && v.Relay.Delivery == sent.Delivery && v.Relay.State != "held" {
				steps = append(steps, v.Relay.State)
			}
			return slices.Contains(steps, "finished")
		})
		if want := []string{"claimed", "written", "accepted", "done", "given", "finished"}; !slices.Equal(steps, want) {
			t.Errorf("the steps are %q, want %q", steps, want)
		}
		p.recorded(api.TeamPanes, "answered", func(m api.Record) bool { return m.Answer != nil && slices.Equal(m.Answer.InReplyTo, []string{"one"}) })
		p.recorded(api.TeamPanes, "seen", func(m api.Record) bool { return m.ID == "one" && m.Receipt != nil && m.Receipt.SeenAt != nil })
		_, err := p.s.Dismiss(p.ctx, p.waits(api.WaitsDone).ID)
		p.must(err)
		p.word(api.WordIdle)
	})
}
