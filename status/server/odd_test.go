package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
)

// A row, a member or a team with something that JSON cannot say, such as a time after the year
// 9999, takes no other row, member or team with it: from no answer, and from no stream.
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
			write := func(team, file, text string) {
				t.Helper()
				if err := os.WriteFile(w.Path(team, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w.Make("odd", ms, "team-lead", "worker", "other")
			write("odd", "config.json", fmt.Sprintf(`{"name": "odd", "createdAt": %d, "leadAgentId": "team-lead@odd", "members": [
				{"agentId": "team-lead@odd", "name": "team-lead", "joinedAt": %d}, {"agentId": "worker@odd", "name": "worker", "joinedAt": %d}, {"agentId": "other@odd", "name": "other", "joinedAt": %[2]d}]}`,
				odd.created, ms, odd.joined))
			rows, err := json.Marshal([]map[string]any{
				{"from": "worker", "text": "the odd one", "timestamp": odd.row, "read": false}, {"from": "other", "text": "another one", "timestamp": "2026-11-23T00:00:00Z", "read": false},
			})
			if err != nil {
				t.Fatal(err)
			}
			write("odd", "inboxes/user.json", string(rows))
			r := w.start(t)

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
			if got := unread(get[[]api.Attention](t, r, "/v1/attention")); !slices.Equal(got, both) {
				t.Errorf("unread messages are from %v, want %v", got, both)
			}
			teams := func(list []api.Team) bool {
				return slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == "odd" }) && slices.ContainsFunc(list, func(t api.Team) bool { return t.Team == older })
			}
			if list := get[[]api.Team](t, r, "/v1/teams"); !teams(list) {
				t.Errorf("the teams are %+v", list)
			}
			for _, path := range []string{"/v1/teams/odd", "/v1/teams/odd/members", "/v1/teams/" + older, "/v1/relays"} {
				if a := r.ask(t, "GET", path, ""); a.status != http.StatusOK {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
			}
			for _, query := range []string{"", "?team=" + older, "?team=odd"} {
				shot := as[api.Snapshot](t, r.listen(t, query, "").until(api.EventSnapshot, nil))
				if got := unread(shot.Attention); query != "?team="+older && !slices.Equal(got, both) {
					t.Errorf("%q: a snapshot has messages from %v, want %v", query, got, both)
				}
				if query == "" && !teams(shot.Teams) {
					t.Errorf("a snapshot has the teams %+v", shot.Teams)
				}
			}
			// Both are recorded, and on the stream.
			stream := r.listen(t, "?after=0", "")
			var texts []string
			for len(texts) < 2 {
				m := as[api.MessageEvent](t, stream.until(api.EventMessage, func(e event) bool { return strings.Contains(string(e.data), `"team":"odd"`) }))
				texts = append(texts, m.Message.Text)
			}
			slices.Sort(texts)
			if want := []string{"another one", "the odd one"}; !slices.Equal(texts, want) {
				t.Errorf("the stream has %v, want %v", texts, want)
			}
			if page := get[api.Page](t, r, "/v1/teams/odd/messages"); len(page.Messages) != 2 {
				t.Errorf("recorded are %+v", page.Messages)
			}
		})
	}
}

// What waits names the tool of a server as what it is, not as a tool of the runtime.
func TestToolOfAServer(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	stream := r.listen(t, "?team="+band, "")
	h.add(t, r, "drums", `, "permissions": "ask"`)
	of[api.Sent](t, r.ask(t, "POST", path(band, "drums"), message(t, "ASK:mcp__weather__Read", "")), http.StatusCreated)
	if got := waits(t, r, stream, api.WaitsPermission)[api.WaitsPermission].What; got != "wants to use Read of the MCP server weather (mcp__weather__Read)" {
		t.Errorf("a question: %q", got)
	}
}
