package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/simchild"
)

// asked is a question that a prompter asks.
type asked struct {
	*PermissionPrompter
	Question
	withdraw context.CancelFunc
	decision chan agent.Decision
}

func askOf(t *testing.T, use agent.Use) asked {
	t.Helper()
	questions := make(chan Question, 2)
	p := NewPermissionPrompter(func(q Question, open bool) {
		if open {
			questions <- q
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	a := asked{p, Question{}, cancel, make(chan agent.Decision, 1)}
	go func() { a.decision <- p.ask(ctx, use) }()
	a.Question = <-questions
	return a
}

// recorded returns a recorded question of Claude Code.
func recorded(t *testing.T, name, mode string) agent.Use {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "claude", "testdata", "permissions", filepath.FromSlash(name)+".json"))
	must(t, err)
	var line struct {
		Request json.RawMessage `json:"request"`
	}
	must(t, json.Unmarshal(data, &line))
	return claude.NewUse(line.Request, mode)
}

// A question has all that a person needs to decide.
func TestQuestion(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		want Question // without Input, At and the fields checked below
	}{
		{"2.1.330/can_use_tool.of-subagent", Question{
			Kind: agent.AsksPermission, Tool: "Bash", Display: "Bash", Description: "d", BlockedPath: "/home/dev/project/byworker",
			Subagent: "a106583da67d56ccc", Session: []string{"Bash(touch byworker *)"},
		}},
		{"2.1.330/can_use_tool.Write", Question{Kind: agent.AsksPermission, Tool: "Write", Display: "Write", Description: "w1"}},
		{"2.1.330/can_use_tool.ExitPlanMode", Question{Kind: agent.AsksPlan, Tool: "ExitPlanMode", Display: "ExitPlanMode", Plan: "# Plan\n1. touch a\n"}},
		{"2.1.280/can_use_tool.AskUserQuestion", Question{Kind: agent.AsksPerson, Tool: "AskUserQuestion"}},
	} {
		use := recorded(t, test.name, "")
		got := NewQuestion(use)
		if string(got.Input) != string(use.Input) || len(got.Suggestions) != len(use.Suggestions) {
			t.Errorf("%s: input %s, suggestions %s", test.name, got.Input, got.Suggestions)
		}
		other := use
		other.Input = append([]byte(" "), use.Input...)
		if id := NewQuestion(use); id.ID == got.ID || id.Digest != got.Digest || NewQuestion(other).Digest == got.Digest {
			t.Errorf("%s: ids %s and %s, digests %s and %s", test.name, id.ID, got.ID, id.Digest, got.Digest)
		}
		got.ID, got.Digest, got.Input, got.Suggestions, got.At = "", "", nil, nil, test.want.At
		if test.want.Display == "" {
			got.Display = ""
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
	}
}

// Only the first answer to the input of the question counts. A refused answer changes
// nothing.
func TestAnswerRefused(t *testing.T) {
	t.Parallel()
	bash, ask := recorded(t, "2.1.330/can_use_tool.Bash", ""), recorded(t, "2.1.330/can_use_tool.AskUserQuestion", "")
	plan := recorded(t, "2.1.330/can_use_tool.Bash", "plan")
	const rule = "Bash(touch f1 *)"
	colours := map[string]string{"Which colour?": "Blue", "Which sizes?": "S, L"}
	for _, test := range []struct {
		name   string
		use    agent.Use
		change func(*Answer)
		want   error
		says   string
	}{
		{"another id", bash, func(a *Answer) { a.Question = "x" }, ErrNoQuestion, "x"},
		{"no id", bash, func(a *Answer) { a.Question = "" }, ErrNoQuestion, ""},
		{"another input", bash, func(a *Answer) { a.Digest = NewQuestion(ask).Digest }, ErrOtherInput, "digest"},
		{"no digest", bash, func(a *Answer) { a.Digest = "" }, ErrOtherInput, "digest"},
		{"a rule that is not offered", bash, func(a *Answer) { a.Session = "Bash" }, ErrAnswer, rule},
		{"a rule in plan mode", plan, func(a *Answer) { a.Session = rule }, ErrAnswer, rule},
		{"a rule and no", bash, func(a *Answer) { a.Allow, a.Session = false, rule }, ErrAnswer, "denial"},
		{"a reason and yes", bash, func(a *Answer) { a.Reason = "why not" }, ErrAnswer, "reason"},
		{"answers to no question", bash, func(a *Answer) { a.Answers = colours }, ErrAnswer, "Bash"},
		{"answers and no", ask, func(a *Answer) { a.Allow, a.Answers = false, colours }, ErrAnswer, "denial"},
		{"no answers", ask, func(*Answer) {}, ErrAnswer, "Which colour?"},
		{"one answer of two", ask, func(a *Answer) { a.Answers = map[string]string{"Which colour?": "Blue"} }, ErrAnswer, "Which sizes?"},
		{"an answer to another question", ask, func(a *Answer) {
			a.Answers = map[string]string{"Which colour?": "Blue", "Which sizes?": "S", "Why?": "so"}
		}, ErrAnswer, "Why?"},
	} {
		q := askOf(t, test.use)
		a := Answer{Question: q.ID, Digest: q.Digest, Allow: true}
		test.change(&a)
		if err := q.Answer(a); !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %v with %q", test.name, err, test.want, test.says)
		}
		if open := q.Questions(); len(open) != 1 || len(q.decision) > 0 {
			t.Errorf("%s: %d questions are open", test.name, len(open))
		}
		must(t, q.Answer(Answer{Question: q.ID, Digest: q.Digest, Reason: "no"}))
		if d := <-q.decision; d.Allow || d.Reason != "no" {
			t.Errorf("%s: decided %+v", test.name, d)
		}
	}
}

