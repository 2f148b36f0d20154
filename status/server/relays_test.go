package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"teambridge/relay"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/tmux"
	"teambridge/status/api"
)

func TestMain(m *testing.M) {
	simchild.MainTerminal()
	simchild.Main()
	killtest.Run(killtest.Roles{"service": killtest.Job(serveForEver)})
	tmux.Relax(time.Minute)
	os.Exit(killtest.Tests(m))
}

// headless is a Claude directory with a team whose agents have no terminals.
type headless struct {
	*world
	script simchild.Script
	work   string
}

// band is its team.
const band = "band"

func newHeadless(t testing.TB, script simchild.Script) *headless {
	t.Helper()
	h := &headless{world: newWorld(t), script: script}
	dir, err := filepath.EvalSymlinks(h.Root.Path())
	must(t, err)
	h.script.State = dir
	h.work = filepath.Join(dir, "work")
	must(t, os.Mkdir(h.work, 0o700))
	h.Make(band, 1, "team-lead", "drums", "bass")
	return h
}

// env is the environment of its agents.
func (h *headless) env() []string {
	return append(os.Environ(), h.script.Env(), "GORACE=atexit_sleep_ms=0")
}

func (h *headless) start(t testing.TB, change ...func(*Server)) *running {
	t.Helper()
	return h.world.start(t, append([]func(*Server){func(s *Server) {
		s.opts.Env = h.env()
		s.core.Tick = 20 * time.Millisecond
		s.core.Timing = relay.Timing{Backoff: time.Millisecond, Startup: time.Millisecond, Retry: 20 * time.Millisecond, Poll: 20 * time.Millisecond}
	}}, change...)...)
}

// add adds a relay for a member, with more fields.
func (h *headless) add(t testing.TB, r *running, member, more string) api.RelayEntry {
	t.Helper()
	body := fmt.Sprintf(`{"team": %q, "member": %q, "command": [%q], "dir": %q%s}`, band, member, simchild.Program(), h.work, more)
	return of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", body), http.StatusCreated)
}

// until asks for a relay until it is as wanted.
func (h *headless) until(t testing.TB, r *running, id, what string, holds func(api.RelayEntry) bool) api.RelayEntry {
	t.Helper()
	end := time.After(patience)
	for {
		all := get[[]api.RelayEntry](t, r, "/v1/relays")
		if i := slices.IndexFunc(all, func(e api.RelayEntry) bool { return e.ID == id }); i >= 0 && holds(all[i]) {
			return all[i]
		}
		select {
		case <-end:
			t.Fatalf("%s is never %s: %+v", id, what, all)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func path(team, member string) string {
	return "/v1/teams/" + team + "/members/" + member + "/messages"
}

func message(t *testing.T, text, more string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	must(t, err)
	return `{"text": ` + string(quoted) + more + `}`
}

// HTTP alone has these details of relays.
func TestRelayRoutes(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t)
	body := func(more string) string {
		return fmt.Sprintf(`{"team": "later", "member": "lead", "command": ["agent"], "dir": %q%s}`, r.world.State, more)
	}
	a := r.ask(t, "POST", "/v1/relays", body(""))
	added := of[api.RelayEntry](t, a, http.StatusCreated)
	if to := a.header.Get("Location"); to != "/v1/relays/"+added.ID {
		t.Errorf("added at %s", to)
	}
	of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", body("")), http.StatusOK)
	problem(t, r.ask(t, "POST", "/v1/relays", body(`, "root": "/"`)), api.CodeBody)
	problem(t, r.ask(t, "DELETE", "/v1/relays/"+added.ID, `{}`), api.CodeBody)
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+added.ID, ""), http.StatusOK)
	problem(t, r.ask(t, "DELETE", "/v1/relays/"+added.ID, ""), api.CodeNotFound)
}
