package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/tmux"
	"teambridge/status/api"
	"teambridge/teams"
)

func TestMain(m *testing.M) {
	if os.Getenv(simchild.Variable) != "" && slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.329 (simulated)")
		return
	}
	simchild.MainTerminal()
	simchild.Main()
	if dir := os.Getenv(envServe); dir != "" {
		serveForEver(dir)
		return
	}
	tmux.Relax(time.Minute)
	os.Exit(m.Run())
}

// headless is a Claude directory with a team whose agents have no terminals.
type headless struct {
	*world
	script simchild.Script
	work   string
}

// band is the team of it.
const band = "band"

func newHeadless(t testing.TB, script simchild.Script) *headless {
	t.Helper()
	h := &headless{world: newWorld(t), script: script}
	dir, err := filepath.EvalSymlinks(h.Root.Path())
	if err != nil {
		t.Fatal(err)
	}
	h.script.State = dir
	h.work = filepath.Join(dir, "work")
	if err := os.Mkdir(h.work, 0o700); err != nil {
		t.Fatal(err)
	}
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
		s.core.Timing = relay.Timing{Backoff: time.Millisecond, Startup: time.Millisecond, Retry: 20 * time.Millisecond, Look: 20 * time.Millisecond}
	}}, change...)...)
}

// add has an agent run as a member, with something else about it.
func (h *headless) add(t testing.TB, r *running, member, more string) api.RelayEntry {
	t.Helper()
	body := fmt.Sprintf(`{"team": %q, "member": %q, "command": [%q], "dir": %q%s}`, band, member, os.Args[0], h.work, more)
	return of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", body), http.StatusCreated)
}

// until asks for a relay until it stands so.
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

// delivery returns the state of a delivery; "" where there is none.
func (h *headless) delivery(t *testing.T, r *running, relay, delivery string) string {
	t.Helper()
	for _, d := range get[[]api.Delivery](t, r, "/v1/relays/"+relay+"/deliveries") {
		if d.Delivery == delivery {
			return d.State
		}
	}
	return ""
}

