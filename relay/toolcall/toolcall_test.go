package toolcall_test

import (
	"strings"
	"testing"

	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
)

func TestTitles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tool, input, want string }{
		{"Bash", `{"command":"go test ./...\n\tgo vet"}`, "run `go test ./... go vet`"},
		{"Bash", `{"command":"echo ` + "`date`" + `"}`, "run `echo 'date'`"},
		{"Bash", `{"command":7}`, "use Bash"},
		{"Bash", `null`, "use Bash"},
		{"Bash", `{"command":"` + strings.Repeat("x", 300) + `"}`, "run `" + strings.Repeat("x", toolcall.TitleLimit-1) + "…`"},
		{"Read", `{"file_path":"/a b"}`, "read /a b"},
		{"NotebookEdit", `{"notebook_path":"/n.ipynb"}`, "edit /n.ipynb"},
		{"Grep", `{"pattern":"a.*b"}`, "search for `a.*b`"},
		{"WebSearch", `{"query":"go"}`, "search the web for `go`"},
		{"Task", `{"description":"look\u001b[31m"}`, "run agent: look [31m"},
		{"SendMessage", `{"recipient":"bob"}`, "write to bob"},
		{"bash", `{"command":"ls"}`, "run `ls`"},
		{"edit", `{"path":"/a b"}`, "edit /a b"},
		{"webfetch", `{"url":"https://example.com"}`, "fetch https://example.com"},
		{"AskUserQuestion", `{"questions":[{"question":"Which ` + "`way`" + `?"},{"question":"Why?"}]}`, "ask `Which 'way'?`"},
		{"AskUserQuestion", `{"questions":[]}`, "use AskUserQuestion"},
		{"ExitPlanMode", `{"plan":"x"}`, "ask about its plan"},
		{"mcp__a__b", `{}`, "use mcp__a__b"},
		{"", ``, "use "},
	} {
		if got := toolcall.Describe(test.tool, []byte(test.input)).Title; got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.tool, test.input, got, test.want)
		}
	}
}

// Only a finished call is described as done, whichever version worded the title.
func TestSay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		title  string
		became wire.Outcome
		want   string
	}{
		{"run `ls`", toolcall.Running, "runs `ls`"},
		{"run `ls`", wire.OutcomeDone, "ran `ls`"},
		{"run `ls`", wire.OutcomeStarted, "began to run `ls` in the background"},
		{"run `ls`", wire.OutcomeFailed, "tried to run `ls` · failed"},
		{"run `ls`", wire.OutcomeDenied, "tried to run `ls` · denied"},
		{"run `ls`", wire.OutcomeCut, "tried to run `ls` · cut off"},
		{"run `ls`", "", "tried to run `ls`"},
		{"ran `ls`", wire.OutcomeDenied, "tried to run `ls` · denied"},
		{"ran `ls`", toolcall.Running, "runs `ls`"},
		{"wrote /a b", wire.OutcomeFailed, "tried to write /a b · failed"},
		{"read /a", "", "tried to read /a"},
		{"searched for `a`", wire.OutcomeDone, "searched for `a`"},
		{"look for `a`", wire.OutcomeDone, "looked for `a`"},
		{"fetch u", wire.OutcomeDone, "fetched u"},
		{"use X", wire.OutcomeDone, "used X"},
		{"edited a", toolcall.Running, "edits a"},
		{"make all", wire.OutcomeDone, "make all"},
		{"make", wire.OutcomeDenied, "make · denied"},
		{"running", toolcall.Running, "running"},
	} {
		if got := toolcall.Say(test.title, test.became); got != test.want {
			t.Errorf("%q, %s: got %q, want %q", test.title, test.became, got, test.want)
		}
	}
}
