package interop

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// asking is a person who is asked by a real agent of the service, the lead of the team "mine".
type asking struct {
	*headless
	*served
	ctx    context.Context
	ledger *ledger.Ledger
	turns  int
}

func newAsking(t *testing.T, v teams.Version, respond standin.Responder) *asking {
	t.Helper()
	h := newHeadless(t, v, respond)
	h.leaderless()
	h.must(append([]string{"relay", "add", "lead@mine", "--permissions", "ask", "--dir", h.home.Work, "--"}, standin.Require(t, v)...)...)
	return &asking{headless: h, served: h.serve(), ctx: deadline(t, 4*time.Minute), ledger: h.ledger()}
}

// open returns the open questions that the service lists for the person.
func (a *asking) open() (list []api.Question) {
	var all []api.Attention
	a.ask(a.ctx, "GET", "/v1/attention", "", "", http.StatusOK, &all)
	for _, w := range all {
		if w.Question != nil && w.Answerable {
			list = append(list, *w.Question)
		}
	}
	return list
}

// turn gives the agent a text in a permission mode, or in that of the last text, and answers
// what it asks until the turn has ended. It returns the questions and what its model was told
// about tools.
func (a *asking) turn(mode, text string, answer func(q api.Question)) (asked []api.Question, told string) {
	a.headless.t.Helper()
	m := map[string]any{"text": text}
	if mode != "" {
		m["mode"] = map[string]string{"permissionMode": mode}
	}
	body, err := json.Marshal(m)
	if err != nil {
		a.headless.t.Fatal(err)
	}
	before := len(a.home.API.Log())
	a.post(a.ctx, "/v1/teams/mine/members/lead/messages", string(body), "", http.StatusCreated, new(api.Sent))
	for a.turns++; ; time.Sleep(10 * time.Millisecond) {
		for _, q := range a.open() {
			if !slices.ContainsFunc(asked, func(o api.Question) bool { return o.ID == q.ID }) {
				asked = append(asked, q)
				answer(q)
			}
		}
		if a.ctx.Err() != nil {
			a.headless.t.Fatalf("%s does not end\n%s", text, a.headless)
		}
		all := a.deliveries(a.ledger)
		if len(all) == a.turns && !slices.ContainsFunc(all, func(d ledger.Delivery) bool { return !d.State.Ended() }) {
			break
		}
	}
	for _, r := range a.home.API.Log()[before:] {
		told = strings.Join(append([]string{told}, r.Results...), "\n")
	}
	return asked, told
}

// made reports whether a file was made, and removes it.
func (a *asking) made(name string) bool { return os.Remove(filepath.Join(a.home.Work, name)) == nil }

func (a *asking) permit(q api.Question)     { a.must("permit", q.ID) }
func (a *asking) permitRule(q api.Question) { a.must("permit", q.ID, "--session") }

const reason = "more <detail>"

func (a *asking) deny(q api.Question) { a.must("deny", q.ID, "--reason", reason) }

func bashLine(command string) string {
	return standin.CallLine("Bash", map[string]string{"command": command, "description": "d"})
}

var planFile = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`/[^\s()"'` + "`" + `]+/plans/[\w.-]+\.md`) })

// author is a model that writes its plan into the file that Claude Code names, asks to leave
// plan mode, and then uses a tool, at each message that holds <plan>.
type author struct {
	mu   sync.Mutex
	file string
	left []standin.Call
}

const plan = "# Plan of the file\n\n1. touch planned\n"

func (p *author) respond(ctx context.Context, r standin.Request) standin.Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if file := planFile().FindString(strings.Join(r.Uncut, "\n") + r.System); file != "" {
		p.file = file
	}
	call := func(name string, input map[string]string) {
		data, err := json.Marshal(input)
		if err != nil {
			panic(err)
		}
		p.left = append(p.left, standin.Call{Name: name, Input: data})
	}
	if !r.Side && r.Has("<plan>") && len(r.Results) == 0 {
		p.left = nil
		call("Write", map[string]string{"file_path": p.file, "content": plan})
		call("ExitPlanMode", map[string]string{"plan": plan})
		call("Bash", map[string]string{"command": "touch planned", "description": "d"})
	}
	if r.Side || len(p.left) == 0 {
		return standin.Script(ctx, r)
	}
	next := p.left[0]
	p.left = p.left[1:]
	return standin.Answer{Calls: []standin.Call{next}}
}