// accepted waits until the agent works on what was said to it.
func (h *headless) accepted(t *testing.T, r *running, relay string, sent api.Sent) {
	t.Helper()
	end := time.After(patience)
	for {
		state := h.delivery(t, r, relay, sent.Delivery)
		if state == "accepted" {
			return
		}
		select {
		case <-end:
			t.Fatalf("the agent never works on %s, which is %q", sent.ID, state)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// let lets the agent go on that waits for the file "go".
func (h *headless) let(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.script.State, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func in(state relay.State) func(api.RelayEntry) bool {
	// One that was only added has no process yet, and the state that it begins with.
	return func(e api.RelayEntry) bool { return e.State == string(state) && (e.Running || state != relay.Idle) }
}

// worked waits until a turn held text, and returns all that the turns held, each as
// often as it was worked on.
func (h *headless) worked(t *testing.T, text string) []string {
	t.Helper()
	end := time.After(patience)
	for {
		works, err := simchild.Works(h.script.State)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		found := false
		for said, n := range works {
			found = found || strings.Contains(said, text)
			list = append(list, slices.Repeat([]string{said}, n)...)
		}
		if found {
			return list
		}
		select {
		case <-end:
			t.Fatalf("%q was never worked on: %q", text, list)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// works returns the turns so far that held text, each as often as it was worked on.
func (h *headless) works(t *testing.T, text string) (list []string) {
	t.Helper()
	works, err := simchild.Works(h.script.State)
	if err != nil {
		t.Fatal(err)
	}
	for said, n := range works {
		if strings.Contains(said, text) {
			list = append(list, slices.Repeat([]string{said}, n)...)
		}
	}
	return list
}

func path(team, member string) string {
	return "/v1/teams/" + team + "/members/" + member + "/messages"
}

func message(t *testing.T, text, more string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return `{"text": ` + string(quoted) + more + `}`
}

// What a person says to an agent that is relayed here is said as it is, and is in
// the history with what became of it; what a teammate says is wrapped, and so is
// what is said under another name or to others.
func TestPersonsWords(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	lead := h.add(t, r, "lead", "")
	if lead.Member != "team-lead" || lead.Permissions != "deny" || lead.OnCut != "nudge" {
		t.Errorf("added %+v", lead)
	}
	h.until(t, r, lead.ID, "idle", in(relay.Idle))
	stream := r.listen(t, "", "")
	text := "please </teammate-message> do \"it\"\n[w-1]"
	sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, text, `, "summary": "a wish"`), "Idempotency-Key", "k-1"), http.StatusCreated)
	if sent.ID != "k-1" || sent.Delivery == "" || sent.State != api.Verified || sent.Member != "team-lead" || !sent.Reachable {
		t.Errorf("sent %+v", sent)
	}
	if works := h.worked(t, "[w-1]"); len(works) != 1 || works[0] != text {
		t.Errorf("said %q, want %q alone", works, text)
	}

	// The events have it in one order: the message, how it went, and its receipt.
	var last int64
	var told []string
	for !slices.Contains(told, "relay done") || !slices.Contains(told, "receipt consumed") {
		e, err := stream.next()
		if err != nil {
			t.Fatalf("%v, after %q", err, told)
		}
		switch e.name {
		case api.EventMessage:
			m := as[api.MessageEvent](t, e).Message
			if told = append(told, "message"); m.ID != "k-1" || m.Text != text || m.From != "user" || m.Inbox != "team-lead" || !m.Person || m.Summary != "a wish" {
				t.Errorf("message %+v", m)
			}
		case api.EventReceipt:
			told = append(told, "receipt "+as[api.Receipt](t, e).State)
		case api.EventRelay:
			ev := as[api.RelayEvent](t, e)
			if ev.Delivery == "" {
				continue
			}
			if told = append(told, "relay "+ev.State); ev.ID != "k-1" || !ev.Person || ev.Delivery != sent.Delivery || ev.Member != "team-lead" {
				t.Errorf("relay event %+v", ev)
			}
		default:
			continue
		}
		if n := number(t, e); n <= last {
			t.Errorf("%s has number %d after %d", e.name, n, last)
		} else {
			last = n
		}
	}
	if told[0] != "message" {
		t.Errorf("told %q, want the message first", told)
	}
	page := get[api.Page](t, r, "/v1/teams/"+band+"/messages?with=team-lead")
	if len(page.Messages) != 2 {
		t.Fatalf("history %+v", page)
	}
	if m := page.Messages[1]; m.From != "team-lead" || m.Kind != "answer" || m.Answer == nil || !slices.Equal(m.Answer.InReplyTo, []string{"k-1"}) {
		t.Errorf("the answer %+v", m)
	}
	if m := page.Messages[0]; !m.Person || m.Receipt == nil || m.Receipt.State != "consumed" || m.Relay == nil || m.Relay.State != "done" || m.Relay.Delivery != sent.Delivery {
		t.Errorf("history has %+v", m)
	}
	if hits := get[api.Found](t, r, "/v1/search?q=wish").Hits; len(hits) != 1 || !hits[0].Person || hits[0].Relay == nil {
		t.Errorf("found %+v", hits)
	}
	if rows, err := h.Inbox(band, "team-lead").Read(t.Context()); err == nil && len(rows) > 0 {
		t.Errorf("the inbox has %+v", rows)
	}

	// Sending again is sending once; another message under the id is none.
	again := of[api.Sent](t, r.ask(t, "POST", path(band, "team-lead"), message(t, text, `, "summary": "a wish"`), "Idempotency-Key", "k-1"), http.StatusOK)
	if !again.Deduplicated || again.Delivery != sent.Delivery {
		t.Errorf("sent again %+v", again)
	}
	problem(t, r.ask(t, "POST", path(band, "lead"), message(t, "other", ""), "Idempotency-Key", "k-1"), api.CodeIDTaken)
	problem(t, r.ask(t, "POST", path(band, "lead"), message(t, text, `, "summary": "a wish", "isolated": true`), "Idempotency-Key", "k-1"), api.CodeIDTaken)
	problem(t, r.ask(t, "POST", path(band, "lead"), message(t, " ", "")), api.CodeInvalid)

	// A teammate's words, and those under another name, are wrapped.
	h.Send(band, "drums", "team-lead", "[w-2]")
	h.worked(t, "[w-2]")
	sent = of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[w-3]", `, "from": "drums"`)), http.StatusCreated)
	if sent.Delivery != "" {
		t.Errorf("as somebody else: %+v", sent)
	}
	for _, w := range h.worked(t, "[w-3]") {
		if w != text && !strings.HasPrefix(w, `<teammate-message teammate_id="drums"`) {
			t.Errorf("said %q", w)
		}
	}
	// Its own name, said, is the person's.
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[w-4]", `, "from": "user"`)), http.StatusCreated)
	if works := h.worked(t, "[w-4]"); !slices.Contains(works, "[w-4]") {
		t.Errorf("said %q", works)
	}

	// Who is not relayed here gets a row, which has no mode.
	if sent := of[api.Sent](t, r.ask(t, "POST", path(band, "drums"), message(t, "[w-5]", "")), http.StatusCreated); sent.Delivery != "" {
		t.Errorf("to a member without a relay: %+v", sent)
	}
	for _, tc := range []struct{ member, more, why string }{
		{"drums", `, "mode": {"model": "opus"}`, "no relay of this service serves drums"},
		{"drums", `, "isolated": true`, "no relay of this service serves drums"},
		{"lead", `, "from": "drums", "mode": {"model": "opus"}`, `"drums" is not one of your names`},
		{"lead", `, "mode": {"modle": "opus"}`, "modle"},
	} {
		if p := problem(t, r.ask(t, "POST", path(band, tc.member), message(t, "x", tc.more)), api.CodeInvalid); !strings.Contains(p.Detail, tc.why) {
			t.Errorf("%s%s: %s", tc.member, tc.more, p.Detail)
		}
	}

	// A broadcast is a person's, too.
	answers := of[[]api.Sent](t, r.ask(t, "POST", "/v1/teams/"+band+"/broadcast", `{"text": "[w-6]", "includeLead": true}`), http.StatusCreated)
	said := 0
	for _, a := range answers {
		if a.Delivery != "" {
			said++
		}
	}
	if works := h.worked(t, "[w-6]"); len(answers) != 3 || said != 1 || !slices.Contains(works, "[w-6]") {
		t.Errorf("broadcast %+v", answers)
	}

	// A mode changes the agent for the message it comes with.
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[w-7]", `, "mode": {"model": "opus"}, "isolated": true`)), http.StatusCreated)
	h.worked(t, "[w-7]")
	h.until(t, r, lead.ID, "idle", in(relay.Idle))
	list := get[[]api.Delivery](t, r, "/v1/relays/"+lead.ID+"/deliveries?state=done&limit=1")
	if len(list) != 1 || !list[0].Person || list[0].From != "user" || list[0].State != "done" {
		t.Errorf("deliveries %+v", list)
	}
}

// The session goes on after the service has ended, what was sent to it meanwhile is
// said, and an id that was used before is used.
func TestRelaysGoOn(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	lead := h.add(t, r, "lead", "")
	was := h.until(t, r, lead.ID, "idle", in(relay.Idle))
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "SLEEP:0.3 [g-1]", ""), "Idempotency-Key", "k-1"), http.StatusCreated)
	// Working is said once the frame is committed; what has not reached the agent when
	// the service ends is for the next one.
	h.worked(t, "[g-1]")
	r.end(t) // its agent may finish
	if works := h.worked(t, "[g-1]"); len(works) != 1 {
		t.Errorf("worked on %q", works)
	}
	h.Send(band, "drums", "team-lead", "[g-2]")
	r = h.start(t)
	h.worked(t, "[g-2]")
	now := h.until(t, r, lead.ID, "idle", in(relay.Idle))
	if now.Session != was.Session || now.AgentPID == was.AgentPID || now.Session == "" {
		t.Errorf("%+v after %+v", now, was)
	}
	if again := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "SLEEP:0.3 [g-1]", ""), "Idempotency-Key", "k-1"), http.StatusOK); !again.Deduplicated {
		t.Errorf("sent again %+v", again)
	}
	// Without its relay it is a row, and was sent all the same.
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+lead.ID, ""), http.StatusOK)
	for {
		again := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "SLEEP:0.3 [g-1]", ""), "Idempotency-Key", "k-1"), http.StatusOK)
		if !again.Deduplicated {
			t.Fatalf("sent again %+v", again)
		}
		if again.Delivery == "" && again.Reach == string(teams.NoRelay) {
			break
		}
		<-time.After(time.Millisecond)
	}
	// What was sent as a row then, is not said when there is a relay again.
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[g-3]", ""), "Idempotency-Key", "k-3"), http.StatusCreated)
	h.add(t, r, "lead", "")
	if again := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[g-3]", ""), "Idempotency-Key", "k-3"), http.StatusOK); !again.Deduplicated || again.Delivery != "" {
		t.Errorf("sent again %+v", again)
	}
	h.worked(t, "[g-3]")
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[g-4]", "")), http.StatusCreated)
	works := strings.Join(h.worked(t, "[g-4]"), "\n")
	for _, text := range []string{"[g-1]", "[g-2]", "[g-3]", "[g-4]"} {
		if n := strings.Count(works, text); n != 1 {
			t.Errorf("%s was worked on %d times: %q", text, n, works)
		}
	}
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	lead := h.add(t, r, "lead", "")
	on := "/v1/relays/" + lead.ID
	h.until(t, r, lead.ID, "idle", in(relay.Idle))
	problem(t, r.ask(t, "POST", on+"/interrupt", ""), api.CodeNotInFlight)
	problem(t, r.ask(t, "POST", "/v1/relays/nobody/interrupt", ""), api.CodeNotFound)
	problem(t, r.ask(t, "POST", on+"/retry", ""), api.CodeConflict)
	sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "TOOL:60", "")), http.StatusCreated)
	waits := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[waits]", "")), http.StatusCreated)
	state := func(delivery string) string { return h.delivery(t, r, lead.ID, delivery) }
	h.accepted(t, r, lead.ID, sent)
	// What is being said cannot be given up, nor tried again; what waits can.
	problem(t, r.ask(t, "POST", "/v1/deliveries/"+sent.Delivery+"/drop", ""), api.CodeConflict)
	problem(t, r.ask(t, "POST", "/v1/deliveries/"+sent.Delivery+"/retry", ""), api.CodeConflict)
	problem(t, r.ask(t, "POST", "/v1/deliveries/nothing/drop", ""), api.CodeNotFound)
	if d := of[api.Delivery](t, r.ask(t, "POST", "/v1/deliveries/"+waits.Delivery+"/drop", ""), http.StatusOK); d.State != "dropped" {
		t.Errorf("dropped %+v", d)
	}
	of[api.RelayEntry](t, r.ask(t, "POST", on+"/interrupt", ""), http.StatusOK)
	h.until(t, r, lead.ID, "idle", in(relay.Idle))
	if s := state(sent.Delivery); s != "cancelled" {
		t.Errorf("interrupted, it is %s", s)
	}
	problem(t, r.ask(t, "GET", on+"/deliveries?state=eaten", ""), api.CodeUsage)
	if got := get[[]api.Delivery](t, r, on+"/deliveries?state=dropped,cancelled"); len(got) != 2 {
		t.Errorf("ended otherwise: %+v", got)
	}
	receipt := func(id string) string {
		for {
			for _, m := range get[api.Page](t, r, "/v1/teams/"+band+"/messages").Messages {
				if m.ID == id && m.Receipt != nil && m.Receipt.State != "verified" {
					return m.Receipt.State
				}
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	if a, b := receipt(sent.ID), receipt(waits.ID); a != "consumed" || b != "lost" {
		t.Errorf("receipts %s and %s, want consumed and lost", a, b)
	}
}

// What is held is shown, and released by whoever asks for it; an idle agent is ended
// and started again.
func TestReleaseAndIdleExit(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	problem(t, r.ask(t, "POST", "/v1/relays", fmt.Sprintf(`{"team": %q, "member": "lead", "command": ["agent"], "dir": %q, "idleExit": "-1s"}`, band, h.work)), api.CodeInvalid)
	problem(t, r.ask(t, "POST", "/v1/relays", fmt.Sprintf(`{"team": %q, "member": "lead", "command": ["agent"], "dir": %q, "idleExit": "soon"}`, band, h.work)), api.CodeInvalid)
	lead := h.add(t, r, "lead", `, "idleExit": "1ms"`)
	if lead.IdleExit != "1ms" {
		t.Errorf("added %+v", lead)
	}
	asleep := h.until(t, r, lead.ID, "asleep", in(relay.Asleep))
	if !asleep.Running || asleep.AgentPID != 0 || asleep.Reason == "" {
		t.Errorf("asleep: %+v", asleep)
	}
	release := "/v1/relays/" + lead.ID + "/release"
	if list := of[[]api.Hold](t, r.ask(t, "POST", release, ""), http.StatusOK); len(list) > 0 {
		t.Errorf("released %+v, and nothing was held", list)
	}
	problem(t, r.ask(t, "POST", "/v1/relays/nobody/release", ""), api.CodeNotFound)

	held := ledger.Hold{
		InboxKey: ledger.InboxKey{Root: h.Root.Path(), Team: band, CreatedAt: 1, Inbox: "team-lead"},
		Sender:   "drums", Reason: "they answered each other", Since: time.UnixMilli(1795000000000).UTC(),
	}
	if err := r.ledger.Hold(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	h.world.Send(band, "drums", "team-lead", "[h-1]")
	want := api.Hold{Team: band, Member: lead.Member, Sender: "drums", Reason: held.Reason, Since: held.Since}
	h.until(t, r, lead.ID, "held", func(e api.RelayEntry) bool { return slices.Equal(e.Held, []api.Hold{want}) })
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[p-1]", "")), http.StatusCreated)
	if works := h.worked(t, "[p-1]"); len(works) != 1 || works[0] != "[p-1]" {
		t.Errorf("worked on %q", works)
	}
	if list := of[[]api.Hold](t, r.ask(t, "POST", release+"?sender=bass", ""), http.StatusOK); len(list) > 0 {
		t.Errorf("released %+v of another", list)
	}
	if list := of[[]api.Hold](t, r.ask(t, "POST", release+"?sender=drums", ""), http.StatusOK); !slices.Equal(list, []api.Hold{want}) {
		t.Errorf("released %+v, want %+v", list, want)
	}
	h.worked(t, "[h-1]")
	h.until(t, r, lead.ID, "asleep again", in(relay.Asleep))
}

// An agent that does not stay alive is given up, and tried again when that is said.
func TestRetryDeadRelay(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit, Times: relay.MaxStarts}}})
	r := h.start(t)
	lead := h.add(t, r, "lead", "")
	dead := h.until(t, r, lead.ID, "dead", in(relay.Dead))
	if dead.Reason == "" || dead.Running {
		t.Errorf("dead: %+v", dead)
	}
	sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[d-1]", "")), http.StatusCreated)
	if sent.Reachable || sent.Reach != string(teams.NoRelay) || sent.Delivery == "" {
		t.Errorf("said to a dead one: %+v", sent)
	}
	of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays/"+lead.ID+"/retry", ""), http.StatusOK)
	if works := h.worked(t, "[d-1]"); len(works) != 1 || works[0] != "[d-1]" {
		t.Errorf("worked on %q", works)
	}
}

