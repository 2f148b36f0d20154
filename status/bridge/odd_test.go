package bridge_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"teambridge/status/api"
)

// A row, a member or a team with a value that JSON cannot represent, such as a time after the year 9999, hides
// no other row, member or team in any answer or stream.
func TestOddOnesTakeNoOthers(t *testing.T) {
	t.Parallel()
	const ms = 1795196213317
	for name, odd := range map[string]struct {
		created, joined int64
		row             string
	}{
		"a row after 9999":    {ms, ms, "9999-12-31T23:59:59-01:00"},
		"a row before 0":      {ms, ms, "0000-01-01T00:00:00+01:00"},
		"a row in no year":    {ms, ms, "+275760-09-13T00:00:00Z"},
		"a team after 9999":   {ms * 1000, ms, "2026-11-23T00:00:00Z"},
		"a member after 9999": {ms, ms * 1000, "2026-11-23T00:00:00Z"},
		"a team before 0":     {-ms * 1000, ms, "2026-11-23T00:00:00Z"},
		"a member before 0":   {ms, -ms * 1000, "2026-11-23T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Make("odd", ms, "team-lead", "worker", "other")
			w.must(os.WriteFile(w.Path("odd", "config.json"), fmt.Appendf(nil, `{"name": "odd", "createdAt": %d, "leadAgentId": "team-lead@odd", "members": [
				{"agentId": "team-lead@odd", "name": "team-lead", "joinedAt": %d}, {"agentId": "worker@odd", "name": "worker", "joinedAt": %d}, {"agentId": "other@odd", "name": "other", "joinedAt": %[2]d}]}`,
				odd.created, ms, odd.joined), 0o600))
			w.must(os.WriteFile(w.Path("odd", "inboxes", "user.json"), fmt.Appendf(nil,
				`[{"from":"worker","text":"the odd one","timestamp":%q,"read":false},{"from":"other","text":"another one","timestamp":"2026-11-23T00:00:00Z","read":false}]`, odd.row), 0o600))
			w.start()
			// said is the content of an answer, as JSON represents it.
			said := func(v any, err error) {
				t.Helper()
				if err == nil {
					_, err = json.Marshal(v)
				}
				w.must(err)
			}
			unread := func(list []api.Attention) (from []string) {
				for _, a := range list {
					if a.Kind == api.WaitsUnread && a.Team == "odd" {
						from = append(from, a.From)
					}
				}
				slices.Sort(from)
				return from
			}
			both := []string{"other", "worker"}
			waits, err := w.s.Attention(w.ctx, "")
			if said(waits, err); !slices.Equal(unread(waits), both) {
				t.Errorf("unread messages are from %v, want %v", unread(waits), both)
			}
			all := func(list []api.Team) bool {
				return slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == "odd" }) && slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == older })
			}
			list, err := w.s.Teams(w.ctx)
			if said(list, err); !all(list) {
				t.Errorf("the teams are %+v", list)
			}
			d, err := w.s.Team(w.ctx, "odd")
			said(d, err)
			members, err := w.s.Members(w.ctx, "odd")
			said(members, err)
			page := w.page("odd", api.MessageQuery{})
			if said(page, nil); len(page.Messages) != 2 {
				t.Errorf("recorded are %+v", page.Messages)
			}
			for _, team := range []string{"", older, "odd"} {
				shot := w.events(team, "").next().Snapshot
				if got := unread(shot.Attention); team != older && !slices.Equal(got, both) || team == "" && !all(shot.Teams) {
					t.Errorf("%q: a snapshot has messages from %v, and %+v", team, got, shot.Teams)
				}
			}
			e, texts := w.events("odd", "0"), []string{}
			for len(texts) < 2 {
				m := e.message()
				said(m, nil)
				texts = append(texts, m.Message.Text)
			}
			slices.Sort(texts)
			if want := []string{"another one", "the odd one"}; !slices.Equal(texts, want) {
				t.Errorf("the stream has %v, want %v", texts, want)
			}
		})
	}
}
