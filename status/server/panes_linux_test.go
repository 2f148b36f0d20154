package server

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
)

// panes is a Claude directory with a tmux server in which an agent program runs.
type panes struct {
	*world
	*standin.Tmux
	id string // of the pane
}

func newPanes(t testing.TB) *panes {
	t.Helper()
	p := &panes{world: newWorld(t), Tmux: standin.StartTmux(t)}
	p.id = p.StartAgent(t)
	return p
}

func (p *panes) start(t testing.TB, change ...func(*Server)) *running {
	t.Helper()
	return p.world.start(t, append([]func(*Server){func(s *Server) { s.core.Tick = 50 * time.Millisecond }}, change...)...)
}

// add registers the pane.
func (p *panes) add(t testing.TB, r *running, name string) api.Pane {
	t.Helper()
	return of[api.Pane](t, r.ask(t, "POST", "/v1/panes", `{"member": "`+name+`", "target": "`+p.id+`", "socket": "`+p.Socket+`"}`), http.StatusCreated)
}

func (p *panes) send(t testing.TB, r *running, name, id, more string) api.Sent {
	t.Helper()
	return of[api.Sent](t, r.ask(t, "POST", "/v1/teams/tmux/members/"+name+"/messages", `{"text": "task `+id+`"`+more+`}`, "Idempotency-Key", id), http.StatusCreated)
}

// screen is what the pane shows.
func (p *panes) screen(t testing.TB) string {
	t.Helper()
	out, err := p.Run(t.Context(), nil, "capture-pane", "-p", "-t", p.id)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually asks until what is answered holds.
func eventually[T any](t testing.TB, r *running, path, what string, holds func(T) bool) T {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		v := get[T](t, r, path)
		if holds(v) {
			return v
		}
		if time.Now().After(end) {
			t.Fatalf("%s is never %s: %+v", path, what, v)
		}
	}
}