func TestRelayRoutes(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	if list := get[[]api.RelayEntry](t, r, "/v1/relays"); len(list) != 0 {
		t.Errorf("at first there are %+v", list)
	}
	a := r.ask(t, "POST", "/v1/relays", fmt.Sprintf(
		`{"team": "later", "member": "lead", "command": ["agent", "--model", "a b"], "dir": %q, "permissions": "allow=Read", "mode": {"model": "x"}, "onCut": "report", "plain": true}`, h.work))
	later := of[api.RelayEntry](t, a, http.StatusCreated)
	if a.header.Get("Location") != "/v1/relays/"+later.ID || later.Running || !slices.Equal(later.Command, []string{"agent", "--model", "a b"}) ||
		later.Permissions != "allow=Read" || string(later.Mode) != `{"model":"x"}` || later.OnCut != "report" || !later.Plain || later.Dir != h.work {
		t.Errorf("added %+v, at %s", later, a.header.Get("Location"))
	}
	open := of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", fmt.Sprintf(
		`{"team": "later", "member": "oc", "runtime": "opencode", "url": "http://127.0.0.1:1/", "passwordFile": "/none", "dir": %q}`, h.work)), http.StatusCreated)
	if open.Runtime != "opencode" || open.Command == nil || len(open.Command) > 0 || open.URL != "http://127.0.0.1:1" || open.PasswordFile != "/none" {
		t.Errorf("added %+v", open)
	}
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+open.ID, ""), http.StatusOK)
	h.until(t, r, later.ID, "waiting for its team", func(e api.RelayEntry) bool { return strings.Contains(e.Reason, "no team later") })
	bad := func(code api.Code, body string) {
		t.Helper()
		problem(t, r.ask(t, "POST", "/v1/relays", body), code)
	}
	with := func(more string) string {
		return fmt.Sprintf(`{"team": %q, "member": "lead", "command": ["x"], "dir": %q%s}`, band, h.work, more)
	}
	bad(api.CodeConflict, fmt.Sprintf(`{"team": "later", "member": "lead", "command": ["x"], "dir": %q}`, h.work))
	bad(api.CodeInvalid, with(`, "onCut": "shrug"`))
	bad(api.CodeInvalid, with(`, "permissions": "maybe"`))
	bad(api.CodeInvalid, with(`, "mode": {"modle": "x"}`))
	bad(api.CodeBody, with(`, "root": "/"`))
	bad(api.CodeInvalid, `{"team": "later", "member": "x", "command": ["x"], "dir": "."}`)
	bad(api.CodeInvalid, `{"team": "later", "member": "x", "command": ["x"], "dir": "/no/such/place"}`)
	bad(api.CodeInvalid, fmt.Sprintf(`{"team": "later", "member": "../x", "command": ["x"], "dir": %q}`, h.work))
	bad(api.CodeInvalid, fmt.Sprintf(`{"team": "later", "member": "x", "command": [], "dir": %q}`, h.work))
	bad(api.CodeInvalid, with(`, "runtime": "other"`))
	bad(api.CodeInvalid, with(`, "url": "http://127.0.0.1:1"`))
	bad(api.CodeInvalid, with(`, "runtime": "opencode", "plain": true`))
	bad(api.CodeNotFound, fmt.Sprintf(`{"team": %q, "member": "nobody", "command": ["x"], "dir": %q}`, band, h.work))

	lead := h.add(t, r, "lead", "")
	h.until(t, r, lead.ID, "idle", in(relay.Idle))
	if list := get[[]api.RelayEntry](t, r, "/v1/relays?team="+band); len(list) != 1 || list[0].ID != lead.ID || !list[0].Running || list[0].AgentPID == 0 {
		t.Errorf("of one team: %+v", list)
	}
	status := get[[]api.Status](t, r, "/v1/teams/"+band+"/status")
	if i := slices.IndexFunc(status, func(s api.Status) bool { return s.Member == "team-lead" }); i < 0 || status[i].Relay == nil || status[i].Relay.State != "idle" {
		t.Errorf("status %+v", status)
	}
	members := get[[]api.Member](t, r, "/v1/teams/"+band+"/members")
	if i := slices.IndexFunc(members, func(m api.Member) bool { return m.Member == "team-lead" }); i < 0 || members[i].Relay != "idle" {
		t.Errorf("members %+v", members)
	}
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+later.ID, ""), http.StatusOK)
	problem(t, r.ask(t, "DELETE", "/v1/relays/"+later.ID, ""), api.CodeNotFound)
	problem(t, r.ask(t, "DELETE", "/v1/relays/"+lead.ID, `{}`), api.CodeBody)
	problem(t, r.ask(t, "GET", "/v1/relays/"+later.ID+"/deliveries", ""), api.CodeNotFound)
	problem(t, r.ask(t, "POST", "/v1/relays/"+lead.ID+"/permit", `{"question": "x", "allow": true}`), api.CodeNotFound)
	r.end(t)

	// A service that changes nothing runs nothing, and says what is there.
	r = h.start(t, func(s *Server) { s.opts.ReadOnly = true })
	for _, ask := range [][2]string{
		{"POST", "/v1/relays"}, {"DELETE", "/v1/relays/" + lead.ID}, {"POST", "/v1/relays/" + lead.ID + "/retry"}, {"POST", "/v1/deliveries/x/drop"},
	} {
		problem(t, r.ask(t, ask[0], ask[1], ""), api.CodeReadOnly)
	}
	if list := get[[]api.RelayEntry](t, r, "/v1/relays"); len(list) != 1 || list[0].Running || list[0].Reason != "the service is read-only" {
		t.Errorf("read-only: %+v", list)
	}
}

