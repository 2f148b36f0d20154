package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"teambridge/relay/agent"
	"teambridge/teams/errtest"
)

var must = errtest.Must

// A list allows the tools that it names, but never what only a person can decide. The
// questions are real ones of Claude Code.
func TestListedTools(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		question string
		mode     string // the permission mode in force
		want     bool
	}{
		{"2.1.280/can_use_tool.Bash", "default", true},
		{"2.1.280/can_use_tool.Write", "", true},
		{"2.1.280/can_use_tool.Write", "plan", false},
		{"2.1.280/can_use_tool.Bash", "plan", false},
		{"2.1.280/can_use_tool.ExitPlanMode", "default", false},
		{"2.1.280/can_use_tool.Write", "acceptEdits", true},
		{"2.1.280/can_use_tool.ExitPlanMode", "", false},
		{"2.1.280/can_use_tool.AskUserQuestion", "default", false},
		{"2.1.330/can_use_tool.Bash", "default", true},
		{"2.1.330/can_use_tool.of-subagent", "default", true},
		{"2.1.330/can_use_tool.Write-in-plan-mode", "plan", false},
		{"2.1.330/can_use_tool.Write-in-plan-mode", "", false},
		{"2.1.330/can_use_tool.ExitPlanMode", "plan", false},
		{"2.1.330/can_use_tool.AskUserQuestion", "bypassPermissions", false},
	} {
		u := question(t, test.question, test.mode)
		for _, list := range [][]string{{"*"}, {u.Tool}} {
			p := &agent.Permission{Allow: list}
			if d, decided := p.Decide(u); !decided || d.Allow != test.want {
				t.Errorf("%s in mode %q, allow %q: got %t, want %t", test.question, test.mode, list, d.Allow, test.want)
			}
			p.Ask = func(context.Context, agent.Use) agent.Decision { return agent.Decision{} }
			if d, decided := p.Decide(u); decided != test.want || d.Allow != test.want {
				t.Errorf("%s in mode %q, allow %q, a person may be asked: got %t, %t", test.question, test.mode, list, d.Allow, decided)
			}
		}
	}
}

// An agent may write the file of its plan, for which our rules make it ask, and no other file.
func TestPlanFile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	plans := filepath.Join(root, "plans")
	for _, test := range []struct {
		name, mode, tool, path, more string
		want                         bool
	}{
		{"the plan", "plan", "Write", filepath.Join(plans, "calm-fox.md"), `"decision_reason_type": "rule"`, true},
		{"no reason", "plan", "Edit", filepath.Join(plans, "calm-fox.md"), "", true},
		{"the plan of another session", "plan", "Write", filepath.Join(plans, "calm-fox.md"), `"decision_reason_type": "mode"`, false},
		{"a subagent", "plan", "Write", filepath.Join(plans, "calm-fox.md"), `"agent_id": "a1"`, false},
		{"in another mode", "default", "Write", filepath.Join(plans, "calm-fox.md"), "", false},
		{"another tool", "plan", "NotebookEdit", filepath.Join(plans, "calm-fox.md"), "", false},
		{"another file", "plan", "Write", filepath.Join(plans, "run.sh"), "", false},
		{"a folder below", "plan", "Write", filepath.Join(plans, "x", "calm-fox.md"), "", false},
		{"out of the folder", "plan", "Write", plans + "/../plans/../CLAUDE.md", "", false},
		{"beside it", "plan", "Write", filepath.Join(root, "CLAUDE.md"), "", false},
		{"no path", "plan", "Write", "", "", false},
	} {
		more := test.more
		if more != "" {
			more = ", " + more
		}
		body := json.RawMessage(fmt.Sprintf(`{"tool_name": %q, "input": {"file_path": %q}%s}`, test.tool, test.path, more))
		u := NewUse(body, test.mode)
		if got := writesPlan(u, body, root); got != test.want {
			t.Errorf("%s: got %t, want %t", test.name, got, test.want)
		}
		if writesPlan(u, body, "") {
			t.Errorf("%s: allowed without a Claude directory", test.name)
		}
	}
}

// An answer allows a tool only with the input of the question.
func TestAllowedInput(t *testing.T) {
	t.Parallel()
	u := question(t, "2.1.330/can_use_tool.Write", "")
	data, err := answer(&agent.Permission{}, "r", u, agent.Decision{Allow: true})
	must(t, err)
	var got struct {
		Response struct {
			Response struct {
				UpdatedInput struct {
					Path    string `json:"file_path"`
					Content string `json:"content"`
				} `json:"updatedInput"`
			} `json:"response"`
		} `json:"response"`
	}
	must(t, json.Unmarshal(data, &got))
	if in := got.Response.Response.UpdatedInput; in.Path != "/home/dev/project/w1" || in.Content != "x" {
		t.Errorf("allowed with %s", data)
	}
}

