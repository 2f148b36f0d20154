package bridgetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"teambridge/status/api"
)

// agents finds each agent once, under a name that reaches it, whatever names others have.
func agents(w *world) {
	w.must(os.MkdirAll(filepath.Join(w.Root.Path(), "sessions"), 0o700))
	for i, name := range []string{"worker", "app", "app", "web"} {
		pid := []int{os.Getpid(), os.Getppid()}[i%2]
		w.must(os.WriteFile(filepath.Join(w.Root.Path(), "sessions", fmt.Sprint(i, ".json")), fmt.Appendf(nil,
			`{"pid":%d,"sessionId":"s-%d","cwd":"/work","version":"2.1.330","startedAt":%d,"name":%q,"status":"idle"}`, pid, i, 1_700_000_000_000+i, name), 0o600))
	}
	all, err := w.b.Agents(w.Context())
	if err != nil || len(all.Unknown) > 0 {
		w.Errorf("unknown: %+v, %v", all.Unknown, err)
	}
	find := func(name string) (found api.Agent) {
		for _, a := range all.Agents {
			if a.Name == name {
				if found.Name != "" {
					w.Errorf("two are called %s", name)
				}
				found = a
			}
		}
		return found
	}
	member := find("worker@" + newer)
	if member.Team != newer || member.Member != "worker" || member.Kind != "member" || member.Way != api.WayInbox || member.Does == "" || !strings.Contains(member.Promise, "verified") {
		w.Errorf("the member is %+v, of %+v", member, all.Agents)
	}
	for name, want := range map[string]api.Agent{
		"s-0": {Team: api.TeamSessions, Member: "worker", Session: "s-0"}, // a member has its name
		"s-1": {Team: api.TeamSessions, Member: "s-1", Session: "s-1"},    // so has another session
		"s-2": {Team: api.TeamSessions, Member: "s-2", Session: "s-2"},
		"web": {Team: api.TeamSessions, Member: "web", Session: "s-3"},
	} {
		got := find(name)
		if got.Team != want.Team || got.Member != want.Member || got.Session != want.Session || got.Kind != "session" || got.Cwd != "/work" {
			w.Errorf("%s is %+v, want %+v", name, got, want)
		}
		if got.Way != "" || !strings.Contains(got.Promise, "cannot be written to") { // it has no socket
			w.Errorf("%s is reached by %q: %s", name, got.Way, got.Promise)
		}
	}
	if i := slices.IndexFunc(all.Agents, func(a api.Agent) bool { return a.Way == "" }); i < 0 || slices.ContainsFunc(all.Agents[i:], func(a api.Agent) bool { return a.Way != "" }) {
		w.Errorf("those that can be written to are not first: %+v", all.Agents)
	}
}
