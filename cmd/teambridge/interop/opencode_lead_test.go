package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
)

var (
	beginMark    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`BEGIN (\d+)`) })
	questionMark = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<Q-(\d+)>`) })
	answerMark   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<A-(\d+)>`) })
)

// talking is the model of two agents that talk to each other. The lead asks <Q-1> after "BEGIN 1", and the next
// question after each answer, up to ten; the other agent, which has no SendMessage, answers <A-1>. After "STOP" the
// lead asks it to shut down.
func talking(ctx context.Context, r standin.Request) standin.Answer {
	if r.Side || len(r.Texts) == 0 {
		return standin.Script(ctx, r)
	}
	text := r.Texts[len(r.Texts)-1]
	number := func(pattern *regexp.Regexp) int {
		m := pattern.FindStringSubmatch(text)
		if m == nil {
			return 0
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			panic(err) // digits
		}
		return n
	}
	call := func(message any) standin.Answer {
		input, err := json.Marshal(map[string]any{"to": "helper", "message": message, "summary": "a message"})
		if err != nil {
			panic(err) // strings
		}
		return standin.Answer{Calls: []standin.Call{{Name: "SendMessage", Input: input}}}
	}
	if openCodeAsks(r) {
		if n := number(questionMark()); n > 0 {
			return standin.Answer{Text: fmt.Sprintf("<A-%d>", n)}
		}
		return standin.Script(ctx, r)
	}
	if strings.Contains(text, "STOP") {
		return call(map[string]string{"type": "shutdown_request", "reason": "bye"})
	}
	if n := number(beginMark()); n > 0 {
		return call(fmt.Sprintf("<Q-%d>", n))
	}
	if n := number(answerMark()); n%10 > 0 {
		return call(fmt.Sprintf("<Q-%d>", n+1))
	}
	return standin.Script(ctx, r)
}

// openCodeAsks recognizes OpenCode by the names of its tools.
func openCodeAsks(r standin.Request) bool { return slices.Contains(r.Tools, "bash") }

// A real lead and a real OpenCode member talk to each other for 20 rounds, with a kill of the member's bridge in
// between. Each message is given to its model once. The member is like others: it is in the status, and when it is
// asked to shut down, it does and leaves.
func TestRealLeadAndOpenCodeMember(t *testing.T) {
	t.Parallel()
	standin.RequireOpenCode(t)
	h := newHeadless(t, standin.Newest(t), talking)
	ctx := deadline(t, 4*patience) // 20 rounds of two models, and OpenCode starts three times
	h.start()
	h.up()
	helper := newHeadlessIn(t, h.home, h.home.OpenCode(t))
	start := func() { helper.start("--team", "mine", "--runtime", "opencode", "--as", "helper") }
	start()
	helper.up()

	state := func() api.Status {
		t.Helper()
		all := decoded[[]api.Status](t, h.must("status", "--team", "mine", "--json"))
		i := slices.IndexFunc(all, func(s api.Status) bool { return s.Member == "helper" })
		if i < 0 {
			t.Fatalf("helper is not in %+v", all)
		}
		return all[i]
	}
	if s := state(); s.State != api.StateActive || s.Word != api.WordIdle {
		t.Errorf("before it works, helper is %s (%s)", s.State, s.Word)
	}
	for first := 1; first < 20; first += 10 {
		// A prompt of the person, without which the two would be held as a loop.
		h.typing(fmt.Sprintf("BEGIN %d", first))
		if first > 10 {
			// The bridge is killed while its agent works on an answer, or while the answer is sent.
			h.given("<Q-13>")
			helper.kill()
			start()
		}
		h.given(fmt.Sprintf("<A-%d>", first+9))
	}
	for i := range 20 {
		for _, mark := range []string{"<Q-%d>", "<A-%d>"} {
			mark = fmt.Sprintf(mark, i+1)
			once(t, h.home.API, mark)
		}
	}
	h.must("wait", "--for", "all-idle", "--team", "mine", "--timeout", "2m")
	if s := state(); s.State != api.StateActive || s.Word != api.WordIdle {
		t.Errorf("after its work, helper is %s (%s)", s.State, s.Word)
	}
	if out := h.must("broadcast", "--team", "mine", "<all>"); !strings.Contains(out, "helper") {
		t.Errorf("a broadcast goes to %s", out)
	}
	given(t, ctx, h.home.API, standin.Any, "<all>")

	h.typing("STOP")
	select {
	case <-helper.ended:
	case <-ctx.Done():
		t.Fatalf("helper did not end\n%s\n%s", helper, h)
	}
	if status := helper.cmd.ProcessState.ExitCode(); status != 0 || !strings.Contains(helper.String(), "asked it to shut down: bye") {
		t.Errorf("helper ended with %d\n%s", status, helper)
	}
	if s := state(); s.State != api.StateTerminated || s.Word != api.WordEnded {
		t.Errorf("after its end, helper is %s (%s)", s.State, s.Word)
	}
	if c := h.config(); len(c.Members) != 1 {
		t.Errorf("members are %+v", c.Members)
	}
	for _, r := range h.home.API.Log() {
		if openCodeAsks(r) && strings.Contains(r.Text(), "shutdown_request") {
			t.Errorf("the model was given the request to shut down: %q", r.Text())
		}
		if openCodeAsks(r) && !strings.Contains(r.System, `"helper", a member of the team "mine"`) {
			t.Errorf("the model does not know its team: %.300q", r.System)
		}
	}
	for _, d := range h.deliveries() {
		if row := string(d.Raw); d.State == ledger.Skipped && (strings.Contains(row, "idle_notification") || strings.Contains(row, "shutdown_approved")) {
			continue // it is only that, and not for the agent
		}
		if d.State != ledger.Done {
			t.Errorf("%s to %s is %s (%s)", d.Raw, d.Inbox, d.State, d.Reason)
		}
	}
	h.finish()
}