// A person is asked what an agent may use, and answers through the service.
func TestPermit(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	lead := h.add(t, r, "lead", `, "permissions": "ask"`)
	stream := r.listen(t, "?team="+band, "")
	shows := func(word, why string) {
		t.Helper()
		stream.until(api.EventSnapshot, func(e event) bool {
			return slices.ContainsFunc(as[api.Snapshot](t, e).Status, func(s api.Status) bool {
				return s.Member == "team-lead" && s.Word == word && s.Why == why
			})
		})
	}
	if sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "ASK:Bash", "")), http.StatusCreated); sent.Delivery == "" {
		t.Errorf("what was said at once is a row: %+v", sent)
	}
	asking := h.until(t, r, lead.ID, "asking", func(e api.RelayEntry) bool { return len(e.Questions) > 0 })
	q := asking.Questions[0]
	if q.Tool != "Bash" {
		t.Errorf("asked %+v", q)
	}
	shows(api.WordWaiting, "it asks to use Bash")
	url := "/v1/relays/" + lead.ID + "/permit"
	permit := fmt.Sprintf(`{"question": %q, "digest": %q, "allow": true}`, q.ID, q.Digest)
	problem(t, r.ask(t, "POST", url, fmt.Sprintf(`{"question": %q, "digest": "x", "allow": true}`, q.ID)), api.CodeConflict)
	problem(t, r.ask(t, "POST", url, fmt.Sprintf(`{"question": "x", "digest": %q, "allow": true}`, q.Digest)), api.CodeNotFound)
	problem(t, r.ask(t, "POST", url, fmt.Sprintf(`{"question": %q, "digest": %q, "allow": true, "session": "Bash"}`, q.ID, q.Digest)), api.CodeInvalid)
	if e := h.until(t, r, lead.ID, "asking", func(api.RelayEntry) bool { return true }); len(e.Questions) != 1 {
		t.Errorf("what was refused answered the question: %+v", e)
	}
	of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays/"+lead.ID+"/permit", permit), http.StatusOK)
	problem(t, r.ask(t, "POST", url, permit), api.CodeConflict)
	h.worked(t, "ASK:Bash")
	shows(api.WordIdle, "")
	problem(t, r.ask(t, "POST", url, permit), api.CodeConflict)
}

