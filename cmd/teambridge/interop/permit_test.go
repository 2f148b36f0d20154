package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// asking is a person with a real agent of the service that asks, the lead of the team "mine".
type asking struct {
	*headless
	*served
	turns int
}

func newAsking(t *testing.T, v teams.Version, respond standin.Responder) *asking {
	t.Helper()
	h := newHeadless(t, v, respond)
	h.leaderless()
	h.must(append([]string{"relay", "add", "lead@mine", "--permissions", "ask", "--dir", h.home.Work, "--"}, standin.Require(t, v)...)...)
	return &asking{headless: h, served: h.serve()}
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

// turn gives the agent a text in a permission mode, or in the mode of the last text, and answers its questions until
// the turn has ended. It returns the questions, and the results of tools that its model was given.
func (a *asking) turn(mode, text string, answer func(q api.Question)) (asked []api.Question, told string) {
	a.headless.t.Helper()
	m := map[string]any{"text": text}
	if mode != "" {
		m["mode"] = map[string]string{"permissionMode": mode}
	}
	body, err := json.Marshal(m)
	must(a.headless.t, err)
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
		all := a.deliveries()
		if len(all) == a.turns && !slices.ContainsFunc(all, func(d ledger.Delivery) bool { return !d.State.Ended() }) {
			break
		}
	}
	for _, r := range a.home.API.Log()[before:] {
		told = strings.Join(append([]string{told}, r.Results...), "\n")
	}
	return asked, told
}

// made reports whether a file exists, and removes it.
func (a *asking) made(name string) bool { return os.Remove(filepath.Join(a.home.Work, name)) == nil }

func (a *asking) permit(q api.Question)     { a.must("permit", q.ID) }
func (a *asking) permitRule(q api.Question) { a.must("permit", q.ID, "--session") }

const reason = "more <detail>"

func (a *asking) deny(q api.Question) { a.must("deny", q.ID, "--reason", reason) }

// exchange is a turn in which the agent asks its person.
type exchange struct {
	what, mode, text string
	answer           func(api.Question)
	asks             string // what it asks about: tools, and the kinds of other questions
	told             string // a text in the results that its model is given
	makes, not       string // a file that is made, and one that is not
}

// turnsAre runs the turns, one after the other.
func (a *asking) turnsAre(all ...exchange) {
	a.headless.t.Helper()
	for _, x := range all {
		asked, told := a.turn(x.mode, x.text, x.answer)
		var asks []string
		for _, q := range asked {
			if q.Kind != api.AsksPermission {
				q.Tool = q.Kind
			}
			asks = append(asks, q.Tool)
		}
		if strings.Join(asks, " ") != x.asks || !strings.Contains(told, x.told) || x.makes != "" && !a.made(x.makes) || x.not != "" && a.made(x.not) {
			a.headless.t.Errorf("%s: asked %+v; the model was told %s; want it to ask %q, to be told %q, to make %q and not %q", x.what, asked, told, x.asks, x.told, x.makes, x.not)
		}
	}
}

// then returns a function that checks a question, and answers it.
func (a *asking) then(answer func(api.Question), what string, is func(api.Question) bool) func(api.Question) {
	return func(q api.Question) {
		if !is(q) {
			a.headless.t.Errorf("%s: asked %+v", what, q)
		}
		answer(q)
	}
}

func bashLine(command string) string {
	return standin.CallLine("Bash", map[string]string{"command": command, "description": "d"})
}

// A real agent of the service waits for a person before it uses a tool. A permitted tool runs, a rule for the session
// prevents further questions, and the model gets the reason of a denial. No settings are written.
func TestRealPermit(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		a := newAsking(t, v, nil)
		rule := ""
		a.turnsAre(
			exchange{"permitted", "", bashLine("touch one"), a.then(a.permit, "before it is allowed", func(q api.Question) bool {
				return strings.Contains(string(q.Input), "touch one") && !a.made("one")
			}), "Bash", "", "one", ""},
			exchange{"denied", "", bashLine("touch two"), a.deny, "Bash", reason, "", "two"},
			exchange{"permitted for the session", "", bashLine("touch three"), func(q api.Question) {
				if rule = strings.Join(q.Session, ""); rule == "" { // older versions suggest none for this command
					a.permit(q)
					return
				}
				a.permitRule(q)
			}, "Bash", "", "three", ""},
		)
		again := map[bool]string{true: "Bash", false: ""}[rule == ""]
		a.turnsAre(exchange{"after the rule " + rule, "", bashLine("touch three"), a.permit, again, "", "three", ""})
		if data, err := os.ReadFile(filepath.Join(a.home.Work, ".claude", "settings.local.json")); err == nil {
			t.Errorf("settings were written: %s", data)
		}
	})
}

