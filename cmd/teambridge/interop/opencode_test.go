package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
)

// newOpenCode is [newHeadless] for OpenCode.
func newOpenCode(t *testing.T) *headless {
	t.Helper()
	home := standin.NewHome(t, nil)
	return newHeadlessIn(t, home, home.OpenCode(t))
}

// A person answers an OpenCode of the service as a Claude Code: a tool that is permitted
// runs, one that is denied does not, a rule for the session is not asked about again, and the
// model gets the answers to its questions. A turn can be interrupted, and "ask" has an answer.
func TestRealPermitOpenCode(t *testing.T) {
	t.Parallel()
	h := newOpenCode(t)
	h.leaderless()
	h.must(append([]string{"relay", "add", "lead@mine", "--runtime", "opencode", "--permissions", "ask", "--dir", h.home.Work, "--"}, h.command...)...)
	a := &asking{headless: h, served: h.serve()}
	bash := func(command string) string {
		return standin.CallLine("bash", map[string]string{"command": command, "description": "d"})
	}

	question := standin.CallLine("question", map[string]any{"questions": []any{map[string]any{
		"question": "Which colour?", "header": "Colour", "options": []any{map[string]string{"label": "Red", "description": "r"}, map[string]string{"label": "Blue", "description": "b"}},
	}}})
	has := func(text string) func(api.Question) {
		return a.then(a.permit, text, func(q api.Question) bool { return strings.Contains(string(q.Input), text) })
	}
	a.turnsAre(
		exchange{"permitted", "", bash("touch one"), has("touch one"), "Bash", "", "one", ""},
		// OpenCode 1.18.33 does not tell its model the reason.
		exchange{"denied", "", bash("touch two"), a.deny, "Bash", "Unable to execute command", "", "two"},
		exchange{"permitted for the session", "", bash("touch three"), a.then(a.permitRule, "one rule", func(q api.Question) bool { return len(q.Session) == 1 }), "Bash", "", "three", ""},
		exchange{"after the rule", "", bash("touch three"), a.permit, "", "", "three", ""},
		exchange{"written", "", standin.CallLine("write", map[string]string{"path": filepath.Join(h.home.Work, "written"), "content": "a line"}), a.then(has("a line"), "Write", func(q api.Question) bool { return q.Display == "Write" }), "Edit", "", "written", ""},
		exchange{"a question", "", question, func(q api.Question) { h.must("permit", q.ID, "--answer", "Blue") }, api.AsksPerson, "Blue", "", ""},
	)
	if said := h.must("ask", "lead@mine", "how far is it? [far]"); !strings.Contains(said, "ACK: how far is it? [far]") {
		t.Errorf("ask printed %q", said)
	}

	var relays []api.RelayEntry
	a.ask(a.ctx, http.MethodGet, "/v1/relays", "", "", http.StatusOK, &relays)
	if len(relays) != 1 || relays[0].Runtime != "opencode" || relays[0].State != "idle" || relays[0].AgentPID == 0 {
		t.Fatalf("the relays are %+v", relays)
	}
	body, err := json.Marshal(map[string]string{"text": "SLEEP:600 [long]"})
	if err != nil {
		t.Fatal(err)
	}
	a.post(a.ctx, "/v1/teams/mine/members/lead/messages", string(body), "", http.StatusCreated, new(api.Sent))
	last := func() ledger.Delivery {
		all := a.deliveries()
		return all[len(all)-1]
	}
	becomes := func(what string, is func(ledger.DeliveryState) bool) {
		t.Helper()
		until(t, a.ctx, func() bool { return is(last().State) }, func() string { return fmt.Sprintf("the long turn does not %s: %+v\n%s", what, last(), h) })
	}
	becomes("begin", func(s ledger.DeliveryState) bool { return s == ledger.Accepted })
	a.post(a.ctx, "/v1/relays/"+relays[0].ID+"/interrupt", "", "", http.StatusOK, new(api.RelayEntry))
	becomes("end", ledger.DeliveryState.Ended)
	if got := last().State; got != ledger.Cancelled {
		t.Errorf("the interrupted turn is %s", got)
	}
}

// An OpenCode that runs already, and keeps running, can be an agent.
func TestRealRunOpenCodeAtAURL(t *testing.T) {
	t.Parallel()
	h := newOpenCode(t)
	address, _ := standin.StartOpenCode(t, h.home)
	h.command = nil
	for _, text := range []string{"hello [one]", "hello [two]"} {
		h.start("--runtime", "opencode", "--url", address)
		h.typing(text)
		h.wait("answers", func(s saying) bool { return s.Result != nil && s.Text == "ACK: "+text })
		h.finish()
	}
}