// A real member of a team in plan mode asks its person before it leaves that. With a denial
// it stays, and learns why; approved, it goes on, and the next message is in plan mode again.
// A rule that was allowed for the session is not in force there.
func TestRealPlanIsAskedAbout(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		a := newAsking(t, v, (&author{}).respond)
		const ruled = "touch ruled && touch ruled.too"
		asked, _ := a.turn("", bashLine(ruled), a.permitRule)
		if len(asked) != 1 || !a.made("ruled") {
			t.Fatalf("asked %+v", asked)
		}
		rules := asked[0].Session
		asked, told := a.turn("", bashLine(ruled), a.deny)
		if len(asked) > 0 || !a.made("ruled") {
			t.Errorf("the rule is not in force: given %q, asked %+v, told %s", rules, asked, told)
		}
		asked, told = a.turn("plan", bashLine(ruled), a.deny)
		if a.made("ruled") || len(asked) != 1 || len(asked[0].Session) > 0 || !strings.Contains(told, reason) {
			t.Errorf("in plan mode: asked %+v, told %s", asked, told)
		}

		asked, told = a.turn("", "<plan>", a.deny)
		if len(asked) != 2 || asked[0].Kind != api.AsksPlan || asked[0].Plan != plan || asked[1].Tool != "Bash" || !strings.Contains(told, reason) || a.made("planned") {
			t.Errorf("a plan that is denied: asked %+v, told %s", asked, told)
		}
		asked, told = a.turn("", "<plan>", a.permit)
		if len(asked) != 2 || asked[0].Kind != api.AsksPlan || asked[0].Plan != plan || asked[1].Tool != "Bash" || !a.made("planned") {
			t.Errorf("a plan that is approved: asked %+v, told %s", asked, told)
		}
		if asked, _ := a.turn("", bashLine("touch after"), a.deny); len(asked) != 1 || len(asked[0].Session) > 0 || a.made("after") {
			t.Errorf("after the plan, in plan mode again: asked %+v", asked)
		}
	})
}

// The answers to what a real agent asks its person reach its model: one choice, several, and
// a text that is none of them.
func TestRealAnswers(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		a := newAsking(t, v, nil)
		question := func(text string, multi bool, labels ...string) map[string]any {
			var options []any
			for _, l := range labels {
				options = append(options, map[string]string{"label": l, "description": l})
			}
			return map[string]any{"question": text, "header": "H", "multiSelect": multi, "options": options}
		}
		call := standin.CallLine("AskUserQuestion", map[string]any{"questions": []any{
			question("Which colour?", false, "Red", "Blue"), question("Which sizes?", true, "S", "M", "L"), question("Which way?", false, "Left", "Right"),
		}})
		asked, told := a.turn("", call, func(q api.Question) {
			a.must("permit", q.ID, "--answer", "Which colour?=Blue", "--answer", "Which sizes?=S, L", "--answer", "Which way?=straight on")
		})
		if len(asked) != 1 || asked[0].Kind != api.AsksPerson || !slices.Equal(asked[0].Asked(), []string{"Which colour?", "Which sizes?", "Which way?"}) {
			t.Errorf("asked %+v", asked)
		}
		for _, want := range []string{"Blue", "S, L", "straight on"} {
			if !strings.Contains(told, want) {
				t.Errorf("the model was not told %q, but %s", want, told)
			}
		}
	})
}

// A subagent in the background asks after the turn of its agent has ended. That reaches the
// person, and the answer the subagent.
func TestRealSubagentAsksAfterTheTurn(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		a := newAsking(t, v, nil)
		call := standin.CallLine("Agent", map[string]any{
			"description": "d", "subagent_type": "general-purpose", "run_in_background": true, "prompt": "SLEEP:3\n" + bashLine("touch late"),
		})
		asked, told := a.turn("", call, a.deny)
		// In older versions it is refused at once, as where nobody can be asked.
		refused := func() bool {
			return slices.ContainsFunc(a.home.API.Log(), func(r standin.Request) bool {
				return strings.Contains(strings.Join(r.Results, "\n"), "denied")
			})
		}
		for len(asked) == 0 && !refused() {
			if asked = a.open(); a.ctx.Err() != nil {
				t.Fatalf("nothing is asked; the model was told %s\n%s", told, a.headless)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if len(asked) == 0 {
			if t.Logf("%s: refused", v); a.made("late") {
				t.Error("what was refused ran")
			}
			return
		}
		if len(asked) != 1 || asked[0].Tool != "Bash" || asked[0].Subagent == "" {
			t.Fatalf("asked %+v", asked)
		}
		a.permit(asked[0])
		for !a.made("late") {
			if a.ctx.Err() != nil {
				t.Fatalf("what was permitted did not run\n%s", a.headless)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}