// A real member of a team in plan mode asks its person before it leaves plan mode. If the plan is denied, it stays,
// and learns why; if approved, it continues, and the next message is in plan mode again. A rule for the session does
// not apply in plan mode.
func TestRealPlanIsAskedAbout(t *testing.T) {
	planFile := regexp.MustCompile(`/[^\s()"'` + "`" + `]+/plans/[\w.-]+\.md`)
	onSome(t, func(t *testing.T, v teams.Version) {
		const plan, ruled = "# Plan of the file\n\n1. touch planned\n", "touch ruled && touch ruled.too"
		path := "" // named by Claude Code
		a := newAsking(t, v, (&caller{calls: func(r standin.Request) []standin.Call {
			if named := planFile.FindString(strings.Join(r.Uncut, "\n") + r.System); named != "" {
				path = named
			}
			if !r.Has("<plan>") {
				return nil
			}
			return []standin.Call{
				call("Write", map[string]string{"file_path": path, "content": plan}),
				call("ExitPlanMode", map[string]string{"plan": plan}),
				call("Bash", map[string]string{"command": "touch planned", "description": "d"}),
			}
		}}).respond)
		inPlanMode := func(answer func(api.Question)) func(api.Question) {
			return a.then(answer, "in plan mode", func(q api.Question) bool { return len(q.Session) == 0 && (q.Kind != api.AsksPlan || q.Plan == plan) })
		}
		a.turnsAre(
			exchange{"a rule", "", bashLine(ruled), a.permitRule, "Bash", "", "ruled", ""},
			exchange{"the rule is in force", "", bashLine(ruled), a.deny, "", "", "ruled", ""},
			exchange{"in plan mode", "plan", bashLine(ruled), inPlanMode(a.deny), "Bash", reason, "", "ruled"},
			exchange{"a plan that is denied", "", "<plan>", inPlanMode(a.deny), "plan Bash", reason, "", "planned"},
			exchange{"a plan that is approved", "", "<plan>", a.then(a.permit, "approved", func(q api.Question) bool { return q.Kind != api.AsksPlan || q.Plan == plan }), "plan Bash", "", "planned", ""},
			exchange{"after the plan, in plan mode again", "", bashLine("touch after"), inPlanMode(a.deny), "Bash", "", "", "after"},
		)
	})
}

// The person's answers to questions of a real agent reach its model: one choice, several, and a text that is no
// choice.
func TestRealAnswers(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
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

// A question of a background subagent, asked after the turn of its agent has ended, reaches the person, and the
// answer reaches the subagent.
func TestRealSubagentAsksAfterTheTurn(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		a := newAsking(t, v, nil)
		call := standin.CallLine("Agent", map[string]any{
			"description": "d", "subagent_type": "general-purpose", "run_in_background": true, "prompt": "SLEEP:3\n" + bashLine("touch late"),
		})
		asked, told := a.turn("", call, a.deny)
		// In older versions it is refused at once, as without a person.
		refused := func() bool {
			return slices.ContainsFunc(a.home.API.Log(), func(r standin.Request) bool {
				return strings.Contains(strings.Join(r.Results, "\n"), "denied")
			})
		}
		until(t, a.ctx, func() bool {
			if len(asked) == 0 {
				asked = a.open()
			}
			return len(asked) > 0 || refused()
		}, func() string { return fmt.Sprintf("nothing is asked; the model was told %s\n%s", told, a.headless) })
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
		until(t, a.ctx, func() bool { return a.made("late") }, func() string { return "what was permitted did not run\n" + a.headless.String() })
	})
}
