package bridge_test

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/status/service"
	"teambridge/status/view"
)

// panes is a Claude directory with a tmux server in which an agent program runs.
type panes struct {
	*world
	*standin.Tmux
	id string // of the pane
}

func newPanes(t testing.TB) *panes {
	p := &panes{world: newWorld(t), Tmux: standin.StartTmux(t)}
	p.id = p.StartAgent(t)
	return p
}

func (p *panes) newPane(name string) api.NewPane {
	return api.NewPane{Member: name, Target: p.id, Socket: p.Socket}
}

func (p *panes) add(name string) api.Pane {
	p.Helper()
	added, err := p.s.AddPane(p.ctx, p.newPane(name))
	p.must(err)
	return added
}

func (p *panes) screen() string {
	p.Helper()
	out, err := p.Run(p.ctx, nil, "capture-pane", "-p", "-t", p.id)
	p.must(err)
	return out
}

// stopped reports the end of a turn, as the hook of the agent does in a process of its own.
func (p *panes) stopped(answer string) {
	p.Helper()
	registered, err := p.s.Registered(p.ctx)
	p.must(err)
	hook := pane.New(pane.Options{Root: p.Root, Ledger: p.ledger, State: p.State})
	p.must(hook.Tasks.Stopped(p.ctx, pane.Stop{Answer: answer, Socket: p.Socket, Server: registered[0].Ref.Server, PaneID: p.id}))
}

// waits waits until there is an item of a kind, and returns it.
func (p *panes) waits(kind string) api.Attention {
	p.Helper()
	find := func(a api.Attention) bool { return a.Kind == kind }
	list := until(p.world, kind, func() ([]api.Attention, error) { return p.s.Attention(p.ctx, "") }, func(l []api.Attention) bool { return slices.ContainsFunc(l, find) })
	return list[slices.IndexFunc(list, find)]
}

// word waits until the agent in the pane has a state.
func (p *panes) word(word string) {
	p.Helper()
	until(p.world, word, func() ([]api.Status, error) { return p.s.Status(p.ctx, api.TeamPanes) }, func(l []api.Status) bool { return len(l) == 1 && l[0].Word == word })
}

