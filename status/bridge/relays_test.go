package bridge_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/status/api"
	"teambridge/teams"
)

// An agent that is relayed here gets a person's message unchanged, once, and the history has the message with
// its state. A message under another name is wrapped, and a message to another member is a row.
func TestPersonsWords(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	lead := w.add("lead")
	w.relay(lead.ID, "idle", in(relay.Idle))
	e := w.events("", "")
	text := "please </teammate-message> do \"it\"\n[w-1]"
	wish := api.NewMessage{Text: text, Summary: "a wish"}
	sent := w.send(band, "lead", "k-1", wish)
	if sent.ID != "k-1" || sent.Delivery == "" || sent.State != api.Verified || sent.Member != "team-lead" || !sent.Reachable {
		t.Errorf("sent %+v", sent)
	}
	if works := w.worked("[w-1]"); !slices.Equal(works, []string{text}) {
		t.Errorf("it was given %q, want %q alone", works, text)
	}
	var told []string
	for last := int64(0); !slices.Contains(told, "done") || !slices.Contains(told, "consumed"); {
		v := e.next()
		switch {
		case v.Message != nil:
			if told = append(told, "message"); v.Message.Message.ID != "k-1" || v.Message.Message.Text != text || v.Message.Message.Summary != "a wish" || !v.Message.Message.Person {
				t.Errorf("message %+v", v.Message)
			}
		case v.Receipt != nil:
			told = append(told, v.Receipt.State)
		case v.Relay != nil && v.Relay.Delivery != "":
			if told = append(told, v.Relay.State); v.Relay.ID != "k-1" || !v.Relay.Person || v.Relay.Delivery != sent.Delivery || v.Relay.Member != "team-lead" {
				t.Errorf("step %+v", v.Relay)
			}
		default:
			continue
		}
		if v.Seq <= last {
			t.Errorf("event %d comes after %d", v.Seq, last)
		}
		last = v.Seq
	}
	if told[0] != "message" {
		t.Errorf("told %q, want the message first", told)
	}
	page := w.page(band, api.MessageQuery{With: "team-lead", MessagesOnly: true})
	if len(page.Messages) != 2 {
		t.Fatalf("the history is %+v", page)
	}
	if m := page.Messages[0]; m.Receipt == nil || m.Receipt.State != api.Consumed || m.Relay == nil || m.Relay.State != "done" || m.Relay.Delivery != sent.Delivery {
		t.Errorf("the history has %+v", m)
	}
	if m := page.Messages[1]; m.From != "team-lead" || m.Answer == nil || !slices.Equal(m.Answer.InReplyTo, []string{"k-1"}) {
		t.Errorf("the answer is %+v", m)
	}
	if found, err := w.s.History(w.ctx, api.SearchQuery{Words: "wish"}); err != nil || len(found.Hits) != 1 || !found.Hits[0].Person || found.Hits[0].Relay == nil {
		t.Errorf("found %+v, %v", found, err)
	}
	if rows, err := w.Inbox(band, "team-lead").Read(w.ctx); err == nil && len(rows) > 0 {
		t.Errorf("the inbox has %+v", rows)
	}
	if again := w.send(band, "team-lead", "k-1", wish); !again.Deduplicated || again.Delivery != sent.Delivery {
		t.Errorf("sent again %+v", again)
	}
	isolated := wish
	isolated.Isolated = true
	for _, other := range []api.NewMessage{{Text: "other"}, isolated} {
		_, err := w.s.Send(w.ctx, band, "lead", "k-1", other)
		w.fails(err, api.CodeIDTaken)
	}

	for _, tc := range []struct {
		to, from, text string
		said           bool
	}{{"lead", "drums", "[w-2]", false}, {"lead", "user", "[w-3]", true}, {"drums", "", "[w-4]", false}} {
		if sent := w.send(band, tc.to, "", api.NewMessage{Text: tc.text, From: tc.from}); (sent.Delivery != "") != tc.said {
			t.Errorf("%+v: sent %+v", tc, sent)
		}
	}
	if works := w.worked("[w-2]"); !strings.HasPrefix(works[0], `<teammate-message teammate_id="drums"`) {
		t.Errorf("it was given %q", works)
	}
	if works := w.worked("[w-3]"); works[0] != "[w-3]" {
		t.Errorf("it was given %q", works)
	}
	opus := json.RawMessage(`{"model": "opus"}`)
	for _, tc := range []struct {
		member, why string
		m           api.NewMessage
	}{
		{"drums", "no relay of this service serves drums", api.NewMessage{Text: "x", Mode: opus}},
		{"drums", "no relay of this service serves drums", api.NewMessage{Text: "x", Isolated: true}},
		{"lead", `"drums" is not one of your names`, api.NewMessage{Text: "x", Mode: opus, From: "drums"}},
	} {
		_, err := w.s.Send(w.ctx, band, tc.member, "", tc.m)
		if w.fails(err, api.CodeInvalid); err != nil && !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%+v: %v, want %s", tc.m, err, tc.why)
		}
	}
	all, err := w.s.Broadcast(w.ctx, band, "", api.NewBroadcast{Text: "[w-5]", IncludeLead: true})
	said := len(slices.DeleteFunc(slices.Clone(all), func(s api.Sent) bool { return s.Delivery == "" }))
	if works := w.worked("[w-5]"); err != nil || len(all) != 3 || said != 1 || works[0] != "[w-5]" {
		t.Errorf("to all: %+v, %v", all, err)
	}
}

