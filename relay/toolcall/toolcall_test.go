package toolcall_test

import (
	"strings"
	"testing"

	"teambridge/relay/toolcall"
)

func TestTitles(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ tool, input, want string }{
		{"Bash", `{"command":"go test ./...\n\tgo vet"}`, "ran `go test ./... go vet`"},
		{"Bash", `{"command":"echo ` + "`date`" + `"}`, "ran `echo 'date'`"},
		{"Bash", `{"command":7}`, "used Bash"},
		{"Bash", `null`, "used Bash"},
		{"Bash", `{"command":"` + strings.Repeat("x", 300) + `"}`, "ran `" + strings.Repeat("x", toolcall.TitleLimit-1) + "…`"},
		{"Read", `{"file_path":"/a b"}`, "read /a b"},
		{"NotebookEdit", `{"notebook_path":"/n.ipynb"}`, "edited /n.ipynb"},
		{"Grep", `{"pattern":"a.*b"}`, "searched for `a.*b`"},
		{"WebSearch", `{"query":"go"}`, "searched the web for `go`"},
		{"Task", `{"description":"look\u001b[31m"}`, "ran agent: look [31m"},
		{"SendMessage", `{"recipient":"bob"}`, "wrote to bob"},
		{"bash", `{"command":"ls"}`, "ran `ls`"},
		{"edit", `{"path":"/a b"}`, "edited /a b"},
		{"webfetch", `{"url":"https://example.com"}`, "fetched https://example.com"},
		{"mcp__a__b", `{}`, "used mcp__a__b"},
		{"", ``, "used "},
	} {
		if got := toolcall.Describe(test.tool, []byte(test.input)).Title; got != test.want {
			t.Errorf("%s %s: got %q, want %q", test.tool, test.input, got, test.want)
		}
	}
}