// A registered pane is a member of the team tmux: in the lists, in snapshots and as a recipient. Each step of a
// message is an event. A pane can be registered once.
func TestPaneIsAMember(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.start()
	_, err := p.s.Status(p.ctx, api.TeamPanes)
	p.fails(err, api.CodeNotFound)
	e := p.events("", "")
	added := p.add("build")
	if again := p.add("build"); added.Target != p.id || added.Team != api.TeamPanes || added.Profile != "claude" || !again.Created.Equal(added.Created) {
		t.Errorf("registered %+v, and again %+v", added, again)
	}
	generic := p.newPane("build")
	generic.Profile = "generic"
	for _, other := range []api.NewPane{p.newPane("other"), generic} {
		_, err = p.s.AddPane(p.ctx, other)
		p.fails(err, api.CodeConflict)
	}
	missing := p.newPane("other")
	missing.Target = "%99"
	_, err = p.s.AddPane(p.ctx, missing)
	if p.fails(err, api.CodeNotFound); len(view.Problem(err).Nearest) == 0 {
		t.Errorf("no panes are named in %v", err)
	}
	e.shows(func(s *api.Snapshot) bool {
		return slices.ContainsFunc(s.Teams, func(t api.Team) bool { return t.Panes && t.Team == api.TeamPanes && t.Members == 1 }) &&
			slices.ContainsFunc(s.Status, func(s api.Status) bool {
				return s.Team == api.TeamPanes && s.Member == "build" && s.Word == api.WordIdle && s.Basis == api.BasisPane
			})
	})
	if list, err := p.s.Members(p.ctx, api.TeamPanes); err != nil || len(list) != 1 || list[0].Member != "build" {
		t.Errorf("the members are %+v, %v", list, err)
	}
	if d, err := p.s.Team(p.ctx, api.TeamPanes); err != nil || !d.Panes || !slices.Equal(d.Ours, []string{"user"}) {
		t.Errorf("the team is %+v, %v", d, err)
	}
	if one, err := p.s.Pane(p.ctx, "build"); err != nil || one.Look == nil || one.Look.State != api.PaneEmpty || !one.Look.Raw {
		t.Errorf("a look at it: %+v, %v", one, err)
	}

	m := api.NewMessage{Text: "task one"}
	sent := p.send(api.TeamPanes, "build", "one", m)
	if sent.State != api.Waiting && sent.State != api.Confirmed || sent.Delivery == "" || sent.Member != "build" {
		t.Errorf("sent: %+v", sent)
	}
	var steps []string
	e.until(func(v api.Event) bool {
		if v.Relay != nil && v.Relay.Delivery == sent.Delivery && v.Relay.Pane {
			steps = append(steps, v.Relay.State)
		}
		return slices.Contains(steps, "done")
	})
	if want := []string{"claimed", "written", "accepted", "done"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	if screen := p.screen(); !strings.Contains(screen, "❯ [teambridge "+pane.Nonce(sent.Delivery)) || !strings.Contains(screen, "] task one") {
		t.Errorf("the pane shows:\n%s", screen)
	}
	if again := p.send(api.TeamPanes, "build", "one", m); !again.Deduplicated || again.State != api.Confirmed || again.Delivery != sent.Delivery {
		t.Errorf("sent again: %+v", again)
	}
	got := p.recorded(api.TeamPanes, "done", func(m api.Record) bool {
		return m.Relay != nil && m.Relay.State == "done" && m.Receipt != nil && m.Receipt.State == api.Consumed
	})
	if got.Text != "task one" || got.From != "user" || !got.Relay.Pane || !got.Person {
		t.Errorf("the history has %+v", got)
	}
	if all, err := p.s.Broadcast(p.ctx, api.TeamPanes, "", api.NewBroadcast{Text: "to all", PaneOptions: api.PaneOptions{Policy: api.PolicyImportant}}); err != nil || len(all) != 1 || all[0].Member != "build" || all[0].Error != nil {
		t.Errorf("to all panes: %+v, %v", all, err)
	}

	if gone, err := p.s.RemovePane(p.ctx, "build"); err != nil || gone.Member != "build" {
		t.Errorf("removed %+v, %v", gone, err)
	}
	_, err = p.s.Pane(p.ctx, "build")
	p.fails(err, api.CodeNotFound)
	e.shows(func(s *api.Snapshot) bool {
		return !slices.ContainsFunc(s.Teams, func(t api.Team) bool { return t.Panes })
	})
	if len(p.page(api.TeamPanes, api.MessageQuery{}).Messages) == 0 {
		t.Error("the history of a removed pane is gone")
	}
}

// A message that is invalid for a pane, or has no sender, is refused. The sender can be another pane, or a
// member of a team.
func TestMessagesForNoPane(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.Make("crew", 7, "team-lead", "worker", "painter") // other teams have a worker, too
	p.start()
	p.add("build")
	p.send(api.TeamPanes, "build", "one", api.NewMessage{Text: "task one"})
	for code, list := range map[api.Code][]api.NewMessage{
		api.CodeInvalid: {
			{Text: "\x1b[201~"}, {Text: " "}, {Text: "x", PaneOptions: api.PaneOptions{Policy: "now"}}, {Text: "x", Isolated: true}, {Text: "x", PaneOptions: api.PaneOptions{Via: "mail"}},
		},
		api.CodeNotFound:      {{Text: "x", From: "nobody"}, {Text: "x", From: "nobody@crew"}, {Text: "x", From: "worker@nowhere"}},
		api.CodeAmbiguousTeam: {{Text: "x", From: "team-lead"}, {Text: "x", From: "worker"}},
	} {
		for _, m := range list {
			_, err := p.s.Send(p.ctx, api.TeamPanes, "build", "", m)
			p.fails(err, code)
		}
	}
	_, err := p.s.Send(p.ctx, api.TeamPanes, "build", "one", api.NewMessage{Text: "another"})
	p.fails(err, api.CodeIDTaken)
	_, err = p.s.Send(p.ctx, api.TeamPanes, "biuld", "", api.NewMessage{Text: "x"})
	if p.fails(err, api.CodeNotFound); !slices.Contains(view.Problem(err).Nearest, "build") {
		t.Errorf("a name that is wrong: %v", err)
	}
	for code, list := range map[api.Code][]api.NewBroadcast{
		api.CodeNotFound: {{Text: "x", From: "build"}, {Text: "x", From: "build@tmux"}, {Text: "x", Except: []string{"biuld"}}},
		api.CodeInvalid:  {{Text: "x", PaneOptions: api.PaneOptions{Via: api.ViaPane}}},
	} {
		for _, m := range list {
			_, err := p.s.Broadcast(p.ctx, api.TeamPanes, "", m)
			p.fails(err, code)
		}
	}
	if mixed, err := p.s.Broadcast(p.ctx, api.TeamPanes, "", api.NewBroadcast{Text: "\a"}); err != nil || mixed[0].Error == nil || mixed[0].Error.Code != api.CodeInvalid {
		t.Errorf("a text that cannot be typed: %+v, %v", mixed, err)
	}

	all, err := p.s.OpenPanes(p.ctx)
	p.must(err)
	list, err := all.Registry.List(p.ctx)
	p.must(err)
	member := func(name string) inbox.InboxKey {
		return inbox.InboxKey{Root: p.Root.Path(), Team: "crew", CreatedAt: 7, Inbox: name}
	}
	for from, want := range map[string]struct {
		name string
		to   inbox.InboxKey
	}{
		"": {}, "user": {}, "build": {"build", list[0].InboxKey}, "build@tmux": {"build", list[0].InboxKey},
		"painter": {"painter@crew", member("painter")}, "worker@crew": {"worker@crew", member("worker")},
	} {
		if name, to, err := all.Registry.Sender(p.ctx, list[0], from); err != nil || name != want.name || to != want.to {
			t.Errorf("from %q: %q %+v, %v; want %q %+v", from, name, to, err, want.name, want.to)
		}
	}
}

// A person's draft holds a message, and the message says so. A dialog needs the person, and so does a pane that
// is gone.
func TestPaneNeedsThePerson(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.start()
	p.add("build")
	p.Keys(t, p.id, "-l", "half a thought")
	until(p.world, "a draft", func() (api.Pane, error) { return p.s.Pane(p.ctx, "build") }, func(v api.Pane) bool { return v.Look != nil && v.Look.State == api.PaneDraft })
	e := p.events("", "0")
	sent := p.send(api.TeamPanes, "build", "", api.NewMessage{Text: "task"})
	if step := e.step(sent.Delivery, "held"); step.Reason == "" || !step.Pane {
		t.Errorf("held: %+v", step)
	}
	if m := p.recorded(api.TeamPanes, "held", func(m api.Record) bool { return m.Relay != nil && m.Relay.State == "held" }); m.Relay.Reason == "" {
		t.Errorf("no reason in %+v", m.Relay)
	}
	p.Keys(t, p.id, "C-j", "ASK:Bash", "Enter")
	if a := p.waits(api.WaitsTerminal); a.Member != "build" || a.Team != api.TeamPanes || a.Dismissable {
		t.Errorf("a dialog: %+v", a)
	}
	_, err := p.Run(p.ctx, nil, "kill-pane", "-t", p.id)
	p.must(err)
	if a := p.waits(api.WaitsStopped); a.Count != 1 || !a.Dismissable || !strings.Contains(a.Command, "build") {
		t.Errorf("a pane that is gone: %+v", a)
	}
	p.word(api.WordEnded) // each looks at the pane by itself, and this one may have looked just before
	if s := p.status(api.TeamPanes, "build"); s.Unread != 1 {
		t.Errorf("its status: %+v", s)
	}
	if d, err := p.s.DropDelivery(p.ctx, sent.Delivery); err != nil || d.State != "dropped" {
		t.Errorf("given up: %+v, %v", d, err)
	}
}

// The person learns once the agent's turn has ended that a task is done, until they dismiss that.
func TestPaneNotice(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.start()
	p.add("build")
	e := p.events("", "")
	sent := p.send(api.TeamPanes, "build", "one", api.NewMessage{Text: "task one", PaneOptions: api.PaneOptions{NotifyOnStop: true}})
	e.step(sent.Delivery, "done")
	p.stopped("All built.")
	e.step(sent.Delivery, "finished")
	a := p.waits(api.WaitsDone)
	if a.Member != "build" || a.Message != "one" || !a.Dismissable || !strings.Contains(a.What, "task one") {
		t.Errorf("it is told %+v", a)
	}
	p.recorded(api.TeamPanes, "finished", func(m api.Record) bool { return m.ID == "one" && m.Relay != nil && m.Relay.State == "finished" })
	if m := p.recorded(api.TeamPanes, "answered", func(m api.Record) bool { return m.Answer != nil }); m.Text != "All built." || m.From != "build" || !slices.Equal(m.Answer.InReplyTo, []string{"one"}) {
		t.Errorf("the answer is %+v", m)
	}
	_, err := p.s.Dismiss(p.ctx, a.ID)
	p.must(err)
	for range 2 {
		if list, err := p.s.Attention(p.ctx, ""); err != nil || slices.ContainsFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsDone }) {
			t.Errorf("after it was dismissed: %+v, %v", list, err)
		}
		p.end()
		p.start()
	}
}

