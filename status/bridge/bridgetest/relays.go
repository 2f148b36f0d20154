package bridgetest

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/status/api"
)

// later is the name of a team that does not exist, so no service starts its agents.
const later = "later"

// control adds, names, retries and removes relays.
func control(w *world) {
	ctx := w.Context()
	n := api.NewRelay{Team: later, Member: "lead", Command: []string{"agent"}, Dir: w.State}
	e, err := w.b.AddRelay(ctx, n)
	w.must(err)
	if !e.Added || e.ID == "" || e.Created == nil || e.Team != later || e.Member != "team-lead" || e.OnCut != "nudge" || e.Permissions != "deny" || e.Running {
		w.Errorf("added %+v", e)
	}
	if again, err := w.b.AddRelay(ctx, n); err != nil || again.Added || again.ID != e.ID {
		w.Errorf("added again: %+v, %v", again, err)
	}
	n.Command = []string{"another"}
	_, err = w.b.AddRelay(ctx, n)
	w.fails(err, api.CodeConflict)
	for name, change := range map[string]func(*api.NewRelay){
		"a time before":    func(n *api.NewRelay) { n.IdleExit = "-1s" },
		"a bad time":       func(n *api.NewRelay) { n.IdleExit = "soon" },
		"bad idle reports": func(n *api.NewRelay) { n.IdleReports = "none" },
		"a bad mode":       func(n *api.NewRelay) { n.Mode = []byte(`{"modle": "x"}`) },
		"what is no JSON":  func(n *api.NewRelay) { n.Mode = []byte(`{`) },
		"a relative path":  func(n *api.NewRelay) { n.Dir = "." },
		"a bad name":       func(n *api.NewRelay) { n.Member = "../x" },
		"a bad runtime":    func(n *api.NewRelay) { n.Runtime = "other" },
		"bad permissions":  func(n *api.NewRelay) { n.Permissions = "maybe" },
		"a bad word":       func(n *api.NewRelay) { n.OnCut = "shrug" },
		"nothing to start": func(n *api.NewRelay) { n.Command = nil },
		"no directory":     func(n *api.NewRelay) { n.Dir = filepath.Join(w.State, "none") },
		"a server of none": func(n *api.NewRelay) { n.URL = "http://127.0.0.1:1" },
		"no agent of ACP":  func(n *api.NewRelay) { n.Runtime, n.Command = "acp", nil },
		"a plain OpenCode": func(n *api.NewRelay) { n.Runtime, n.Plain = "opencode", true },
	} {
		bad := api.NewRelay{Team: later, Member: "other", Command: []string{"agent"}, Dir: w.State}
		change(&bad)
		if _, err := w.b.AddRelay(ctx, bad); err == nil {
			w.Errorf("%s: added", name)
		} else {
			w.fails(err, api.CodeInvalid)
		}
	}
	_, err = w.b.AddRelay(ctx, api.NewRelay{Team: newer, Member: "nobody", Command: []string{"agent"}, Dir: w.State})
	w.fails(err, api.CodeNotFound)

	all := api.NewRelay{Team: later, Member: "worker", Command: []string{"agent", "a b"}, Dir: w.State, Permissions: "allow=Read", Mode: []byte(`{"model":"x"}`), OnCut: "report", Plain: true}
	added, err := w.b.AddRelay(ctx, all)
	if err != nil || !slices.Equal(added.Command, all.Command) || added.Permissions != all.Permissions || string(added.Mode) != string(all.Mode) || added.OnCut != all.OnCut || !added.Plain || added.Dir != all.Dir {
		w.Errorf("added %+v, %v", added, err)
	}
	open, err := w.b.AddRelay(ctx, api.NewRelay{Team: later, Member: "oc", Runtime: "opencode", URL: "http://127.0.0.1:1/", PasswordFile: "/none", Dir: w.State})
	if err != nil || open.Runtime != "opencode" || open.Command == nil || len(open.Command) > 0 || open.URL != "http://127.0.0.1:1" || open.PasswordFile != "/none" {
		w.Errorf("added %+v, %v", open, err)
	}
	other, err := w.b.AddRelay(ctx, api.NewRelay{Team: "later2", Member: "lead", Command: []string{"agent"}, Dir: w.State})
	w.must(err)
	for _, tc := range []struct{ team, name, want string }{
		{"", e.ID, e.ID}, {"", e.ID[:8], e.ID}, {"", "lead@" + later, e.ID}, {"", "lead@later2", other.ID}, {later, "lead", e.ID}, {"nobody", e.ID[:8], e.ID},
	} {
		if got, err := w.b.Relay(ctx, tc.team, tc.name); err != nil || got.ID != tc.want || got.Created == nil {
			w.Errorf("%q in team %q is %+v, %v", tc.name, tc.team, got, err)
		}
	}
	_, err = w.b.Relay(ctx, "", "lead")
	w.fails(err, api.CodeUsage)
	_, err = w.b.Relay(ctx, "", "nobody")
	w.fails(err, api.CodeNotFound)

	_, err = w.b.RetryRelay(ctx, e.ID)
	w.must(err)
	_, err = w.b.RetryRelay(ctx, "nobody")
	w.fails(err, api.CodeNotFound)
	_, err = w.b.Interrupt(ctx, e.ID)
	w.fails(err, api.CodeNotInFlight)
	_, err = w.b.Interrupt(ctx, "nobody")
	w.fails(err, api.CodeNotFound)
	_, err = w.b.Question(ctx, "", "none")
	w.fails(err, api.CodeNotFound)
	_, err = w.b.Answer(ctx, "none", api.Permit{})
	w.fails(err, api.CodeNotFound)
	if list, err := w.b.Deliveries(ctx, api.DeliveryQuery{Relay: e.ID}); err != nil || list == nil || len(list) > 0 {
		w.Errorf("the deliveries are %+v, %v", list, err)
	}

	here, err := w.b.AddRelay(ctx, api.NewRelay{Team: newer, Member: "worker", Command: []string{"/no/such/program"}, Dir: w.State})
	w.must(err)
	_, err = w.b.RemoveRelay(ctx, here.ID, true) // the team was not made for it
	w.fails(err, api.CodeConflict)
	for name, deleteTeam := range map[string]bool{e.ID: false, "worker@" + newer: false, "lead@later2": true} {
		if removed, err := w.b.RemoveRelay(ctx, name, deleteTeam); err != nil || removed.Created == nil {
			w.Errorf("removed %+v, %v", removed, err)
		}
		_, err = w.b.RemoveRelay(ctx, name, deleteTeam)
		w.fails(err, api.CodeNotFound)
	}
}