// A snapshot says how relays stand, and another one comes when that changes.
func TestSnapshotHasRelays(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	stream := r.listen(t, "?team="+band, "")
	stands := func(state string) func(event) bool {
		return func(e event) bool {
			for _, s := range as[api.Snapshot](t, e).Status {
				if s.Member == "team-lead" {
					return s.Relay == nil && state == "" || s.Relay != nil && s.Relay.State == state
				}
			}
			return false
		}
	}
	stream.until(api.EventSnapshot, stands(""))
	lead := h.add(t, r, "lead", "")
	stream.until(api.EventSnapshot, stands("idle"))
	if err := r.ledger.SetSession(t.Context(), session(t, r, "team-lead", "backing off")); err != nil {
		t.Fatal(err)
	}
	stream.until(api.EventSnapshot, stands("backing off"))
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+lead.ID, ""), http.StatusOK)
	stream.until(api.EventSnapshot, stands("stopped"))
}

// session is that of a member's relay, in another state.
func session(t *testing.T, r *running, member, state string) ledger.Session {
	t.Helper()
	all, err := r.ledger.Sessions(t.Context(), r.opts.Root.Path())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(s ledger.Session) bool { return s.Inbox == member })
	if i < 0 {
		t.Fatalf("no session of %s in %+v", member, all)
	}
	all[i].State = ledger.RelayState(state)
	return all[i]
}