// An agent and its subagent ask to approve their plans at once. Each question has its own plan, and an answer is to it alone.
func TestTwoPlansAtOnce(t *testing.T) {
	t.Parallel()
	open := make(chan Question, 2)
	p := NewPermissionPrompter(func(q Question, asked bool) {
		if asked {
			open <- q
		}
	})
	decisions := map[string]chan agent.Decision{"": make(chan agent.Decision, 1), "a1": make(chan agent.Decision, 1)}
	for subagent, decision := range decisions {
		body := `{"tool_name":"ExitPlanMode","input":{"plan":"that of ` + subagent + `"},"tool_use_id":"t` + subagent + `","agent_id":"` + subagent + `"}`
		go func() { decision <- p.ask(t.Context(), claude.NewUse([]byte(body), "plan")) }()
	}
	for range decisions {
		q := <-open
		if q.Kind != agent.AsksPlan || q.Plan != "that of "+q.Subagent {
			t.Errorf("%q asks about the plan %q", q.Subagent, q.Plan)
		}
	}
	list := p.Questions()
	later, first := list[1], list[0]
	must(t, p.Answer(Answer{Question: later.ID, Digest: later.Digest, Allow: true}))
	if d := <-decisions[later.Subagent]; !d.Allow {
		t.Errorf("the later plan: got %+v, want that it is allowed", d)
	}
	if left := p.Questions(); len(left) != 1 || left[0].ID != first.ID {
		t.Errorf("still open: %+v, want the first one", left)
	}
	must(t, p.Answer(Answer{Question: first.ID, Digest: first.Digest, Reason: "no"}))
	if d := <-decisions[first.Subagent]; d.Allow {
		t.Errorf("the first plan: got %+v, want that it is denied", d)
	}
}

// A second or late answer is refused, and the error has the outcome of the question.
func TestAnswerTwiceAndLate(t *testing.T) {
	t.Parallel()
	use := recorded(t, "2.1.330/can_use_tool.Bash", "")
	q := askOf(t, use)
	a := Answer{Question: q.ID, Digest: q.Digest, Allow: true}
	must(t, q.Answer(a))
	a.Allow = false
	if err := q.Answer(a); !errors.Is(err, ErrAnswered) || !strings.Contains(err.Error(), "it was allowed") {
		t.Errorf("twice: %v", err)
	}
	if d := <-q.decision; !d.Allow {
		t.Errorf("the second answer counted: %+v", d)
	}
	if err := q.Answer(a); !errors.Is(err, ErrAnswered) {
		t.Errorf("twice, later: %v", err)
	}
	for prefix, want := range map[string]error{q.ID[:4]: ErrAnswered, q.ID[:3]: ErrNoQuestion} {
		if err := q.Answer(Answer{Question: prefix, Digest: q.Digest}); !errors.Is(err, want) {
			t.Errorf("twice, by %s: %v", prefix, err)
		}
	}

	q = askOf(t, use)
	q.withdraw()
	if err := q.Answer(Answer{Question: q.ID, Digest: q.Digest, Allow: true}); !errors.Is(err, ErrAnswered) || !strings.Contains(err.Error(), "withdrew") {
		t.Errorf("late: %v", err)
	}
	if d := <-q.decision; d.Allow {
		t.Errorf("late: %+v", d)
	}
}

// The agent gets exactly the person's choice.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const rule = `[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"echo *"}],"behavior":"allow","destination":"session"}]`
	for _, test := range []struct {
		says   string
		answer Answer
		want   string
	}{
		{"ASK:Bash", Answer{Allow: true}, "allowed"},
		{"ASK:Bash", Answer{Allow: true, Session: "Bash(echo *)"}, "allowed, with " + rule},
		{"ASK:Bash", Answer{Reason: "not now"}, "denied: not now"},
		{"ASK:AskUserQuestion", Answer{Allow: true, Answers: map[string]string{"Which colour?": "Blue"}}, "allowed, answered map[Which colour?:Blue]"},
		{"ASK:AskUserQuestion", Answer{Reason: "ask later"}, "denied: ask later"},
		{"ASK:ExitPlanMode", Answer{Allow: true}, "allowed"},
		{"ASK:ExitPlanMode", Answer{Reason: "too long"}, "denied: too long"},
	} {
		t.Run(test.says+" "+test.want, func(t *testing.T) {
			t.Parallel()
			h := newHarbour(t, simchild.Script{})
			h.Make("red", 1, "lead")
			f, _ := h.sail()
			entry := h.entry("red", "lead")
			entry.Permissions = "ask"
			id := h.add(f, entry)
			h.until(f, id, "idle", state(relay.Idle))
			_, err := prompt(t.Context(), f, id, relay.Input{Text: test.says})
			must(t, err)
			q := h.until(f, id, "asking", func(s Status) bool { return len(s.Questions) == 1 }).Questions[0]
			test.answer.Question, test.answer.Digest = q.ID, q.Digest
			must(t, f.Answer(test.answer))
			h.until(f, id, "answered", func(s Status) bool {
				h.mu.Lock()
				defer h.mu.Unlock()
				return len(h.results) == 1
			})
			if got := h.results[0]; got != test.want {
				t.Errorf("the agent was told %q, want %q", got, test.want)
			}
		})
	}
}