// A tmux server that has ended delays nothing.
func TestPanesWithoutTheirServer(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.start()
	p.add("build")
	p.end()
	_, err := p.Run(p.ctx, nil, "kill-server")
	p.must(err)
	p.start(readOnly)
	p.word(api.WordEnded)
}

// A tmux server that does not answer delays nothing: the last view is shown. A message is recorded, and waits.
func TestPanesOfAStoppedTmux(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.start(func(o *service.Options) { o.Tick = time.Hour })
	p.add("build")
	p.word(api.WordIdle)
	registered, err := p.s.Registered(p.ctx)
	p.must(err)
	server := registered[0].Ref.Server
	p.must(syscall.Kill(server, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(server, syscall.SIGCONT) })
	// With a look, these would fail to find its state, after 10 s.
	if s := p.status(api.TeamPanes, "build"); s.Word != api.WordIdle {
		t.Errorf("the status: %+v", s)
	}
	if l, err := p.s.Panes(p.ctx); err != nil || len(l) != 1 || l[0].Look == nil || l[0].Look.State != api.PaneEmpty {
		t.Errorf("the panes: %+v, %v", l, err)
	}
	_, err = p.s.Members(p.ctx, api.TeamPanes)
	p.must(err)
	_, err = p.s.Attention(p.ctx, "")
	p.must(err)
	p.events(api.TeamPanes, "").shows(func(s *api.Snapshot) bool { return len(s.Status) == 1 && s.Status[0].Word == api.WordIdle })
	if sent := p.send(api.TeamPanes, "build", "", api.NewMessage{Text: "task"}); sent.State != api.Waiting {
		t.Errorf("sent: %+v", sent)
	}
	p.must(syscall.Kill(server, syscall.SIGCONT))
	p.recorded(api.TeamPanes, "done", func(m api.Record) bool { return m.Relay != nil && m.Relay.State == "done" })
}