// After the service has ended, the next one continues the session. A used id stays used, whatever process
// serves its member now.
func TestRelaysGoOn(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	lead := w.add("lead")
	was := w.relay(lead.ID, "idle", in(relay.Idle))
	first := api.NewMessage{Text: "SLEEP:0.1 [g-1]"}
	w.send(band, "lead", "k-1", first)
	w.worked("[g-1]")
	w.end() // its agent may finish
	w.Send(band, "drums", "team-lead", "[g-2]")
	w.start()
	w.worked("[g-2]")
	if now := w.relay(lead.ID, "idle", in(relay.Idle)); now.Session != was.Session || now.AgentPID == was.AgentPID || now.Session == "" {
		t.Errorf("%+v after %+v", now, was)
	}
	if again := w.send(band, "lead", "k-1", first); !again.Deduplicated || again.Delivery == "" {
		t.Errorf("sent again %+v", again)
	}
	_, err := w.s.RemoveRelay(w.ctx, lead.ID, false)
	w.must(err)
	until(w, "without a relay", func() (api.Sent, error) { return w.s.Send(w.ctx, band, "lead", "k-1", first) }, func(s api.Sent) bool {
		return s.Deduplicated && s.Delivery == "" && s.Reach == string(teams.NoRelay)
	})
	w.send(band, "lead", "k-3", api.NewMessage{Text: "[g-3]"})
	w.add("lead")
	if again := w.send(band, "lead", "k-3", api.NewMessage{Text: "[g-3]"}); !again.Deduplicated || again.Delivery != "" {
		t.Errorf("a row, sent again %+v", again)
	}
	w.send(band, "lead", "", api.NewMessage{Text: "[g-4]"})
	w.worked("[g-4]")
	for _, text := range []string{"[g-1]", "[g-2]", "[g-3]", "[g-4]"} {
		if n := strings.Count(strings.Join(w.worked(text), "\n"), text); n != 1 {
			t.Errorf("%s was worked on %d times", text, n)
		}
	}
}

// A message in progress cannot be given up or tried again, but its turn can be interrupted. A waiting message
// can be given up.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	lead := w.add("lead")
	w.relay(lead.ID, "idle", in(relay.Idle))
	_, err := w.s.RetryRelay(w.ctx, lead.ID)
	w.fails(err, api.CodeConflict)
	sent, waits := w.send(band, "lead", "", api.NewMessage{Text: "TOOL:60"}), w.send(band, "lead", "", api.NewMessage{Text: "[waits]"})
	w.delivery(lead.ID, sent.Delivery, "accepted")
	_, err = w.s.DropDelivery(w.ctx, sent.Delivery)
	w.fails(err, api.CodeConflict)
	_, err = w.s.RetryDelivery(w.ctx, sent.Delivery)
	w.fails(err, api.CodeConflict)
	if d, err := w.s.DropDelivery(w.ctx, waits.Delivery); err != nil || d.State != "dropped" {
		t.Errorf("given up: %+v, %v", d, err)
	}
	_, err = w.s.Interrupt(w.ctx, lead.ID)
	w.must(err)
	w.delivery(lead.ID, sent.Delivery, "cancelled")
	if list, err := w.s.Deliveries(w.ctx, api.DeliveryQuery{Relay: lead.ID, State: "dropped,cancelled"}); err != nil || len(list) != 2 {
		t.Errorf("ended otherwise: %+v, %v", list, err)
	}
	for id, want := range map[string]string{sent.ID: api.Consumed, waits.ID: api.Lost} {
		w.recorded(band, want, func(m api.Record) bool { return m.ID == id && m.Receipt != nil && m.Receipt.State == want })
	}
}