// What was said to an agent and waits is not taken for a row that its agent took,
// by the next service, only because it is in no inbox.
func TestWordsThatWaitAreNotConsumed(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	// Such agents remove what they take.
	config := filepath.Join(h.Root.Path(), "teams", band, "config.json")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	gone := `{"leadProcess": {"pid": 2147483000, "claimedAt": 1, "procStart": "1"}, `
	if err := os.WriteFile(config, append([]byte(gone), data[1:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	r := h.start(t)
	lead := of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", fmt.Sprintf(`{"team": %q, "member": "lead", "command": ["false"], "dir": %q}`, band, h.work)), http.StatusCreated)
	h.until(t, r, lead.ID, "unable to start", func(e api.RelayEntry) bool { return strings.Contains(e.Reason, "version") })
	if sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[waits]", "")), http.StatusCreated); sent.Delivery == "" {
		t.Fatalf("sent %+v", sent)
	}
	receipt := func() string {
		for _, m := range get[api.Page](t, r, "/v1/teams/"+band+"/messages").Messages {
			if m.Text == "[waits]" && m.Receipt != nil {
				return m.Receipt.State
			}
		}
		return ""
	}
	for receipt() == "" {
		<-time.After(5 * time.Millisecond)
	}
	r.end(t)
	r = h.start(t) // which has looked at what was sent before it answers
	if s := receipt(); s != "verified" {
		t.Errorf("it is %s", s)
	}
}

// A person's words with a mode, that failed, can be tried again, and sent again under
// their id, after their relay was removed and added again; also while the agent of
// the one that was removed still finishes its turn.
func TestWordsOfARelayThatWasRemoved(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	first := h.add(t, r, "lead", "")
	h.until(t, r, first.ID, "idle", in(relay.Idle))
	body := message(t, "[w-1]\nFAIL", `, "mode": {"model": "opus"}`)
	sent := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), body, "Idempotency-Key", "k-1"), http.StatusCreated)
	failed := func() bool {
		list := get[[]api.Delivery](t, r, "/v1/relays/"+first.ID+"/deliveries?state=failed")
		return len(list) == 1 && list[0].Delivery == sent.Delivery
	}
	for end := time.After(patience); !failed(); {
		select {
		case <-end:
			t.Fatal("it has not failed")
		case <-time.After(5 * time.Millisecond):
		}
	}
	working := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "WAIT:go [w-2]", "")), http.StatusCreated)
	h.accepted(t, r, first.ID, working)
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+first.ID, ""), http.StatusOK)
	second := h.add(t, r, "lead", "")
	if n := len(h.works(t, "[w-2]")); n != 0 {
		t.Fatalf("the turn has ended by now")
	}
	again := of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), body, "Idempotency-Key", "k-1"), http.StatusOK)
	if !again.Deduplicated || again.Delivery != sent.Delivery {
		t.Errorf("sent again %+v", again)
	}
	of[api.Sent](t, r.ask(t, "POST", path(band, "lead"), message(t, "[w-3]", `, "mode": {"model": "haiku"}`)), http.StatusCreated)
	of[api.Delivery](t, r.ask(t, "POST", "/v1/deliveries/"+sent.Delivery+"/retry", ""), http.StatusOK)
	h.let(t)
	h.worked(t, "[w-3]")
	h.until(t, r, second.ID, "idle", in(relay.Idle))
	if n := len(h.works(t, "[w-1]")); n != 2 {
		t.Errorf("the words that were tried again were said %d times, want 2", n)
	}
	if n := len(h.works(t, "[w-2]")); n != 1 {
		t.Errorf("the turn of the relay that was removed was done %d times", n)
	}
	list := get[[]api.Delivery](t, r, "/v1/relays/"+second.ID+"/deliveries?state=failed")
	if len(list) != 1 || list[0].Delivery != sent.Delivery {
		t.Errorf("failed, as it says itself: %+v", list)
	}
}