// A real team with the name of the panes' team takes precedence. The panes are not lost.
func TestTeamNamedAsThePanes(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.start()
	p.add("build")
	p.Make(api.TeamPanes, 1, "team-lead", "worker")
	if list, err := p.s.Members(p.ctx, api.TeamPanes); err != nil || len(list) != 2 || list[1].Member != "worker" {
		t.Errorf("its members: %+v, %v", list, err)
	}
	all, err := p.s.Teams(p.ctx)
	if n := len(slices.DeleteFunc(all, func(t api.Team) bool { return t.Team != api.TeamPanes })); err != nil || n != 1 {
		t.Errorf("%d teams named %s, %v", n, api.TeamPanes, err)
	}
	_, err = p.s.AddPane(p.ctx, p.newPane("b"))
	p.fails(err, api.CodeRefused)
	if list, err := p.s.Panes(p.ctx); err != nil || len(list) != 1 {
		t.Errorf("registered panes: %+v, %v", list, err)
	}
}

// The pane that config.json has for a member of a team is reached with via. Its messages are in the history of the
// team, and need the person there.
func TestPaneOfAMember(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.Make("crew", 7, "team-lead", "worker", "other")
	path := p.Path("crew", "config.json")
	config, err := os.ReadFile(path)
	p.must(err)
	p.must(os.WriteFile(path, []byte(strings.Replace(string(config), `"name":"worker"`, `"name":"worker","tmuxPaneId":"`+p.id+`","backendType":"tmux"`, 1)), 0o600))
	p.start(func(o *service.Options) { o.Tmux = p.Socket })
	via := api.PaneOptions{Via: api.ViaPane}
	for member, code := range map[string]api.Code{"other": api.CodeConflict, "nobody": api.CodeNotFound} {
		_, err := p.s.Send(p.ctx, "crew", member, "", api.NewMessage{Text: "x", PaneOptions: via})
		p.fails(err, code)
	}
	e := p.events("crew", "")
	sent := p.send("crew", "worker", "", api.NewMessage{Text: "by hand", From: "other", PaneOptions: via})
	if sent.Team != "crew" || sent.Member != "worker" || sent.Delivery == "" {
		t.Errorf("sent: %+v", sent)
	}
	if step := e.step(sent.Delivery, "done"); !step.Pane || step.Team != "crew" {
		t.Errorf("done: %+v", step)
	}
	if screen := p.screen(); !strings.Contains(screen, " from other@crew] by hand") {
		t.Errorf("the pane shows:\n%s", screen)
	}
	p.recorded("crew", "recorded", func(m api.Record) bool {
		return m.Inbox == "worker" && m.Relay != nil && m.Relay.Pane && m.From == "other@crew"
	})
	if list, err := p.s.Panes(p.ctx); err != nil || len(list) != 0 {
		t.Errorf("it was registered: %+v, %v", list, err)
	}

	// One that was not sent needs the person.
	p.Keys(t, p.id, "WAIT:never", "Enter")
	via.Policy = api.PolicyWhenIdle
	late := p.send("crew", "worker", "", api.NewMessage{Text: "later", PaneOptions: via})
	e.step(late.Delivery, "held")
	p.must(p.ledger.Deliveries.End(p.ctx, ledger.Failed, ledger.CauseNotSent.Reason("it worked all the time"), late.Delivery))
	if a := p.waits(api.WaitsLost); a.Team != "crew" || a.Member != "worker" || a.Delivery != late.Delivery || a.What != "a message was not sent: it worked all the time" {
		t.Errorf("what needs the person: %+v", a)
	}
	_, err = p.s.DropDelivery(p.ctx, late.Delivery)
	p.must(err)
	until(p.world, "over", func() ([]api.Attention, error) { return p.s.Attention(p.ctx, "crew") }, func(l []api.Attention) bool {
		return !slices.ContainsFunc(l, func(a api.Attention) bool { return a.Kind == api.WaitsLost })
	})
}

