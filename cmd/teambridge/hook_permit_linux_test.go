package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/relay/dialog"
	"teambridge/relay/relaytest/simsession"
	"teambridge/status/api"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// asker is a session that asks at its terminal, and whose dialogs can be answered from other places.
type asker struct {
	*simsession.Session
	t   *testing.T
	dir string
}

type ending struct {
	status      int
	stdout, err string
}

func (a *asker) state() string { return filepath.Join(a.dir, "state") }

func (a *asker) run(env map[string]string, stdin string, args ...string) ending {
	all := map[string]string{"CLAUDE_CONFIG_DIR": a.Root, "TEAMBRIDGE_STATE": a.state()}
	maps.Copy(all, env)
	var out, errs bytes.Buffer
	status := run(args, host{
		stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs,
		cwd:    func() (string, error) { return a.dir, nil },
		lookup: func(name string) (string, bool) { v, ok := all[name]; return v, ok },
	})
	return ending{status, out.String(), errs.String()}
}

// hook runs the hook in the session, for a use of a tool.
func (a *asker) hook(fields string) <-chan ending {
	done := make(chan ending, 1)
	in := fmt.Sprintf(`{"hook_event_name":"PermissionRequest","session_id":%q,"permission_mode":"default",%s}`, a.ID, fields)
	go func() {
		done <- a.run(map[string]string{"CLAUDE_CODE_ENTRYPOINT": "cli"}, in, "hook", "permit", "--pid", fmt.Sprint(a.PID()))
	}()
	return done
}

// asked waits until a question is listed.
func (a *asker) asked() (q api.Asked) {
	a.t.Helper()
	for deadline := time.After(patience); ; {
		var list []api.Asked
		p := a.run(nil, "", "permit", "--json")
		if p.status == 0 && json.Unmarshal([]byte(p.stdout), &list) != nil {
			a.t.Fatal(p)
		}
		if len(list) == 1 {
			return list[0]
		}
		select {
		case <-deadline:
			a.t.Fatalf("nothing is asked: %+v", p)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	dir := teamstest.StateDir(t)
	a := &asker{t: t, dir: dir, Session: simsession.Start(t, filepath.Join(dir, "claude"), "5e55104e-0000-4000-8000-000000000001")}
	errtest.Must(t, dialog.Turn(a.state(), true))
	return a
}

const mkdir = `"tool_name":"Bash","tool_input":{"command":"mkdir x"},"permission_suggestions":[
	{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"mkdir *"}],"behavior":"allow","destination":"localSettings"}]`

func TestDialogs(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	for _, test := range []struct {
		name, use string
		answer    []string
		want      string
	}{
		{"allowed", mkdir, []string{"permit"}, `{"behavior":"allow","updatedInput":{"command":"mkdir x"}}`},
		{"allowed for the session", mkdir, []string{"permit", "--session"},
			`{"behavior":"allow","updatedInput":{"command":"mkdir x"},"updatedPermissions":[{"type":"addRules","rules":[{"toolName":"Bash","ruleContent":"mkdir *"}],"behavior":"allow","destination":"session"}]}`},
		{"denied", mkdir, []string{"deny", "--reason", "not <now>"}, `{"behavior":"deny","message":"not <now>"}`},
		{"a plan", `"tool_name":"ExitPlanMode","tool_input":{"plan":"do it"}`, []string{"permit"}, `{"behavior":"allow","updatedInput":{"plan":"do it"}}`},
		{"a question", `"tool_name":"AskUserQuestion","tool_input":{"questions":[{"question":"Which?"}]}`, []string{"permit", "--answer", "Blue"},
			`{"behavior":"allow","updatedInput":{"answers":{"Which?":"Blue"},"questions":[{"question":"Which?"}]}}`},
	} {
		a.Tell("ask")
		hook := a.hook(test.use)
		q := a.asked()
		if q.Relay != api.Terminal || q.Team != "sessions" || q.Member == "" {
			t.Errorf("%s: listed as %+v", test.name, q)
		}
		if p := a.run(map[string]string{"CLAUDECODE": "1"}, "", append(test.answer, q.ID)...); p.status != api.ExitRefused {
			t.Errorf("%s: an agent answered: %+v", test.name, p)
		}
		if p := a.run(nil, "", append(test.answer, q.ID[:6])...); p.status != 0 {
			t.Errorf("%s: %+v", test.name, p)
		}
		if got, want := <-hook, `{"hookSpecificOutput":{"hookEventName":"PermissionRequest","decision":`+test.want+"}}\n"; got.status != 0 || got.stdout != want || got.err != "" {
			t.Errorf("%s: the hook ended with\n%+v, want\n%s", test.name, got, want)
		}
		a.Tell("answered")
		if p := a.run(nil, "", "permit", q.ID[:6]); p.status != api.ExitRefused || !strings.Contains(p.err, "no longer open: it was") {
			t.Errorf("%s: a second answer: %+v", test.name, p)
		}
	}

	// The person at the terminal answers first.
	a.Tell("ask")
	hook := a.hook(mkdir)
	q := a.asked()
	a.Tell("answered")
	if got := <-hook; got != (ending{}) {
		t.Errorf("answered at the terminal: the hook ended with %+v", got)
	}
	if p := a.run(nil, "", "permit", q.ID); p.status != api.ExitRefused || !strings.Contains(p.err, "answered at the terminal") {
		t.Errorf("after the answer at the terminal: %+v", p)
	}

	// A subagent has no dialog while the hook runs, and without the person's consent no question can be answered from
	// another place.
	a.Tell("ask")
	if got := <-a.hook(mkdir + `,"agent_id":"a1"`); got != (ending{}) {
		t.Errorf("a subagent: the hook ended with %+v", got)
	}
	errtest.Must(t, dialog.Turn(a.state(), false))
	if got := <-a.hook(mkdir); got != (ending{}) {
		t.Errorf("turned off: the hook ended with %+v", got)
	}
	if p := a.run(nil, "", "inbox"); !strings.Contains(p.stdout, "answer it at its terminal") || strings.Contains(p.stdout, "permit") {
		t.Errorf("turned off: %+v", p)
	}
}
