package opencode_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/opencode"
	"teambridge/relay/relaytest/standin"
	"teambridge/relay/wire"
	"teambridge/teams/errtest"
)

var must = errtest.Must

// real returns options for the real OpenCode in a home of its own.
func real(t *testing.T) (opencode.Options, *standin.Home) {
	t.Helper()
	home := standin.NewHome(t, nil)
	return opencode.Options{
		Command: []string{home.OpenCode(t)}, Env: home.Env(), Dir: home.Work, State: filepath.Join(home.Dir, "state"),
	}, home
}

func start(t *testing.T, r *opencode.Runtime, m mode.Mode) agent.Agent {
	t.Helper()
	a, err := r.Start(t.Context(), uuid.NewString(), m)
	must(t, err)
	t.Cleanup(func() { _ = a.Kill() })
	return a
}

// say sends an agent a text and returns how its turn ended.
func say(t *testing.T, a agent.Agent, text string) agent.Progress {
	t.Helper()
	id := uuid.NewString()
	line, err := new(opencode.Runtime).Encode(id, text)
	must(t, err)
	must(t, a.Send(t.Context(), line))
	return ended(t, a, id)
}

func ended(t *testing.T, a agent.Agent, id string) agent.Progress {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for e, err := range a.Events(ctx) {
		must(t, err)
		for _, p := range e.Progress {
			if p.UUID == id && !p.State.InFlight() {
				return p
			}
		}
	}
	t.Fatalf("the agent ended: %v", a.Wait(ctx))
	return agent.Progress{}
}

func bash(command string) string {
	input, _ := json.Marshal(map[string]any{"name": "bash", "input": map[string]string{"command": command, "description": "d"}})
	return "CALL:" + string(input)
}

// The agent asks before a change, and the policy or a person decides. The user's own
// configuration prevails over our rules, and our own denials over it.
func TestRealPermissions(t *testing.T) {
	t.Parallel()
	o, home := real(t)
	config := filepath.Join(home.Dir, ".config", "opencode", "opencode.json")
	data, err := os.ReadFile(config)
	must(t, err)
	// The user allows one command, in a configuration with a comment.
	data = append([]byte("// mine\n{\"permission\": {\"bash\": {\"touch mine\": \"allow\"}},"), strings.TrimPrefix(string(data), "{")...)
	must(t, os.WriteFile(config, data, 0o600))
	var asked []agent.Use
	o.Permission = &agent.Permission{Reason: "not in a test", Ask: func(_ context.Context, u agent.Use) agent.Decision {
		asked = append(asked, u)
		return agent.Decision{Allow: strings.Contains(u.Description, "allowed")}
	}}
	r := opencode.New(o)
	t.Cleanup(func() { _ = r.Close() })
	made := func(name string) bool {
		_, err := os.Stat(filepath.Join(o.Dir, name))
		return err == nil
	}
	a := start(t, r, mode.Mode{})
	for _, tc := range []struct {
		name       string
		ask, exist bool
	}{{"mine", false, true}, {"allowed", true, true}, {"refused", true, false}} {
		asked = nil
		if p := say(t, a, bash("touch "+tc.name)); p.State != agent.Done {
			t.Errorf("%s: %v %+v", tc.name, p.State, p.Result)
		}
		if (len(asked) == 1) != tc.ask || made(tc.name) != tc.exist {
			t.Errorf("%s: asked %+v, file made %t; want asked %t, made %t", tc.name, asked, made(tc.name), tc.ask, tc.exist)
		}
		if tc.ask && len(asked) == 1 && (asked[0].Tool != "Bash" || asked[0].Kind != agent.AsksPermission || asked[0].ID == "") {
			t.Errorf("%s: asked %+v", tc.name, asked[0])
		}
	}
	if err := a.End(t.Context(), agent.Grace{Term: time.Minute}); err != nil {
		t.Error(err)
	}
	// OpenCode reports a denial like a failure.
	var became []wire.Outcome
	for e, err := range r.Conversation(t.Context(), a.(*opencode.Agent).Session(), time.Time{}, true) {
		must(t, err)
		if end, ok := e.Event.(*wire.ToolCallEnd); ok {
			became = append(became, end.Outcome)
		}
	}
	if want := []wire.Outcome{wire.OutcomeDone, wire.OutcomeDone, wire.OutcomeDenied}; !slices.Equal(became, want) {
		t.Errorf("the calls became %q, want %q", became, want)
	}

	// Disallowed, whatever the user's configuration says.
	asked = nil
	a = start(t, r, mode.Mode{DisallowedTools: mode.Set([]string{"Bash"}), AppendSystemPrompt: mode.Set("Be brief [sys].")})
	say(t, a, bash("touch mine2; touch mine"))
	if len(asked) > 0 || made("mine2") {
		t.Errorf("disallowed: asked %+v, made %t", asked, made("mine2"))
	}
	if calls := home.API.Log(); !strings.Contains(calls[len(calls)-1].System, "Be brief [sys].") {
		t.Error("the model was not given what is appended to its system prompt")
	}
}

