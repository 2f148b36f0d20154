package server

import (
	"net/http"
	"slices"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

// A real agent in a pane is written to through the service: each step is an event, the answer
// is recorded, and the person gets the news that the task is done, without any hook.
func TestRealPane(t *testing.T) {
	t.Parallel()
	standin.ForEach(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		home := standin.NewHome(t, nil)
		claude := standin.StartTerminal(t, v, home)
		p := &panes{world: &world{teamstest.Open(t, home.Root)}, Tmux: claude.Tmux, id: "%0"}
		r := p.start(t)
		p.add(t, r, "build")
		eventually(t, r, "/v1/teams/tmux/status", "idle", func(l []api.Status) bool { return len(l) == 1 && l[0].Word == api.WordIdle })
		events := r.listen(t, "", "")
		sent := p.send(t, r, "build", "one", `, "notifyOnStop": true`)
		var states []string
		events.until(api.EventRelay, func(e event) bool {
			v := as[api.RelayEvent](t, e)
			if v.Delivery == sent.Delivery && v.State != "held" {
				states = append(states, v.State)
			}
			return v.State == "finished"
		})
		if want := []string{"claimed", "written", "accepted", "done", "given", "finished"}; !slices.Equal(states, want) {
			t.Errorf("events of the message: %q, want %q", states, want)
		}
		eventually(t, r, "/v1/teams/tmux/messages", "answered", func(p api.Page) bool {
			return slices.ContainsFunc(p.Messages, func(m api.Record) bool { return m.Answer != nil && slices.Equal(m.Answer.InReplyTo, []string{"one"}) }) &&
				slices.ContainsFunc(p.Messages, func(m api.Record) bool { return m.ID == "one" && m.Receipt != nil && m.Receipt.SeenAt != nil })
		})
		all := eventually(t, r, "/v1/attention", "told", func(l []api.Attention) bool { return waiting(l, api.WaitsDone) != nil })
		of[api.Attention](t, r.ask(t, "POST", "/v1/attention/dismiss", `{"id": "`+waiting(all, api.WaitsDone).ID+`"}`), http.StatusOK)
		eventually(t, r, "/v1/teams/tmux/status", "idle again", func(l []api.Status) bool { return len(l) == 1 && l[0].Word == api.WordIdle })
	})
}
