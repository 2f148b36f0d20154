package main

import (
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/agent"
	"teambridge/relay/fleet"
	"teambridge/status/api"
)

// atKeyboard reports whether a person can answer questions at the terminal.
func (r *agentRun) atKeyboard() bool {
	return r.app.keyboard && r.opts.input == inLines && r.opts.output == outText
}

// changeOpen adds a question to the open ones, or removes it, and returns the question to print next, if any. Only
// one is printed at a time.
func (r *agentRun) changeOpen(q fleet.Question, open bool) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	if open {
		if r.open = append(r.open, q); len(r.open) > 1 {
			return nil
		}
	} else {
		i := slices.IndexFunc(r.open, func(o fleet.Question) bool { return o.ID == q.ID })
		if i < 0 {
			return nil
		}
		if r.open = slices.Delete(r.open, i, i+1); i > 0 || len(r.open) == 0 {
			return nil
		}
	}
	return stderrLine("question", questionPrompt(r.open[0]))
}

// questionPrompt returns the text that asks a person a question, with the possible answers.
func questionPrompt(q fleet.Question) string {
	shown := api.Question(q)
	var b strings.Builder
	switch q.Kind {
	case agent.AsksPlan:
		fmt.Fprintf(&b, "the agent asks you to approve its plan:\n%s\n", strings.TrimSpace(q.Plan))
	case agent.AsksPerson:
		fmt.Fprintf(&b, "the agent asks: %s\n", q.Input)
	default:
		fmt.Fprintf(&b, "the agent wants to use %s\n", escape(questionText(shown), false)) // the agent must not print lines of its own
	}
	switch asked := shown.Asked(); {
	case len(asked) == 1:
		b.WriteString("answer with y ANSWER, n or n REASON")
	case q.Kind == agent.AsksPerson:
		fmt.Fprintf(&b, `answer with {"permit": %q, "digest": %q, "allow": true, "answers": {"QUESTION": "ANSWER"}}, n or n REASON`, q.ID, q.Digest)
	case len(q.Session) > 0:
		fmt.Fprintf(&b, "allow it? y, s (also %s, until the agent is restarted), n or n REASON", q.Session[0])
	default:
		b.WriteString("allow it? y, n or n REASON")
	}
	return b.String()
}

// keyboardAnswer parses a line as the answer to the question that was printed last.
func (r *agentRun) keyboardAnswer(text string) (a fleet.Answer, ok bool) {
	if !r.atKeyboard() {
		return a, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.open) == 0 {
		return a, false
	}
	q := r.open[0]
	a.Question, a.Digest = q.ID, q.Digest
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rest = strings.TrimSpace(rest)
	asked := api.Question(q).Asked()
	switch {
	case word == "n":
		a.Reason = rest
		return a, true
	case word == "s" && rest == "" && len(q.Session) > 0:
		a.Session = q.Session[0]
	case word == "y" && len(asked) == 1 && rest != "":
		a.Answers = map[string]string{asked[0]: rest}
	case word != "y" || rest != "":
		return a, false
	}
	a.Allow = true
	return a, true
}