func waiting(list []api.Attention, kind string) *api.Attention {
	i := slices.IndexFunc(list, func(a api.Attention) bool { return a.Kind == kind })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// A registered pane is a member of the team tmux: in the lists, in snapshots and as a
// recipient. Each step of a message is an event.
func TestPaneIsAMember(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	r := p.start(t)
	if list := get[[]api.Pane](t, r, "/v1/panes"); len(list) != 0 {
		t.Errorf("panes before one is registered: %+v", list)
	}
	problem(t, r.ask(t, "GET", "/v1/teams/tmux/status", ""), api.CodeNotFound)
	events := r.listen(t, "", "")
	added := p.add(t, r, "build")
	if added.Target != p.id || added.Team != "tmux" || added.Profile != "claude" {
		t.Errorf("registered %+v", added)
	}
	if again := of[api.Pane](t, r.ask(t, "POST", "/v1/panes", `{"member": "build", "target": "`+p.id+`", "socket": "`+p.Socket+`"}`), http.StatusOK); !again.Created.Equal(added.Created) {
		t.Errorf("registered again: %+v", again)
	}
	problem(t, r.ask(t, "POST", "/v1/panes", `{"member": "other", "target": "`+p.id+`", "socket": "`+p.Socket+`"}`), api.CodeConflict)
	problem(t, r.ask(t, "POST", "/v1/panes", `{"member": "build", "target": "`+p.id+`", "socket": "`+p.Socket+`", "profile": "generic"}`), api.CodeConflict)
	missing := problem(t, r.ask(t, "POST", "/v1/panes", `{"member": "other", "target": "%99", "socket": "`+p.Socket+`"}`), api.CodeNotFound)
	if len(missing.Nearest) == 0 {
		t.Errorf("no panes are named in %+v", missing)
	}
	events.until(api.EventSnapshot, func(e event) bool {
		s := as[api.Snapshot](t, e)
		i := slices.IndexFunc(s.Teams, func(team api.Team) bool { return team.Panes && team.Team == "tmux" && team.Members == 1 })
		j := slices.IndexFunc(s.Status, func(s api.Status) bool { return s.Team == "tmux" && s.Word == api.WordIdle && s.Basis == api.BasisPane })
		return i >= 0 && j >= 0 && s.Status[j].Member == "build"
	})
	for path, member := range map[string]string{"/v1/teams": "", "/v1/teams/tmux/members": "build", "/v1/teams/tmux/status": "build"} {
		list := get[[]map[string]any](t, r, path)
		if !slices.ContainsFunc(list, func(v map[string]any) bool { return v["team"] == "tmux" && (member == "" || v["member"] == member) }) {
			t.Errorf("%s lacks the pane: %v", path, list)
		}
	}
	if team := get[api.TeamDetail](t, r, "/v1/teams/tmux"); !team.Panes || !slices.Equal(team.Ours, []string{"user"}) {
		t.Errorf("the team is %+v", team)
	}
	if look := get[api.Pane](t, r, "/v1/panes/build").Look; look == nil || look.State != api.PaneEmpty || !look.Raw {
		t.Errorf("a look at it: %+v", look)
	}

	sent := p.send(t, r, "build", "one", "")
	if sent.State != api.Waiting && sent.State != api.Confirmed || sent.Delivery == "" || sent.Member != "build" {
		t.Errorf("sent: %+v", sent)
	}
	var states []string
	events.until(api.EventRelay, func(e event) bool {
		v := as[api.RelayEvent](t, e)
		if v.Delivery == sent.Delivery && v.Pane {
			states = append(states, v.State)
		}
		return v.State == "done"
	})
	if want := []string{"claimed", "written", "accepted", "done"}; !slices.Equal(states, want) {
		t.Errorf("events of the message: %q, want %q", states, want)
	}
	if screen := p.screen(t); !strings.Contains(screen, "❯ [teambridge "+pane.Nonce(sent.Delivery)) || !strings.Contains(screen, "] task one") {
		t.Errorf("the pane shows:\n%s", screen)
	}
	again := of[api.Sent](t, r.ask(t, "POST", "/v1/teams/tmux/members/build/messages", `{"text": "task one"}`, "Idempotency-Key", "one"), http.StatusOK)
	if !again.Deduplicated || again.State != api.Confirmed || again.Delivery != sent.Delivery {
		t.Errorf("sent again: %+v", again)
	}
	problem(t, r.ask(t, "POST", "/v1/teams/tmux/members/build/messages", `{"text": "another"}`, "Idempotency-Key", "one"), api.CodeIDTaken)
	page := eventually(t, r, "/v1/teams/tmux/messages?with=build", "complete", func(p api.Page) bool {
		return len(p.Messages) == 1 && p.Messages[0].Relay != nil && p.Messages[0].Relay.State == "done" && p.Messages[0].Receipt != nil && p.Messages[0].Receipt.State == api.Consumed
	})
	if m := page.Messages[0]; m.Text != "task one" || m.From != "user" || !m.Relay.Pane || !m.Person {
		t.Errorf("the history has %+v", m)
	}
	nearest := problem(t, r.ask(t, "POST", "/v1/teams/tmux/members/biuld/messages", `{"text": "x"}`), api.CodeNotFound)
	if !slices.Contains(nearest.Nearest, "build") {
		t.Errorf("a name that is wrong: %+v", nearest)
	}
	for _, body := range []string{`{"text": "\u001b[201~"}`, `{"text": " "}`, `{"text": "x", "policy": "now"}`, `{"text": "x", "isolated": true}`, `{"text": "x", "via": "mail"}`} {
		problem(t, r.ask(t, "POST", "/v1/teams/tmux/members/build/messages", body), api.CodeInvalid)
	}
	problem(t, r.ask(t, "POST", "/v1/teams/"+newer+"/members/lead/messages", `{"text": "x", "policy": "urgent"}`), api.CodeInvalid)
	if list := of[[]api.Sent](t, r.ask(t, "POST", "/v1/teams/tmux/broadcast", `{"text": "to all", "policy": "important"}`), http.StatusCreated); len(list) != 1 || list[0].Member != "build" || list[0].Error != nil {
		t.Errorf("to all panes: %+v", list)
	}

	if gone := of[api.Pane](t, r.ask(t, "DELETE", "/v1/panes/build", ""), http.StatusOK); gone.Member != "build" {
		t.Errorf("removed %+v", gone)
	}
	problem(t, r.ask(t, "GET", "/v1/panes/build", ""), api.CodeNotFound)
	events.until(api.EventSnapshot, func(e event) bool {
		return !slices.ContainsFunc(as[api.Snapshot](t, e).Teams, func(t api.Team) bool { return t.Panes })
	})
	if page := get[api.Page](t, r, "/v1/teams/tmux/messages"); len(page.Messages) == 0 {
		t.Error("the history of a removed pane is gone")
	}
}

// A message waits for what a person has typed, and says so. A dialog needs the person, and so does
// a pane that is gone.
func TestPaneNeedsThePerson(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	r := p.start(t)
	p.add(t, r, "build")
	p.Keys(t, p.id, "-l", "half a thought")
	eventually(t, r, "/v1/panes", "a draft", func(l []api.Pane) bool { return l[0].Look != nil && l[0].Look.State == api.PaneDraft })
	events := r.listen(t, "?after=0", "")
	sent := p.send(t, r, "build", "held", "")
	events.until(api.EventRelay, func(e event) bool {
		v := as[api.RelayEvent](t, e)
		return v.Delivery == sent.Delivery && v.State == "held" && v.Reason != "" && v.Pane
	})
	m := eventually(t, r, "/v1/teams/tmux/messages", "held", func(p api.Page) bool {
		return len(p.Messages) == 1 && p.Messages[0].Relay != nil && p.Messages[0].Relay.State == "held"
	}).Messages[0]
	if m.Relay.Reason == "" {
		t.Errorf("no reason in %+v", m.Relay)
	}
	if a := waiting(get[[]api.Attention](t, r, "/v1/attention"), api.WaitsDraft); a != nil {
		t.Errorf("at once, it needs the person: %+v", a)
	}
	p.Keys(t, p.id, "C-j", "ASK:Bash", "Enter")
	all := eventually(t, r, "/v1/attention", "a dialog", func(l []api.Attention) bool { return waiting(l, api.WaitsTerminal) != nil })
	if a := waiting(all, api.WaitsTerminal); a.Member != "build" || a.Team != "tmux" || a.Dismissable {
		t.Errorf("a dialog: %+v", a)
	}
	if _, err := p.Run(t.Context(), nil, "kill-pane", "-t", p.id); err != nil {
		t.Fatal(err)
	}
	all = eventually(t, r, "/v1/attention", "gone", func(l []api.Attention) bool { return waiting(l, api.WaitsStopped) != nil })
	if a := waiting(all, api.WaitsStopped); a.Count != 1 || !a.Dismissable || !strings.Contains(a.Do, "build") {
		t.Errorf("a pane that is gone: %+v", a)
	}
	// Each looks at the pane by itself, and this one may have looked just before.
	ended := func(l []api.Status) bool { return len(l) == 1 && l[0].Word == api.WordEnded }
	if s := eventually(t, r, "/v1/teams/tmux/status", "ended", ended); s[0].Unread != 1 {
		t.Errorf("its status: %+v", s)
	}
	dropped := of[api.Delivery](t, r.ask(t, "POST", "/v1/deliveries/"+sent.Delivery+"/drop", ""), http.StatusOK)
	if dropped.State != "dropped" {
		t.Errorf("given up: %+v", dropped)
	}
}

// The person is told that a task is done, once the agent's turn has ended, and can dismiss
// that.
func TestPaneNotice(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	r := p.start(t)
	p.add(t, r, "build")
	events := r.listen(t, "", "")
	sent := p.send(t, r, "build", "one", `, "notifyOnStop": true`)
	events.until(api.EventRelay, func(e event) bool { return as[api.RelayEvent](t, e).State == "done" })
	list, err := r.panes.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	// As the hook of the agent does, in a process of its own.
	hook := pane.New(pane.Options{Root: p.Root, Ledger: r.ledger, State: p.State})
	if err := hook.Stopped(t.Context(), pane.Stop{Answer: "All built.", Socket: p.Socket, Server: list[0].Ref.Server, PaneID: p.id}); err != nil {
		t.Fatal(err)
	}
	events.until(api.EventRelay, func(e event) bool {
		v := as[api.RelayEvent](t, e)
		return v.State == "finished" && v.Delivery == sent.Delivery && v.Pane
	})
	all := eventually(t, r, "/v1/attention", "told", func(l []api.Attention) bool { return waiting(l, api.WaitsDone) != nil })
	a := waiting(all, api.WaitsDone)
	if a.Member != "build" || a.Message != "one" || !a.Dismissable || !strings.Contains(a.What, "task one") {
		t.Errorf("it is told %+v", a)
	}
	eventually(t, r, "/v1/teams/tmux/messages", "answered", func(p api.Page) bool {
		return slices.ContainsFunc(p.Messages, func(m api.Record) bool {
			return m.Answer != nil && m.Text == "All built." && m.From == "build" && slices.Equal(m.Answer.InReplyTo, []string{"one"})
		}) && slices.ContainsFunc(p.Messages, func(m api.Record) bool { return m.ID == "one" && m.Relay.State == "finished" })
	})
	of[api.Attention](t, r.ask(t, "POST", "/v1/attention/dismiss", `{"id": "`+a.ID+`"}`), http.StatusOK)
	if a := waiting(get[[]api.Attention](t, r, "/v1/attention"), api.WaitsDone); a != nil {
		t.Errorf("after it was dismissed: %+v", a)
	}
	r.end(t)
	r = p.start(t)
	if a := waiting(get[[]api.Attention](t, r, "/v1/attention"), api.WaitsDone); a != nil {
		t.Errorf("after a restart: %+v", a)
	}
}

// A read-only service types nothing, and a tmux server that is gone delays nothing.
func TestPanesReadOnly(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	r := p.start(t)
	p.add(t, r, "build")
	r.end(t)
	if _, err := p.Run(t.Context(), nil, "kill-server"); err != nil {
		t.Fatal(err)
	}
	r = p.start(t, func(s *Server) { s.opts.ReadOnly = true })
	for _, c := range [][3]string{
		{"POST", "/v1/panes", `{"member": "b", "target": "%1"}`}, {"DELETE", "/v1/panes/build", ""}, {"POST", "/v1/teams/tmux/members/build/messages", `{"text": "x"}`},
	} {
		problem(t, r.ask(t, c[0], c[1], c[2]), api.CodeReadOnly)
	}
	eventually(t, r, "/v1/teams/tmux/status", "ended", func(l []api.Status) bool { return len(l) == 1 && l[0].Word == api.WordEnded })
}

// A real team that is named as that of the panes is that team. Its panes are not lost.
func TestTeamNamedAsThePanes(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	r := p.start(t)
	p.add(t, r, "build")
	p.Make("tmux", 1, "team-lead", "worker")
	list := get[[]api.Member](t, r, "/v1/teams/tmux/members")
	if len(list) != 2 || list[1].Member != "worker" {
		t.Errorf("its members: %+v", list)
	}
	if n := len(slices.DeleteFunc(get[[]api.Team](t, r, "/v1/teams"), func(t api.Team) bool { return t.Team != "tmux" })); n != 1 {
		t.Errorf("%d teams named tmux", n)
	}
	problem(t, r.ask(t, "POST", "/v1/panes", `{"member": "b", "target": "`+p.id+`", "socket": "`+p.Socket+`"}`), api.CodeRefused)
	if list := get[[]api.Pane](t, r, "/v1/panes"); len(list) != 1 {
		t.Errorf("registered panes: %+v", list)
	}
}

// The pane that config.json has for a member of a team is reached with via. Its messages are
// in the history of the team, and need the person there.
func TestPaneOfAMember(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.Make("crew", 7, "team-lead", "worker", "other")
	path := p.Path("crew", "config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config = []byte(strings.Replace(string(config), `"name":"worker"`, `"name":"worker","tmuxPaneId":"`+p.id+`","backendType":"tmux"`, 1))
	if err := os.WriteFile(path, config, 0o600); err != nil {
		t.Fatal(err)
	}
	r := p.start(t, func(s *Server) { s.core.Tmux = p.Socket })
	const to = "/v1/teams/crew/members/"
	problem(t, r.ask(t, "POST", to+"other/messages", `{"text": "x", "via": "pane"}`), api.CodeConflict)
	problem(t, r.ask(t, "POST", to+"nobody/messages", `{"text": "x", "via": "pane"}`), api.CodeNotFound)
	events := r.listen(t, "?team=crew", "")
	sent := of[api.Sent](t, r.ask(t, "POST", to+"worker/messages", `{"text": "by hand", "via": "pane", "from": "other"}`), http.StatusCreated)
	if sent.Team != "crew" || sent.Member != "worker" || sent.Delivery == "" {
		t.Errorf("sent: %+v", sent)
	}
	events.until(api.EventRelay, func(e event) bool {
		v := as[api.RelayEvent](t, e)
		return v.Delivery == sent.Delivery && v.State == "done" && v.Pane && v.Team == "crew"
	})
	if screen := p.screen(t); !strings.Contains(screen, " from other@crew] by hand") {
		t.Errorf("the pane shows:\n%s", screen)
	}
	eventually(t, r, "/v1/teams/crew/messages?with=worker", "recorded", func(p api.Page) bool {
		return len(p.Messages) == 1 && p.Messages[0].Relay != nil && p.Messages[0].Relay.Pane && p.Messages[0].From == "other@crew"
	})
	if list := get[[]api.Pane](t, r, "/v1/panes"); len(list) != 0 {
		t.Errorf("it was registered: %+v", list)
	}

	// One that was not sent needs the person.
	p.Keys(t, p.id, "WAIT:never", "Enter")
	eventually(t, r, "/v1/teams/crew/status", "there", func(l []api.Status) bool { return len(l) == 3 })
	late := of[api.Sent](t, r.ask(t, "POST", to+"worker/messages", `{"text": "later", "via": "pane", "policy": "when-idle"}`), http.StatusCreated)
	events.until(api.EventRelay, func(e event) bool {
		v := as[api.RelayEvent](t, e)
		return v.Delivery == late.Delivery && v.State == "held"
	})
	if err := r.ledger.EndDeliveries(t.Context(), ledger.Failed, ledger.CauseNotSent.Reason("it worked all the time"), late.Delivery); err != nil {
		t.Fatal(err)
	}
	all := eventually(t, r, "/v1/attention?team=crew", "told", func(l []api.Attention) bool { return waiting(l, api.WaitsLost) != nil })
	if a := waiting(all, api.WaitsLost); a.Member != "worker" || a.Delivery != late.Delivery || a.What != "a message was not sent: it worked all the time" {
		t.Errorf("what needs the person: %+v", a)
	}
	of[api.Delivery](t, r.ask(t, "POST", "/v1/deliveries/"+late.Delivery+"/drop", ""), http.StatusOK)
	eventually(t, r, "/v1/attention?team=crew", "over", func(l []api.Attention) bool { return waiting(l, api.WaitsLost) == nil })
}

// A message to a pane is from the person, from another pane, or from a member of a team; an
// agent among them is told that its task is done.
func TestPaneSenders(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.Make("crew", 7, "team-lead", "worker", "painter") // other teams have a worker, too
	r := p.start(t)
	p.add(t, r, "build")
	list, err := r.panes.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]struct {
		name string
		to   ledger.InboxKey
	}{
		"": {}, "user": {},
		"build":       {"build", list[0].InboxKey},
		"build@tmux":  {"build", list[0].InboxKey},
		"painter":     {"painter@crew", ledger.InboxKey{Root: p.Root.Path(), Team: "crew", CreatedAt: 7, Inbox: "painter"}},
		"worker@crew": {"worker@crew", ledger.InboxKey{Root: p.Root.Path(), Team: "crew", CreatedAt: 7, Inbox: "worker"}},
	} {
		name, to, err := r.panes.Sender(t.Context(), list[0], from)
		if err != nil || name != want.name || to != want.to {
			t.Errorf("from %q: %q %+v, %v; want %q %+v", from, name, to, err, want.name, want.to)
		}
	}
	for from, code := range map[string]api.Code{"nobody": api.CodeNotFound, "team-lead": api.CodeAmbiguousTeam, "worker": api.CodeAmbiguousTeam, "nobody@crew": api.CodeNotFound, "worker@nowhere": api.CodeNotFound} {
		problem(t, r.ask(t, "POST", "/v1/teams/tmux/members/build/messages", `{"text": "x", "from": "`+from+`"}`), code)
	}
	problem(t, r.ask(t, "POST", "/v1/teams/tmux/broadcast", `{"text": "x", "from": "build"}`), api.CodeNotFound)
	problem(t, r.ask(t, "POST", "/v1/teams/tmux/broadcast", `{"text": "x", "from": "build@tmux"}`), api.CodeNotFound)
	problem(t, r.ask(t, "POST", "/v1/teams/tmux/broadcast", `{"text": "x", "except": ["biuld"]}`), api.CodeNotFound)
	problem(t, r.ask(t, "POST", "/v1/teams/tmux/broadcast", `{"text": "x", "via": "pane"}`), api.CodeInvalid)
	problem(t, r.ask(t, "POST", "/v1/teams/crew/broadcast", `{"text": "x", "policy": "urgent"}`), api.CodeInvalid)
	if mixed := of[[]api.Sent](t, r.ask(t, "POST", "/v1/teams/tmux/broadcast", `{"text": "\u0007"}`), http.StatusMultiStatus); mixed[0].Error == nil || mixed[0].Error.Code != api.CodeInvalid {
		t.Errorf("a text that cannot be typed: %+v", mixed)
	}
}

// A tmux server that does not answer delays no request: they tell what was seen last. The
// message is recorded, and waits.
func TestPanesOfAStoppedTmux(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	r := p.start(t, func(s *Server) { s.core.Tick = time.Hour })
	p.add(t, r, "build")
	idle := func(l []api.Status) bool { return len(l) == 1 && l[0].Word == api.WordIdle }
	eventually(t, r, "/v1/teams/tmux/status", "idle", idle)
	list, err := r.panes.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := list[0].Ref.Server
	if err := syscall.Kill(server, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(server, syscall.SIGCONT) })
	// With a look, these would not find out what it does, after 10 s.
	if l := get[[]api.Status](t, r, "/v1/teams/tmux/status"); !idle(l) {
		t.Errorf("the status: %+v", l)
	}
	if l := get[[]api.Pane](t, r, "/v1/panes"); len(l) != 1 || l[0].Look == nil || l[0].Look.State != api.PaneEmpty {
		t.Errorf("the panes: %+v", l)
	}
	get[[]api.Member](t, r, "/v1/teams/tmux/members")
	get[[]api.Attention](t, r, "/v1/attention")
	shot := as[api.Snapshot](t, r.listen(t, "?team=tmux", "").until(api.EventSnapshot, nil))
	if !idle(shot.Status) {
		t.Errorf("the snapshot: %+v", shot.Status)
	}
	if sent := p.send(t, r, "build", "one", ""); sent.State != api.Waiting {
		t.Errorf("sent: %+v", sent)
	}
	if err := syscall.Kill(server, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, r, "/v1/teams/tmux/messages", "confirmed", func(p api.Page) bool {
		return len(p.Messages) == 1 && p.Messages[0].Relay != nil && p.Messages[0].Relay.State == "done"
	})
}