// Held messages are shown until they are released. A hold never holds a person's message.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	lead := w.add("lead", func(n *api.NewRelay) { n.IdleExit = "1ms" })
	if asleep := w.relay(lead.ID, "asleep", in(relay.Asleep)); asleep.IdleExit != "1ms" || !asleep.Running || asleep.AgentPID != 0 || asleep.Reason == "" {
		t.Errorf("asleep: %+v", asleep)
	}
	held := ledger.Hold{InboxKey: inbox.InboxKey{Root: w.Root.Path(), Team: band, CreatedAt: 1, Inbox: "team-lead"}, Sender: "drums", Reason: "they answered each other"}
	w.must(w.ledger.Holds.Hold(w.ctx, held))
	w.Send(band, "drums", "team-lead", "[h-1]")
	w.relay(lead.ID, "held", func(e api.RelayEntry) bool {
		return len(e.Held) == 1 && e.Held[0].Member == lead.Member && e.Held[0].Sender == "drums" && e.Held[0].Reason == held.Reason
	})
	w.send(band, "lead", "", api.NewMessage{Text: "[p-1]"})
	w.worked("[p-1]")
	if n := len(w.works("[h-1]")); n != 0 {
		t.Errorf("what is held was given")
	}
	if list, err := w.s.Release(w.ctx, band, lead.Member, "bass"); err != nil || len(list) > 0 {
		t.Errorf("released %+v of another, %v", list, err)
	}
	if list, err := w.s.Release(w.ctx, band, lead.Member, "drums"); err != nil || len(list) != 1 {
		t.Errorf("released %+v, %v", list, err)
	}
	w.worked("[h-1]")
}

// An agent that cannot be started waits for its person, and its member shows the reason. Messages to it wait,
// in no inbox, and no later service treats them as consumed.
func TestWordsThatWait(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	// Agents of such a team remove the rows they take.
	config, err := os.ReadFile(w.Path(band, "config.json"))
	w.must(err)
	gone := `{"leadProcess": {"pid": 2147483000, "claimedAt": 1, "procStart": "1"}, `
	w.must(os.WriteFile(w.Path(band, "config.json"), append([]byte(gone), config[1:]...), 0o600))
	w.start()
	lead := w.add("lead", func(n *api.NewRelay) { n.Command = []string{"false"} })
	w.relay(lead.ID, "unable to start", func(e api.RelayEntry) bool { return strings.Contains(e.Reason, "version") })
	if s := w.status(band, "team-lead"); s.Relay == nil || s.Relay.Running || !strings.Contains(s.Relay.Reason, "version") {
		t.Errorf("the status is %+v", s)
	}
	sent := w.send(band, "lead", "", api.NewMessage{Text: "[waits]"})
	if sent.Delivery == "" {
		t.Errorf("sent %+v", sent)
	}
	waits := func(m api.Record) bool { return m.ID == sent.ID && m.Receipt != nil }
	w.recorded(band, "recorded", waits)
	w.end()
	w.start() // after the start, the service has looked at the earlier messages
	if m := w.recorded(band, "recorded", waits); m.Receipt.State != api.Verified {
		t.Errorf("it is %s", m.Receipt.State)
	}
}

// A failed prompt with a mode can be retried, and its id is known, after its relay was removed and added
// again.
func TestWordsOfARelayThatWasRemoved(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	first := w.add("lead")
	m := api.NewMessage{Text: "[w-1]\nFAIL", Mode: json.RawMessage(`{"model": "opus"}`)}
	w.relay(first.ID, "idle", in(relay.Idle))
	sent := w.send(band, "lead", "k-1", m)
	w.delivery(first.ID, sent.Delivery, "failed")
	_, err := w.s.RemoveRelay(w.ctx, first.ID, false)
	w.must(err)
	second := w.add("lead")
	if again := w.send(band, "lead", "k-1", m); !again.Deduplicated || again.Delivery != sent.Delivery {
		t.Errorf("sent again %+v", again)
	}
	_, err = w.s.RetryDelivery(w.ctx, sent.Delivery)
	w.must(err)
	until(w, "given twice", func() ([]string, error) { return w.works("[w-1]"), nil }, func(l []string) bool { return len(l) == 2 })
	w.delivery(second.ID, sent.Delivery, "failed")
}