// ledger opens the ledger as another process does.
func (w *world) ledger() *ledger.Ledger {
	w.Helper()
	l, err := ledger.Open(w.Context(), filepath.Join(w.State, "ledger.db"))
	w.must(err)
	w.Cleanup(func() { _ = l.Close() })
	return l
}

// inboxKey returns the ledger's key of worker's inbox.
func (w *world) inboxKey() inbox.InboxKey {
	w.Helper()
	t := w.Team(newer)
	c, err := t.Config(w.Context())
	w.must(err)
	return inbox.KeyOf(t, c, "worker")
}

// deliveries retries and drops deliveries of a relay that was not added.
func deliveries(w *world) {
	ctx, l, key := w.Context(), w.ledger(), w.inboxKey()
	var sent []relay.PromptResult
	for _, text := range []string{"one", "two"} {
		p, err := relay.Prompt(ctx, l, key, relay.Input{Text: text})
		w.must(err)
		sent = append(sent, p)
	}
	w.must(l.Sessions.SetSession(ctx, ledger.Session{InboxKey: key, ID: "s-1", Command: "agent", State: ledger.RelayRunning, Relay: 4711}))
	for _, tc := range []struct {
		q    api.DeliveryQuery
		want int
	}{
		{api.DeliveryQuery{}, 2}, {api.DeliveryQuery{Limit: 1}, 1}, {api.DeliveryQuery{Team: newer, State: api.Unfinished}, 2},
		{api.DeliveryQuery{Team: older}, 0}, {api.DeliveryQuery{State: "done"}, 0}, {api.DeliveryQuery{Relay: "worker@" + newer}, 2},
	} {
		list, err := w.b.Deliveries(ctx, tc.q)
		if err != nil || len(list) != tc.want || list == nil || tc.want == 2 && list[1].Delivery != sent[0].Delivery {
			w.Errorf("%+v: %+v, %v; want %d", tc.q, list, err, tc.want)
		}
	}
	_, err := w.b.Deliveries(ctx, api.DeliveryQuery{State: "eaten"})
	w.fails(err, api.CodeUsage)
	_, err = w.b.Deliveries(ctx, api.DeliveryQuery{Relay: "nobody"})
	w.fails(err, api.CodeNotFound)
	run, err := w.b.Relay(ctx, newer, "worker")
	if err != nil || run.ID == "" || run.Created != nil {
		w.Errorf("the relay of run is %+v, %v", run, err)
	}
	for name, do := range map[string]func(context.Context, string) (api.RelayEntry, error){
		run.ID: w.b.Interrupt, run.ID[:8]: w.b.RetryRelay,
		"worker@" + newer: func(ctx context.Context, id string) (api.RelayEntry, error) { return w.b.RemoveRelay(ctx, id, false) },
	} {
		_, err := do(ctx, name)
		if w.fails(err, api.CodeConflict); err != nil && !strings.Contains(err.Error(), `"teambridge run"`) {
			w.Errorf("what nobody can do with a relay of run: %v", err)
		}
	}

	first := sent[0].Delivery
	_, err = w.b.RetryDelivery(ctx, first)
	w.fails(err, api.CodeConflict)
	w.must(l.Deliveries.End(ctx, ledger.Failed, "so", first))
	if d, err := w.b.RetryDelivery(ctx, first[:13]); err != nil || d.Delivery != first || d.State != string(ledger.Claimed) {
		w.Errorf("retried %+v, %v", d, err)
	}
	if d, err := w.b.DropDelivery(ctx, first[:13]); err != nil || d.Delivery != first || d.State != string(ledger.Dropped) {
		w.Errorf("dropped %+v, %v", d, err)
	}
	_, err = w.b.DropDelivery(ctx, first)
	w.fails(err, api.CodeConflict)
	_, err = w.b.DropDelivery(ctx, "nothing")
	w.fails(err, api.CodeNotFound)
	_, err = w.b.RetryDelivery(ctx, "nothing")
	w.fails(err, api.CodeNotFound)
	added, err := w.b.AddRelay(ctx, api.NewRelay{Team: newer, Member: "worker", Command: []string{"/no/such/program"}, Dir: w.State})
	w.must(err)
	if list, err := w.b.Relays(ctx, newer); err != nil || len(list) != 1 || list[0].ID != added.ID || added.ID == run.ID {
		w.Errorf("once it was added: %+v, %v", list, err)
	}
}

