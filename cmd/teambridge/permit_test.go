package main

import "testing"

// A person who allows a tool call sees all of its input.
func TestToolText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ tool, input, want string }{
		{"Bash", `{"command":"a \u0026\u0026 b","description":"Do both"}`, "Bash: a && b (Do both)"},
		{"Bash", `{"command":"sleep","timeout":12345678901234567890,"run_in_background":true}`, `Bash: sleep {"run_in_background":true,"timeout":12345678901234567890}`},
		{"Edit", `{"file_path":"/x","old_string":"<a>","new_string":"b"}`, `Edit: /x {"new_string":"b","old_string":"<a>"}`},
		{"Odd", `{"command":["not","a","text"]}`, `Odd {"command":["not","a","text"]}`},
		{"Grep", `{"pattern":"p","path":"/y"}`, `Grep: p {"path":"/y"}`},
		{"None", `{}`, "None"},
		{"Null", `null`, "Null null"},
		{"List", `[1]`, "List [1]"},
		{"Cut", `{"comm`, `Cut {"comm`},
	} {
		if got := toolText(c.tool, []byte(c.input)); got != c.want {
			t.Errorf("%s %s is shown as %q, want %q", c.tool, c.input, got, c.want)
		}
	}
}