// An OpenCode agent becomes a member of the team of a real lead in a terminal. The lead writes to it, gets an answer,
// and asks it to shut down, as it does with its own teammates.
func TestRealLeadInATerminalAndOpenCodeMember(t *testing.T) {
	t.Parallel()
	standin.RequireOpenCode(t)
	v := standin.Newest(t)
	standin.Require(t, v)
	home := standin.NewHome(t, standin.StartAPI(t, nil))
	u := &user{t: t, team: standin.StartTeam(t, v, home), home: home.Dir}
	ctx := deadline(t, patience)
	helper := newHeadlessIn(t, home, home.OpenCode(t))
	helper.team = u.team.Name
	helper.start("--runtime", "opencode", "--as", "helper")
	helper.up()
	tells := func(message any) {
		t.Helper()
		call := standin.CallLine("SendMessage", map[string]any{"to": "helper", "message": message, "summary": "a message"})
		prompts(t, ctx, u.team.Lead, call)
	}
	for _, mark := range []string{"<m-1>", "<m-2>"} {
		tells(mark)
		r, err := home.API.Wait(ctx, func(r standin.Request) bool {
			return !r.Side && !openCodeAsks(r) && r.Has("ACK: "+mark)
		})
		if err != nil {
			t.Fatalf("%s is not answered: %v\n%s\n%s", mark, err, u.team.Lead.Screen(), helper)
		}
		if d := r.Deliveries(); len(d) != 1 || d[0].From != "helper" || d[0].Verified != "" && d[0].Verified != "false" {
			t.Errorf("the lead is given %+v", d)
		}
	}
	if out := helper.must("status", "--team", u.team.Name); !strings.Contains(out, "helper") {
		t.Errorf("the status has no helper:\n%s", out)
	}
	tells(map[string]string{"type": "shutdown_request", "reason": "bye"})
	select {
	case <-helper.ended:
	case <-ctx.Done():
		t.Fatalf("helper did not end\n%s\n%s", helper, u.team.Lead.Screen())
	}
	if status := helper.cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("helper ended with %d\n%s", status, helper)
	}
	data, err := standin.WaitFile(ctx, u.team.Dir()+"/config.json", func(data []byte) bool {
		return json.Valid(data) && !bytes.Contains(data, []byte(`"name": "helper"`))
	})
	if err != nil || !bytes.Contains(data, []byte(`"name": "worker"`)) {
		t.Errorf("the members are %s, %v", data, err)
	}
	if out := helper.must("status", "helper", "--team", u.team.Name); !strings.Contains(out, "ended (it has shut down)") {
		t.Errorf("when it is no member any more:\n%s", out)
	}
	// The lead and its own teammate continue.
	prompts(t, ctx, u.team.Lead, standin.CallLine("SendMessage", map[string]any{"to": "worker", "message": "<m-3>", "summary": "a message"}))
	u.delivery(ctx, "<m-3>")
	once(t, home.API, "ACK: <m-1>", "ACK: <m-2>")
}