// A person's answers go next to the questions, and of the suggestions only the rule that
// the person chose.
func TestPersonsAnswer(t *testing.T) {
	t.Parallel()
	ask := NewUse([]byte(`{"tool_name": "AskUserQuestion", "input": {"questions": [{"question": "Which colour?", "header": "h"}]}}`), "")
	bash := NewUse([]byte(`{"tool_name": "Bash", "input": {"command": "ls"}, "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits"},
		{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "ls *"}], "behavior": "allow", "destination": "localSettings"},
		{"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "l *"}], "behavior": "allow", "destination": "localSettings"}]}`), "")
	for _, test := range []struct {
		use      agent.Use
		decision agent.Decision
		want     string
	}{
		{ask, agent.Decision{Allow: true, Answers: map[string]string{"Which colour?": "Blue"}},
			`{"behavior":"allow","updatedInput":{"answers":{"Which colour?":"Blue"},"questions":[{"question":"Which colour?","header":"h"}]}}`},
		{bash, agent.Decision{Allow: true, Session: "Bash(l *)"},
			`{"behavior":"allow","updatedInput":{"command":"ls"},"updatedPermissions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"l *"}],"behavior":"allow","destination":"session"}]}`},
		{bash, agent.Decision{Allow: true}, `{"behavior":"allow","updatedInput":{"command":"ls"}}`},
	} {
		if err := test.use.Check(test.decision); err != nil {
			t.Error(err)
		}
		got, err := answer(nil, "r", test.use, test.decision)
		if want := `{"type":"control_response","response":{"subtype":"success","request_id":"r","response":` + test.want + "}}"; err != nil || string(got) != want {
			t.Errorf("%+v: got %s, %v, want %s", test.decision, got, err, want)
		}
	}
}

func question(t *testing.T, name, mode string) agent.Use {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "permissions", filepath.FromSlash(name)+".json"))
	must(t, err)
	var line struct {
		Request json.RawMessage `json:"request"`
	}
	must(t, json.Unmarshal(data, &line))
	return NewUse(line.Request, mode)
}

// A process may report fewer permissions than it was given, and those of a pending
// request.
func TestPermissionsReported(t *testing.T) {
	t.Parallel()
	answered := func(e string) ControlResponse { return ControlResponse{ID: "r", Error: e} }
	for _, test := range []struct {
		name    string
		flags   string // the mode that these request
		request string // the mode that request "r" asked for before
		says    []Payload
		want    string // the mode in force; empty: too much
	}{
		{"its flags", "plan", "", []Payload{Init{PermissionMode: "plan"}}, "plan"},
		{"more than its flags", "plan", "", []Payload{Init{PermissionMode: "bypassPermissions"}}, ""},
		{"less than its flags", "bypassPermissions", "", []Payload{Init{PermissionMode: "default"}}, "default"},
		{"a mode nobody knows", "plan", "", []Payload{Status{"shiny"}}, ""},
		{"no mode", "plan", "", []Payload{Init{}}, "plan"},
		{"the same by another name", "manual", "", []Payload{Init{PermissionMode: "default"}}, "default"},
		{"out of plan mode", "plan", "", []Payload{Init{PermissionMode: "plan"}, Status{"default"}}, ""},
		{"out of the plan mode of its settings", "", "", []Payload{Init{PermissionMode: "plan"}, Status{"default"}}, ""},
		{"into plan mode and out of it", "", "", []Payload{Init{PermissionMode: "default"}, Status{"plan"}, Init{PermissionMode: "plan"}, Status{"default"}}, "default"},
		{"asked for", "default", "acceptEdits", []Payload{answered(""), Status{"acceptEdits"}}, "acceptEdits"},
		{"asked for, told before the answer", "default", "acceptEdits", []Payload{Status{"acceptEdits"}, answered("")}, "acceptEdits"},
		{"more than asked for", "default", "acceptEdits", []Payload{Status{"bypassPermissions"}}, ""},
		{"refused", "default", "acceptEdits", []Payload{answered("no"), Status{"acceptEdits"}}, ""},
		{"narrowed", "acceptEdits", "default", []Payload{answered(""), Status{"acceptEdits"}}, ""},
	} {
		p := permissions{mode: test.flags, limit: test.flags}
		if test.request != "" {
			p.setting = map[string]string{"r": test.request}
		}
		var err error
		for _, s := range test.says {
			if err == nil {
				err = p.report(s)
			}
		}
		if (err != nil) != (test.want == "") || err == nil && p.mode != test.want {
			t.Errorf("%s: in mode %q, error %v, want %q", test.name, p.mode, err, test.want)
		}
	}
	// A person let it leave plan mode, for the default.
	p := permissions{mode: "plan", limit: "plan"}
	p.decided(NewUse([]byte(`{"tool_name": "ExitPlanMode"}`), planMode), agent.Decision{Allow: true})
	if err := p.report(Status{"default"}); err != nil {
		t.Error(err)
	}
	if err := p.report(Status{"acceptEdits"}); err == nil {
		t.Error("an approved plan gave it the mode acceptEdits")
	}
}
