package interop

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
)

// newOpenCode is [newHeadless] for OpenCode.
func newOpenCode(t *testing.T) *headless {
	t.Helper()
	home := standin.NewHome(t, nil)
	return &headless{
		t: t, home: home, state: filepath.Join(home.Dir, "state"), team: "mine", command: []string{home.OpenCode(t)}, changed: make(chan struct{}),
	}
}

// A person answers an OpenCode of the service as a Claude Code: a tool that is permitted
// runs, one that is denied does not, a rule for the session is not asked about again, and the
// model gets the answers to its questions. A turn can be interrupted, and "ask" has an answer.
func TestRealPermitOpenCode(t *testing.T) {
	t.Parallel()
	h := newOpenCode(t)
	h.leaderless()
	h.must(append([]string{"relay", "add", "lead@mine", "--runtime", "opencode", "--permissions", "ask", "--dir", h.home.Work, "--"}, h.command...)...)
	a := &asking{headless: h, served: h.serve(), ctx: deadline(t, 6*time.Minute), ledger: h.ledger()}
	bash := func(command string) string {
		return standin.CallLine("bash", map[string]string{"command": command, "description": "d"})
	}

	if asked, _ := a.turn("", bash("touch one"), a.permit); len(asked) != 1 || asked[0].Tool != "Bash" || !strings.Contains(string(asked[0].Input), "touch one") || !a.made("one") {
		t.Errorf("permitted: asked %+v", asked)
	}
	// OpenCode 1.18.33 does not tell its model the reason.
	if asked, told := a.turn("", bash("touch two"), a.deny); len(asked) != 1 || !strings.Contains(told, "Unable to execute command") || a.made("two") {
		t.Errorf("denied: asked %+v; the model was told %s", asked, told)
	}
	if asked, _ := a.turn("", bash("touch three"), a.permitRule); len(asked) != 1 || len(asked[0].Session) != 1 || !a.made("three") {
		t.Errorf("permitted for the session: asked %+v", asked)
	}
	if asked, _ := a.turn("", bash("touch three"), a.permit); len(asked) != 0 || !a.made("three") {
		t.Errorf("after the rule: asked %+v", asked)
	}
	path := filepath.Join(h.home.Work, "written")
	if asked, _ := a.turn("", standin.CallLine("write", map[string]string{"path": path, "content": "a line"}), a.permit); len(asked) != 1 || asked[0].Display != "Write" || !strings.Contains(string(asked[0].Input), "a line") || !a.made("written") {
		t.Errorf("written: asked %+v", asked)
	}
	question := standin.CallLine("question", map[string]any{"questions": []any{map[string]any{
		"question": "Which colour?", "header": "Colour", "options": []any{map[string]string{"label": "Red", "description": "r"}, map[string]string{"label": "Blue", "description": "b"}},
	}}})
	if asked, told := a.turn("", question, func(q api.Question) { h.must("permit", q.ID, "--answer", "Blue") }); len(asked) != 1 || asked[0].Kind != api.AsksPerson || !strings.Contains(told, "Blue") {
		t.Errorf("a question: asked %+v; the model was told %s", asked, told)
	}
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
		all := a.deliveries(a.ledger)
		return all[len(all)-1]
	}
	for last().State != ledger.Accepted {
		if time.Sleep(10 * time.Millisecond); a.ctx.Err() != nil {
			t.Fatalf("the long turn does not begin: %+v\n%s", last(), h)
		}
	}
	a.post(a.ctx, "/v1/relays/"+relays[0].ID+"/interrupt", "", "", http.StatusOK, new(api.RelayEntry))
	for !last().State.Ended() {
		if time.Sleep(10 * time.Millisecond); a.ctx.Err() != nil {
			t.Fatalf("the long turn does not end: %+v\n%s", last(), h)
		}
	}
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
	ctx := deadline(t, 3*time.Minute)
	for n, text := range []string{"hello [one]", "hello [two]"} {
		h.start("--runtime", "opencode", "--url", address)
		h.typing(text)
		h.wait(ctx, "answers", func(s saying) bool { return s.Result != nil && s.Text == "ACK: "+text })
		if status := h.finish(ctx); status != 0 {
			t.Fatalf("run %d ended with %d\n%s", n, status, h)
		}
	}
}
