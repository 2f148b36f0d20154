package interop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// Without a service, the history of a real headless lead has every message to it, typed text, answer, and message to
// others once, in order. It has the answer of a turn even if no bridge saw the turn end.
func TestRealHistory(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		held := func(r standin.Request) bool { return !r.Side && r.Has("<m-4>") }
		respond, release := holding(held)
		h := newHeadless(t, v, respond)
		h.start()
		h.up()
		for i := range 3 {
			h.send(fmt.Sprintf("<m-%d>", i+1))
			h.settled(i + 1)
		}
		h.must("send", "someone@mine", "<other>", "--force")
		h.send("<m-4>")
		h.called(held)
		h.kill()
		h.start()
		h.wait("waiting", func(s saying) bool { return s.Status == "waiting" })
		close(release)
		h.settled(4)
		h.typing("<typed>")
		h.settled(5)
		h.finish()

		records := decoded[[]api.Record](t, h.must("history", "--json"))
		marks := []string{"<m-1>", "<m-2>", "<m-3>", "<other>", "<m-4>", "<typed>"}
		ids := map[string]string{} // of messages, by mark
		var got []string
		for _, r := range records {
			i := slices.IndexFunc(marks, func(m string) bool { return strings.Contains(r.Text, m) })
			if i < 0 {
				t.Errorf("recorded %+v", r)
				continue
			}
			line := fmt.Sprintf("%s to %s: %s", r.From, r.Inbox, marks[i])
			if r.Answer == nil {
				ids[marks[i]] = r.ID
			} else {
				line = fmt.Sprintf("%s answers %s", r.From, marks[i])
				if !slices.Equal(r.Answer.InReplyTo, []string{ids[marks[i]]}) || r.Kind != "answer" {
					t.Errorf("%s is in reply to %q: %+v", line, r.Answer.InReplyTo, r)
				}
			}
			got = append(got, line)
		}
		want := []string{
			"user to team-lead: <m-1>", "team-lead answers <m-1>", "user to team-lead: <m-2>", "team-lead answers <m-2>",
			"user to team-lead: <m-3>", "team-lead answers <m-3>", "user to someone: <other>",
			"user to team-lead: <m-4>", "team-lead answers <m-4>", "user to team-lead: <typed>", "team-lead answers <typed>",
		}
		if !slices.Equal(got, want) {
			t.Errorf("the history is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}