// What is asked of an agent in a pane is typed by the service, and answered when its turn ends.
func TestPaneIsAskedAndWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	r := p.start(t)
	p.add(t, r, "build")
	const team = "/v1/teams/tmux"
	idle := of[api.Happened](t, r.ask(t, "GET", team+"/wait?for=all-idle", ""), http.StatusOK)
	if len(idle.Status) != 1 || idle.Status[0].Member != "build" || idle.Status[0].Word != api.WordIdle {
		t.Errorf("idle: %+v", idle)
	}
	events := r.listen(t, "", "")
	asked, replied := make(chan answer, 1), make(chan answer, 1)
	go func() { replied <- r.ask(t, "GET", team+"/wait?for=reply&member=build", "") }()
	r.open(t, 2)
	go func() { asked <- r.ask(t, "POST", team+"/members/build/ask", `{"text": "task one"}`) }()
	events.until(api.EventRelay, func(e event) bool { return as[api.RelayEvent](t, e).State == "done" })
	problem(t, r.ask(t, "GET", team+"/wait?for=idle&member=build&timeout=300ms", ""), api.CodeTimeout)
	list, err := r.panes.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	hook := pane.New(pane.Options{Root: p.Root, Ledger: r.ledger, State: p.State})
	if err := hook.Stopped(t.Context(), pane.Stop{Answer: "All built.", Socket: p.Socket, Server: list[0].Ref.Server, PaneID: p.id}); err != nil {
		t.Fatal(err)
	}
	a := of[api.Answered](t, <-asked, http.StatusOK)
	if a.Text != "All built." || a.Via != api.ViaResult || !a.Certain || a.Reply.From != "build" || a.Reply.Kind != "answer" || a.Sent.State != api.Confirmed || a.Sent.Delivery == "" {
		t.Errorf("the answer is %+v", a)
	}
	if h := of[api.Happened](t, <-replied, http.StatusOK); h.Message == nil || h.Message.Text != "All built." {
		t.Errorf("the reply is %+v", h)
	}
	p.Keys(t, p.id, "d", "r", "a", "f", "t")
	problem(t, r.ask(t, "POST", team+"/members/build/ask", `{"text": "task two", "timeout": "300ms"}`), api.CodeTimeout)
	if _, err := p.Run(t.Context(), nil, "kill-pane", "-t", p.id); err != nil {
		t.Fatal(err)
	}
	problem(t, r.ask(t, "POST", team+"/members/build/ask", `{"text": "task three"}`), api.CodeGone)
	problem(t, r.ask(t, "GET", team+"/wait?for=idle&member=build", ""), api.CodeNotFound)
	if h := of[api.Happened](t, r.ask(t, "GET", team+"/wait?for=terminated&member=build", ""), http.StatusOK); len(h.Status) != 1 || h.Status[0].Member != "build" {
		t.Errorf("terminated: %+v", h)
	}
}