// holds releases held messages, and holds them again.
func holds(w *world) {
	ctx, l, key := w.Context(), w.ledger(), w.inboxKey()
	for _, sender := range []string{"reviewer", "team-lead"} {
		w.must(l.Holds.Hold(ctx, ledger.Hold{InboxKey: key, Sender: sender, Reason: "they answered each other", Since: time.UnixMilli(1795000000000).UTC()}))
	}
	for _, tc := range []struct {
		sender string
		want   int
	}{{"nobody", 0}, {"reviewer", 1}, {"", 1}, {"", 0}} {
		list, err := w.b.Release(ctx, newer, "worker", tc.sender)
		if err != nil || len(list) != tc.want || list == nil {
			w.Errorf("of %q: released %+v, %v; want %d", tc.sender, list, err, tc.want)
		}
	}
	_, err := w.b.Release(ctx, newer, "wroker", "")
	w.fails(err, api.CodeNotFound)
	_, err = w.b.Release(ctx, "nobody", "worker", "")
	w.fails(err, api.CodeNotFound)

	for _, tc := range []struct {
		team, member, sender string
		want                 api.Code
	}{
		{newer, "worker", "team-lead", api.CodeConflict}, // neither has a relay
		{newer, "worker", "", api.CodeInvalid}, {newer, "worker", "worker", api.CodeInvalid},
		{newer, "wroker", "team-lead", api.CodeNotFound}, {newer, "worker", "nobody", api.CodeNotFound}, {"nobody", "worker", "team-lead", api.CodeNotFound},
	} {
		_, err = w.b.Hold(ctx, tc.team, tc.member, tc.sender)
		w.fails(err, tc.want)
	}
	w.must(l.Sessions.SetSession(ctx, ledger.Session{InboxKey: key, ID: "s-1", Command: "agent", State: ledger.RelayRunning}))
	for range 2 { // the second time changes nothing
		list, err := w.b.Hold(ctx, newer, "team-lead", "worker")
		if err != nil || len(list) != 1 || list[0].Member != "worker" || list[0].Sender != "team-lead" || list[0].Team != newer || list[0].Reason != "by you" || list[0].Since.IsZero() {
			w.Errorf("held %+v, %v; want what the lead writes to the worker, which has a relay", list, err)
		}
	}
	peer := key
	peer.Inbox = "team-lead"
	w.must(l.Sessions.SetSession(ctx, ledger.Session{InboxKey: peer, ID: "s-2", Command: "agent", State: ledger.RelayRunning}))
	if list, err := w.b.Hold(ctx, newer, "worker", "team-lead"); err != nil || len(list) != 2 || list[0].Member != "worker" || list[1].Member != "team-lead" {
		w.Errorf("held %+v, %v; want both directions", list, err)
	}
	if list, err := w.b.Release(ctx, newer, "team-lead", "worker"); err != nil || len(list) != 2 {
		w.Errorf("released %+v, %v; want both directions", list, err)
	}
}

