package interop

import (
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
)

// A person answers an OpenCode agent of the service like a Claude Code agent: a permitted tool runs, a denied one
// does not, a rule for the session prevents further questions, and the model gets the answers to its questions.
func TestRealPermitOpenCode(t *testing.T) {
	t.Parallel()
	home := standin.NewHome(t, nil)
	h := newHeadlessIn(t, home, home.OpenCode(t))
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
		// OpenCode 1.18.33 does not pass the reason to its model.
		exchange{"denied", "", bash("touch two"), a.deny, "Bash", "Unable to execute command", "", "two"},
		exchange{"permitted for the session", "", bash("touch three"), a.then(a.permitRule, "one rule", func(q api.Question) bool { return len(q.Session) == 1 }), "Bash", "", "three", ""},
		exchange{"after the rule", "", bash("touch three"), a.permit, "", "", "three", ""},
		exchange{"written", "", standin.CallLine("write", map[string]string{"path": filepath.Join(h.home.Work, "written"), "content": "a line"}), a.then(has("a line"), "Write", func(q api.Question) bool { return q.Display == "Write" }), "Edit", "", "written", ""},
		exchange{"a question", "", question, func(q api.Question) { h.must("permit", q.ID, "--answer", "Blue") }, api.AsksPerson, "Blue", "", ""},
	)
}