// A question of the agent is answered by a person, and withdrawn with an interrupt.
func TestRealQuestion(t *testing.T) {
	t.Parallel()
	o, _ := real(t)
	withdrawn := make(chan struct{})
	waiting := make(chan struct{}, 1)
	first := true
	o.Permission = &agent.Permission{Allow: []string{"*"}, Ask: func(ctx context.Context, u agent.Use) agent.Decision {
		if u.Kind != agent.AsksPerson || !slices.Equal(u.Asked, []string{"Which colour?"}) {
			t.Errorf("asked %+v", u)
		}
		if first {
			first = false
			return agent.Decision{Allow: true, Answers: map[string]string{"Which colour?": "blue"}}
		}
		waiting <- struct{}{}
		<-ctx.Done()
		close(withdrawn)
		return agent.Decision{}
	}}
	r := opencode.New(o)
	a := start(t, r, mode.Mode{})
	question := `CALL:{"name":"question","input":{"questions":[{"question":"Which colour?","header":"Colour","options":[{"label":"blue","description":"b"},{"label":"red","description":"r"}]}]}}`
	if p := say(t, a, question); p.State != agent.Done {
		t.Errorf("%v %+v", p.State, p.Result)
	}
	id := uuid.NewString()
	line, err := new(opencode.Runtime).Encode(id, question)
	must(t, err)
	must(t, a.Send(t.Context(), line))
	go func() {
		<-waiting
		if err := a.Interrupt(context.Background(), id); err != nil {
			t.Error(err)
		}
	}()
	if p := ended(t, a, id); p.State != agent.Cancelled {
		t.Errorf("%v %+v", p.State, p.Result)
	}
	<-withdrawn
	if turn, err := r.Turn(t.Context(), a.(*opencode.Agent).Session(), id); err != nil || !turn.Interrupted {
		t.Errorf("%+v, %v", turn, err)
	}
}

// A running server is used, and left running. Of a mode, it takes only the model, and
// earlier messages of a session are known.
func TestRealAttach(t *testing.T) {
	t.Parallel()
	home := standin.NewHome(t, nil)
	url, pid := standin.StartOpenCode(t, home)
	r := opencode.New(opencode.Options{URL: url, Dir: home.Work})
	if _, err := r.Start(t.Context(), uuid.NewString(), mode.Mode{PermissionMode: mode.Set("plan")}); !errors.Is(err, agent.ErrRefused) {
		t.Errorf("plan mode: %v, want it refused", err)
	}
	a := start(t, r, mode.Mode{Model: mode.Set("opus")})
	if p := say(t, a, "hello [m-1]"); p.State != agent.Done || !strings.Contains(p.Result.Text, "[m-1]") {
		t.Errorf("%v %+v", p.State, p.Result)
	}
	if _, err := a.SetMode(t.Context(), a.Mode(), mode.Mode{Model: mode.Set("none")}); !errors.Is(err, agent.ErrRefused) {
		t.Errorf("a model that does not exist: %v, want it refused", err)
	}
	if err := a.End(t.Context(), agent.Grace{EOF: time.Minute}); err != nil {
		t.Error(err)
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if alive, _ := r.Predecessor(agent.Process{PID: pid}).Alive(); !alive {
		t.Error("the server was ended")
	}
	for _, call := range home.API.Log() {
		if call.Model != "opus" {
			t.Errorf("the model was %q, want opus", call.Model)
		}
	}
}