// The service types a question to an agent in a pane, and the end of the agent's turn answers it.
func TestPaneIsAskedAndWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPanes(t)
	p.start()
	p.add("build")
	wait := func(occasion, member string, timeout time.Duration) (api.Happened, error) {
		return p.s.Wait(p.ctx, api.TeamPanes, api.Occasion{For: occasion, Member: member, Timeout: timeout})
	}
	ask := func(text, timeout string) (api.Answered, error) {
		return p.s.Ask(p.ctx, api.TeamPanes, "build", "", api.NewQuestion{NewMessage: api.NewMessage{Text: text}, Timeout: timeout})
	}
	if h, err := wait(api.ForAllIdle, "", 0); err != nil || len(h.Status) != 1 || h.Status[0].Member != "build" || h.Status[0].Word != api.WordIdle {
		t.Errorf("idle: %+v, %v", h, err)
	}
	e := p.events("", "")
	asked := make(chan error, 1)
	go func() {
		a, err := ask("task one", "")
		if a.Text != "All built." || a.Via != api.ViaResult || !a.Certain || a.Reply.From != "build" || a.Reply.Kind != "answer" || a.Sent.State != api.Confirmed || a.Sent.Delivery == "" {
			t.Errorf("the answer is %+v", a)
		}
		asked <- err
	}()
	e.until(func(v api.Event) bool { return v.Relay != nil && v.Relay.State == "done" })
	_, err := wait(api.ForIdle, "build", 300*time.Millisecond)
	p.fails(err, api.CodeTimeout)
	p.stopped("All built.")
	p.must(<-asked)
	replied := make(chan api.Happened, 1)
	go func() {
		h, err := wait(api.ForReply, "build", 0)
		if err != nil {
			t.Error(err)
		}
		replied <- h
	}()
	for h := (api.Happened{}); h.Message == nil; { // since the start of that wait cannot be observed
		sent := p.send(api.TeamPanes, "build", "", api.NewMessage{Text: "another task"})
		e.step(sent.Delivery, "done")
		p.stopped("Done, too.")
		select {
		case h = <-replied:
			if h.Message == nil || h.Message.Text != "Done, too." {
				t.Fatalf("the reply is %+v", h)
			}
		case <-time.After(200 * time.Millisecond):
		}
	}
	p.Keys(t, p.id, "d", "r", "a", "f", "t")
	_, err = ask("task two", "300ms")
	p.fails(err, api.CodeTimeout)
	_, err = p.Run(p.ctx, nil, "kill-pane", "-t", p.id)
	p.must(err)
	_, err = ask("task three", "")
	p.fails(err, api.CodeGone)
	_, err = wait(api.ForIdle, "build", 0)
	p.fails(err, api.CodeNotFound)
	if h, err := wait(api.ForTerminated, "build", 0); err != nil || len(h.Status) != 1 || h.Status[0].Member != "build" {
		t.Errorf("terminated: %+v, %v", h, err)
	}
}