// A team that was created for a relay is removed with it on request, if it has no other member, once the
// agent's last turn has ended.
func TestRelayWithATeamOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	own := w.add("lead", func(n *api.NewRelay) { n.Team, n.CreateTeam = "solo", true })
	w.relay(own.ID, "idle", in(relay.Idle))
	config := w.Path("solo", "config.json")
	alone, err := os.ReadFile(config)
	w.must(err)
	w.must(os.WriteFile(config, []byte(strings.Replace(string(alone), `"members": [`, `"members": [{"agentId":"w@solo","name":"w","backendType":"in-process"},`, 1)), 0o600))
	_, err = w.s.RemoveRelay(w.ctx, own.ID, true)
	if w.fails(err, api.CodeConflict); err != nil && !strings.Contains(err.Error(), "members besides its lead: w") {
		t.Errorf("with a member: %v", err)
	}
	w.must(os.WriteFile(config, alone, 0o600))
	last := w.send("solo", "lead", "", api.NewMessage{Text: "WAIT:go [w-2]"})
	w.delivery(own.ID, last.Delivery, "accepted")
	_, err = w.s.RemoveRelay(w.ctx, own.ID, true)
	w.must(err)
	if _, err := os.Stat(config); err != nil {
		t.Errorf("the team is gone before its agent: %v", err)
	}
	w.let()
	until(w, "removed", func() (bool, error) { _, err := os.Stat(filepath.Dir(config)); return os.IsNotExist(err), nil }, func(gone bool) bool { return gone })
	if n := len(w.works("[w-2]")); n != 1 {
		t.Errorf("its last turn was done %d times", n)
	}
}

// A question to an agent of the service is a prompt, and its answer refers to it. A question whose prompt
// fails, or is given up, has no answer.
func TestAskingAnAgentOfTheService(t *testing.T) {
	t.Parallel()
	w := newBand(t, simchild.Script{})
	w.start()
	lead := w.add("lead")
	w.relay(lead.ID, "idle", in(relay.Idle))
	type answer struct {
		api.Answered
		error
	}
	ask := func(text string) <-chan answer {
		done := make(chan answer, 1)
		go func() {
			a, err := w.s.Ask(w.ctx, band, "lead", "", api.NewQuestion{NewMessage: api.NewMessage{Text: text, Isolated: true}})
			done <- answer{a, err}
		}()
		return done
	}
	busy := w.send(band, "lead", "", api.NewMessage{Text: "WAIT:go [q-0]"})
	w.delivery(lead.ID, busy.Delivery, "accepted")
	given := ask("how many? [q-1]")
	w.relay(lead.ID, "asked", func(e api.RelayEntry) bool { return e.Queue == 2 })
	dropped := ask("[q-2]")
	w.relay(lead.ID, "asked twice", func(e api.RelayEntry) bool { return e.Queue == 3 })
	list, err := w.s.Deliveries(w.ctx, api.DeliveryQuery{Relay: lead.ID, State: "claimed", Limit: 1})
	w.must(err)
	_, err = w.s.DropDelivery(w.ctx, list[0].Delivery)
	w.must(err)
	a := <-dropped
	w.fails(a.error, api.CodeNoAnswer)
	w.let()
	if a := <-given; a.error != nil || a.Text != "ACK: how many? [q-1]" || a.Via != api.ViaResult || !a.Certain || a.Reply.Kind != "answer" || a.Joined != api.Guest || a.Sent.Delivery == "" || a.Sent.State != api.Consumed {
		t.Errorf("the answer is %+v", a)
	}
	if a = <-ask("and now? [q-3]"); a.error != nil || a.Text != "ACK: and now? [q-3]" || a.Joined != "" {
		t.Errorf("the answer is %+v", a)
	}
	a = <-ask("[q-4]\nFAIL")
	w.fails(a.error, api.CodeNoAnswer)
}