// A relay that the service was not told to run has an id, always the same; what
// waits for it is told, and nothing can be done with it, and why is said.
func TestRelayOfRun(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	said, err := relay.Prompt(t.Context(), r.ledger, ledger.InboxKey{Root: h.Root.Path(), Team: band, CreatedAt: 1, Inbox: "drums"}, relay.Input{Text: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ledger.SetSession(t.Context(), ledger.Session{
		InboxKey: ledger.InboxKey{Root: h.Root.Path(), Team: band, CreatedAt: 1, Inbox: "drums"}, ID: "s-1", Command: "agent", State: ledger.RelayRunning, Relay: 4711,
	}); err != nil {
		t.Fatal(err)
	}
	list := get[[]api.RelayEntry](t, r, "/v1/relays")
	if len(list) != 1 || list[0].ID == "" || list[0].Created != nil || list[0].Member != "drums" {
		t.Fatalf("listed %+v", list)
	}
	id := list[0].ID
	if again := get[[]api.RelayEntry](t, r, "/v1/relays?team="+band); len(again) != 1 || again[0].ID != id {
		t.Errorf("listed again %+v", again)
	}
	if found := get[[]api.Delivery](t, r, "/v1/relays/"+id+"/deliveries"); len(found) != 1 || found[0].Delivery != said.Delivery {
		t.Errorf("deliveries %+v", found)
	}
	for _, ask := range [][2]string{{"DELETE", ""}, {"POST", "/interrupt"}, {"POST", "/retry"}} {
		p := problem(t, r.ask(t, ask[0], "/v1/relays/"+id+ask[1], ""), api.CodeConflict)
		if !strings.Contains(p.Detail, `"teambridge run"`) || p.Hint == "" {
			t.Errorf("%v: %+v", ask, p)
		}
	}
	// Added, it has that id no more.
	added := h.add(t, r, "drums", "")
	if list := get[[]api.RelayEntry](t, r, "/v1/relays"); len(list) != 1 || list[0].ID != added.ID || added.ID == id {
		t.Errorf("added: %+v", list)
	}
}

// A relay with a team of its own has it made, and removed with it if that is asked
// for, and nobody is in it.
func TestRelayWithATeamOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	add := func(team string) api.RelayEntry {
		t.Helper()
		return of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", fmt.Sprintf(
			`{"team": %q, "member": "lead", "command": [%q], "dir": %q, "createTeam": true}`, team, os.Args[0], h.work)), http.StatusCreated)
	}
	own := add("solo")
	if own.Member != "team-lead" || !own.CreateTeam {
		t.Errorf("added %+v", own)
	}
	h.until(t, r, own.ID, "idle", in(relay.Idle))
	of[api.Sent](t, r.ask(t, "POST", path("solo", "lead"), message(t, "[w-1]", "")), http.StatusCreated)
	h.worked(t, "[w-1]")
	h.until(t, r, own.ID, "idle", in(relay.Idle))
	config := filepath.Join(h.Root.Path(), "teams", "solo", "config.json")
	alone, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	inhabited := strings.Replace(string(alone), `"members": [`, `"members": [{"agentId":"w@solo","name":"w","backendType":"in-process"},`, 1)
	if err := os.WriteFile(config, []byte(inhabited), 0o600); err != nil {
		t.Fatal(err)
	}
	problem(t, r.ask(t, "DELETE", "/v1/relays/"+own.ID+"?deleteTeam=perhaps", ""), api.CodeUsage)
	if p := problem(t, r.ask(t, "DELETE", "/v1/relays/"+own.ID+"?deleteTeam=true", ""), api.CodeConflict); !strings.Contains(p.Detail, "members besides its lead: w") {
		t.Errorf("with a member: %+v", p)
	}
	if err := os.WriteFile(config, alone, 0o600); err != nil {
		t.Fatal(err)
	}
	last := of[api.Sent](t, r.ask(t, "POST", path("solo", "lead"), message(t, "WAIT:go [w-2]", "")), http.StatusCreated)
	h.accepted(t, r, own.ID, last)
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+own.ID+"?deleteTeam=true", ""), http.StatusOK)
	if _, err := os.Stat(config); err != nil {
		t.Errorf("the team is gone before its agent: %v", err)
	}
	h.let(t)
	for end := time.After(patience); ; {
		if _, err := os.Stat(filepath.Dir(config)); os.IsNotExist(err) {
			break
		}
		select {
		case <-end:
			t.Fatal("the team is still there")
		case <-time.After(5 * time.Millisecond):
		}
	}
	if n := len(h.works(t, "[w-2]")); n != 1 {
		t.Errorf("its last turn was done %d times", n)
	}
	// One that was not made for it stays.
	another := of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", fmt.Sprintf(
		`{"team": %q, "member": "lead", "command": [%q], "dir": %q, "createTeam": true}`, band, os.Args[0], h.work)), http.StatusCreated)
	h.until(t, r, another.ID, "idle", in(relay.Idle))
	problem(t, r.ask(t, "DELETE", "/v1/relays/"+another.ID+"?deleteTeam=true", ""), api.CodeConflict)
	of[api.RelayEntry](t, r.ask(t, "DELETE", "/v1/relays/"+another.ID, ""), http.StatusOK)
	if _, err := os.Stat(filepath.Join(h.Root.Path(), "teams", band, "config.json")); err != nil {
		t.Error(err)
	}
}