// panes requests panes although there are none.
func panes(w *world) {
	ctx := w.Context()
	if list, err := w.b.Panes(ctx); err != nil || list == nil || len(list) > 0 {
		w.Errorf("the panes are %+v, %v", list, err)
	}
	_, err := w.b.Pane(ctx, "build")
	w.fails(err, api.CodeNotFound)
	_, err = w.b.TestPane(ctx, "build", "")
	w.fails(err, api.CodeNotFound)
	_, err = w.b.RemovePane(ctx, "build@"+api.TeamPanes)
	w.fails(err, api.CodeNotFound)
	_, err = w.b.AddPane(ctx, api.NewPane{Member: "build", Target: "main:0.0", Profile: "emacs"})
	w.fails(err, api.CodeInvalid)
	_, err = w.b.AddPane(ctx, api.NewPane{Member: "a/b", Target: "main:0.0"})
	w.fails(err, api.CodeInvalid)
}

// moves requests moves of sessions that cannot be moved.
func moves(w *world) {
	ctx := w.Context()
	_, err := w.b.Move(ctx, newer, "worker", api.NewPlace{To: api.PlaceLocal})
	w.fails(err, api.CodeConflict)
	_, err = w.b.Move(ctx, newer, "wroker", api.NewPlace{To: api.PlaceLocal})
	w.fails(err, api.CodeNotFound)
	_, err = w.b.Move(ctx, newer, "worker", api.NewPlace{To: "here"})
	w.fails(err, api.CodeInvalid)
}