// Why a relay does not run stands with the status of its member, too.
func TestStatusTellsWhyARelayIsStopped(t *testing.T) {
	t.Parallel()
	h := newHeadless(t, simchild.Script{})
	r := h.start(t)
	body := fmt.Sprintf(`{"team": %q, "member": "drums", "command": [%q], "dir": %q}`, band, filepath.Join(h.work, "missing"), h.work)
	e := of[api.RelayEntry](t, r.ask(t, "POST", "/v1/relays", body), http.StatusCreated)
	e = h.until(t, r, e.ID, "stopped for a reason", func(e api.RelayEntry) bool { return e.Reason != "" })
	if e.State != string(relay.Stopped) && e.State != string(relay.BackOff) && e.State != string(relay.Dead) {
		t.Fatalf("it is %+v", e.Relay)
	}
	list := get[[]api.Status](t, r, "/v1/teams/"+band+"/status")
	i := slices.IndexFunc(list, func(s api.Status) bool { return s.Member == "drums" })
	if i < 0 || list[i].Relay == nil || list[i].Relay.Running || list[i].Relay.Reason == "" {
		t.Errorf("the statuses %+v do not tell why", list)
	}
}

// BenchmarkToldToStream measures how long after an agent has done its work a client of its
// stream has the text that it says about that: the child records and prints it, and the
// service reads and records it.
//
//	go test -run '^$' -bench ToldToStream -benchtime 300x ./status/server
func BenchmarkToldToStream(b *testing.B) {
	h := newHeadless(b, simchild.Script{})
	r := h.start(b)
	id := h.add(b, r, "team-lead", "").ID
	h.until(b, r, id, "idle", in(relay.Idle))
	e := r.stream(b, "/v1/relays/"+id+"/events?after=0", "")
	heard := map[string]time.Time{}
	n := 0
	for ; b.Loop(); n++ {
		mark := fmt.Sprintf("[m-%d]", n)
		r.ask(b, "POST", "/v1/teams/"+band+"/members/team-lead/messages", `{"text": "`+mark+`"}`)
		for heard[mark].IsZero() {
			var told api.Envelope
			if err := json.Unmarshal([]byte(e.until(api.EventEnvelope, nil).data), &told); err != nil {
				b.Fatal(err)
			}
			at := time.Now()
			if text := string(told.Envelope); strings.Contains(text, `"text":"ACK: `) && strings.Contains(text, mark) {
				heard[mark] = at
			}
		}
	}
	log, err := simchild.Log(h.script.State)
	if err != nil {
		b.Fatal(err)
	}
	var took []time.Duration
	for _, entry := range log {
		if at, ok := heard[entry.Text]; ok && entry.Kind == "work" {
			took = append(took, at.Sub(entry.At))
		}
	}
	if len(took) != n {
		b.Fatalf("%d of %d texts were heard", len(took), n)
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
}
