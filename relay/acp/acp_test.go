package acp

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/simacp"
	"teambridge/teams/errtest"
)

func TestMain(m *testing.M) {
	simacp.Main()
	os.Exit(m.Run())
}

var must = errtest.Must

// simulated returns a runtime of simulated agents, and the directory of their files.
func simulated(t *testing.T, script simacp.Script, change ...func(*Options)) (*Runtime, string) {
	t.Helper()
	script.State = t.TempDir()
	o := Options{Command: []string{os.Args[0]}, Dir: t.TempDir(), State: t.TempDir(), Env: append(os.Environ(), script.Env(), "GORACE=atexit_sleep_ms=0")}
	for _, c := range change {
		c(&o)
	}
	return New(o), script.State
}

func start(t *testing.T, r *Runtime, session string, m mode.Mode) agent.Agent {
	t.Helper()
	a, err := r.Start(t.Context(), session, m)
	must(t, err)
	t.Cleanup(func() { _ = a.Kill() })
	return a
}

// send sends a text, and returns its id.
func send(t *testing.T, r *Runtime, a agent.Agent, text string) string {
	t.Helper()
	id := uuid.NewString()
	line, err := r.Encode(id, text)
	must(t, err)
	must(t, a.Send(t.Context(), line))
	return id
}

// endOf returns how the turn of a message ended.
func endOf(t *testing.T, a agent.Agent, id string) agent.Progress {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for e, err := range a.Events(ctx) {
		must(t, err)
		for _, p := range e.Progress {
			if p.UUID == id && !p.State.InFlight() {
				return p
			}
		}
	}
	t.Fatalf("the agent ended before the turn did: %v", a.Wait(ctx))
	return agent.Progress{}
}

// The types have the names of the published schema.
func TestTypes(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/schema.json")
	must(t, err)
	var schema struct {
		Methods []string
		Types   map[string]struct{ Properties, Required, Values []string }
	}
	must(t, json.Unmarshal(data, &schema))
	for _, m := range []string{methodInitialize, methodNew, methodLoad, methodPrompt, methodCancel, methodUpdate, methodPermission, methodSetMode, methodSetOption} {
		if !slices.Contains(schema.Methods, m) {
			t.Errorf("there is no method %s", m)
		}
	}
	for _, tc := range []struct {
		of      any
		types   []string // that have its fields
		written bool
		but     []string // fields of no published version
	}{
		{initializeParams{}, []string{"InitializeRequest"}, true, nil},
		{implementation{}, []string{"Implementation"}, true, nil},
		{initialized{}, []string{"InitializeResponse"}, false, nil},
		{initialized{}.AgentCapabilities, []string{"AgentCapabilities"}, false, nil},
		{openParams{}, []string{"NewSessionRequest", "LoadSessionRequest"}, true, nil},
		{opened{}, []string{"NewSessionResponse", "LoadSessionResponse"}, false, []string{"models"}},
		{opened{}.Modes, []string{"SessionModeState"}, false, nil},
		{opened{}.Modes.Available, []string{"SessionMode"}, false, nil},
		{configOption{}, []string{"SessionConfigOption", "SessionConfigSelect"}, false, nil},
		{configValue{}, []string{"SessionConfigSelectOption", "SessionConfigSelectGroup"}, false, nil},
		{promptParams{}, []string{"PromptRequest"}, true, nil},
		{contentBlock{}, []string{"TextContent"}, false, []string{"type"}},
		{prompted{}, []string{"PromptResponse"}, false, []string{"usage"}},
		{sessionParams{}, []string{"CancelNotification", "SetSessionModeRequest", "SetSessionConfigOptionRequest"}, true, []string{"modelId"}},
		{notification{}, []string{"SessionNotification"}, false, nil},
		{Update{}, []string{"SessionUpdate", "ContentChunk", "ToolCall", "ToolCallUpdate", "CurrentModeUpdate"}, false, nil},
		{diff{}, []string{"Diff"}, false, []string{"type"}},
		{permissionParams{}, []string{"RequestPermissionRequest"}, false, nil},
		{permissionOption{}, []string{"PermissionOption"}, false, nil},
		{permissionAnswer{}, []string{"RequestPermissionResponse"}, true, nil},
		{outcome{}, []string{"RequestPermissionOutcome", "SelectedPermissionOutcome"}, true, nil},
		{CallError{}, []string{"Error"}, false, nil},
	} {
		var have, there, required []string
		for _, name := range tc.types {
			there, required = append(there, schema.Types[name].Properties...), append(required, schema.Types[name].Required...)
		}
		typ := reflect.TypeOf(tc.of)
		if typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		for _, f := range reflect.VisibleFields(typ) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				continue
			}
			if have = append(have, name); !slices.Contains(there, name) && !slices.Contains(tc.but, name) {
				t.Errorf("%v have no %q", tc.types, name)
			}
		}
		for _, name := range required {
			if tc.written && !slices.Contains(have, name) {
				t.Errorf("%v need %q", tc.types, name)
			}
		}
	}
	for name, values := range map[string][]string{
		"StopReason": {stopEnd, stopCancelled}, "ToolCallStatus": {statusRuns, statusCompleted, statusFailed}, "PermissionOptionKind": {allowOnce, rejectOnce},
		"SessionUpdate":            {userChunk, agentChunk, thoughtChunk, toolBegins, toolChanges, modeChanges},
		"ToolKind":                 {"execute", "read", "edit", "search", "fetch", "delete", "move", "switch_mode"},
		"RequestPermissionOutcome": {"cancelled", "selected"},
	} {
		for _, v := range values {
			if !slices.Contains(schema.Types[name].Values, v) {
				t.Errorf("%s has no %q", name, v)
			}
		}
	}
}

// The error for a program that is no agent of the protocol, or one that cannot be relayed to, says why.
func TestNotAnAgent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script  simacp.Script
		command []string
		want    string
	}{
		"a web page":     {simacp.Script{Print: "<!doctype html>\n"}, nil, "it printed a web page"},
		"another output": {simacp.Script{}, []string{"echo", "Usage: agent [flags]"}, `"Usage: agent [flags]"`},
		"version":        {simacp.Script{Version: 2}, nil, "it speaks version 2"},
		"no sessions":    {simacp.Script{NoLoad: true}, nil, "it cannot load a session"},
		"no program":     {simacp.Script{}, []string{"there-is-none"}, "there-is-none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := simulated(t, tc.script, func(o *Options) {
				if tc.command != nil {
					o.Command = tc.command
				}
			})
			_, err := r.Start(t.Context(), uuid.NewString(), mode.Mode{})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "invalid character") {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}

// An agent that closes its output and lives on is ended, so that its message is sent again.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	r, _ := simulated(t, simacp.Script{}, func(o *Options) { o.closed = time.Millisecond })
	a := start(t, r, uuid.NewString(), mode.Mode{})
	send(t, r, a, "CLOSE")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := a.Wait(ctx); err == nil || !strings.Contains(err.Error(), "it closed its output") {
		t.Errorf("got %v", err)
	}
}

// Lines outside the protocol are skipped, and only one process works on a session at a time.
func TestSession(t *testing.T) {
	t.Parallel()
	r, _ := simulated(t, simacp.Script{Print: "Welcome!\n"})
	session := uuid.NewString()
	a := start(t, r, session, mode.Mode{})
	if _, err := New(r.options).Start(t.Context(), session, mode.Mode{}); err == nil || !strings.Contains(err.Error(), "another process works on session") {
		t.Errorf("a second process: %v", err)
	}
	id := send(t, r, a, "FAIL")
	if p := endOf(t, a, id); p.State != agent.Failed || !strings.Contains(p.Result.Failure, "the model failed") {
		t.Errorf("got %s, %+v", p.State, p.Result)
	}
	must(t, a.End(t.Context(), agent.Grace{EOF: time.Minute, Term: time.Minute}))
	if turn, err := r.Turn(t.Context(), session, id); err != nil || !turn.Failed || !strings.Contains(turn.Failure, "the model failed") {
		t.Errorf("the conversation has %+v, %v", turn, err)
	}
}

// An interrupted turn is cancelled, whatever the agent answers, and its message is not sent again.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	r, state := simulated(t, simacp.Script{})
	session := uuid.NewString()
	a := start(t, r, session, mode.Mode{})
	for _, text := range []string{"SLEEP:60", "SLEEP:60\nFAIL"} {
		id := send(t, r, a, text)
		must(t, a.Interrupt(t.Context(), id))
		if p := endOf(t, a, id); p.State != agent.Cancelled || p.Result.Failure != "interrupted" {
			t.Errorf("%q is %s, %+v", text, p.State, p.Result)
		}
		if turn, err := r.Turn(t.Context(), session, id); err != nil || !turn.Interrupted {
			t.Errorf("of %q the conversation has %+v, %v", text, turn, err)
		}
	}
	for _, e := range simacp.Log(state) {
		if e.Kind == "work" {
			t.Errorf("the agent worked on %q", e.Text)
		}
	}
}

// An interrupt that comes as the turn ends does not reach the next one.
func TestInterruptOfATurnThatHasEnded(t *testing.T) {
	t.Parallel()
	r, state := simulated(t, simacp.Script{})
	started := start(t, r, uuid.NewString(), mode.Mode{})
	id, a := send(t, r, started, "[held]"), started.(*Agent)
	a.writing.Lock()
	interrupted := make(chan error, 1)
	go func() { interrupted <- a.Interrupt(t.Context(), id) }()
	for stopped := false; !stopped; runtime.Gosched() {
		a.mu.Lock()
		stopped = a.flight.stopped
		a.mu.Unlock()
	}
	must(t, os.WriteFile(filepath.Join(state, "go"), nil, 0o600))
	endOf(t, a, id)
	a.writing.Unlock()
	if err := <-interrupted; !errors.Is(err, agent.ErrNotInFlight) {
		t.Error(err)
	}
}

// If the record says too little about a message, an agent is started to look it up.
func TestTurnIsLookedUp(t *testing.T) {
	t.Parallel()
	r, _ := simulated(t, simacp.Script{Die: []string{"taken", "recorded"}, Match: "dies"})
	session := uuid.NewString()
	for _, stored := range []bool{false, true} {
		a := start(t, r, session, mode.Mode{})
		endOf(t, a, send(t, r, a, "hello"))
		id := send(t, r, a, "dies")
		for range a.Events(t.Context()) {
		}
		if turn, err := r.Turn(t.Context(), session, id); err != nil || turn != (agent.Turn{Stored: stored}) {
			t.Errorf("the conversation has %+v, %v; stored: %t", turn, err, stored)
		}
	}
}

// A message is found even if the agent had put out nothing since the message before it.
func TestMessagesInARow(t *testing.T) {
	t.Parallel()
	r, state := simulated(t, simacp.Script{Die: []string{"recorded"}, Match: "dies"})
	session := uuid.NewString()
	var ids []string
	for range 3 {
		a := start(t, r, session, mode.Mode{})
		ids = append(ids, send(t, r, a, "dies"))
		for range a.Events(t.Context()) {
		}
		must(t, os.Remove(filepath.Join(state, "died-recorded"))) // the next message kills it again
	}
	for i, id := range ids {
		if turn, err := r.Turn(t.Context(), session, id); err != nil || turn != (agent.Turn{Stored: true}) {
			t.Errorf("of message %d the conversation has %+v, %v", i, turn, err)
		}
	}
}

// The instructions are in the first message that the agent has, even if its session was kept without an earlier one.
func TestInstructions(t *testing.T) {
	t.Parallel()
	r, state := simulated(t, simacp.Script{Die: []string{"taken"}}, func(o *Options) { o.Instructions = "Be brief." })
	session := uuid.NewString()
	a := start(t, r, session, mode.Mode{})
	id := send(t, r, a, "hello")
	for range a.Events(t.Context()) {
	}
	must(t, os.WriteFile(filepath.Join(state, a.(*Agent).record.session+".jsonl"), []byte(`{"Role": "agent", "Text": "Welcome!"}`+"\n"), 0o600))
	a = start(t, r, session, mode.Mode{})
	line, err := r.Encode(id, "hello")
	must(t, err)
	must(t, a.Send(t.Context(), line))
	endOf(t, a, id)
	endOf(t, a, send(t, r, a, "more"))
	var got []string
	for _, m := range simacp.Messages(state) {
		if m.Role == "user" {
			_, text, _ := strings.Cut(m.Text, "\n")
			got = append(got, text)
		}
	}
	if want := []string{"Be brief.\n\nhello", "more"}; !slices.Equal(got, want) {
		t.Errorf("the agent has %q, want %q", got, want)
	}
}

// A message is not sent again to a program that forgets messages, and its person learns why.
func TestForgotten(t *testing.T) {
	t.Parallel()
	r, _ := simulated(t, simacp.Script{Die: []string{"taken"}, Match: "dies"})
	session := uuid.NewString()
	a := start(t, r, session, mode.Mode{})
	endOf(t, a, send(t, r, a, "hello"))
	id := send(t, r, a, "dies")
	for range a.Events(t.Context()) {
	}
	next := start(t, r, session, mode.Mode{}).(*Agent)
	if turn, err := r.Turn(t.Context(), session, id); err != nil || turn.Stored {
		t.Errorf("of one that forgets nothing: %+v, %v", turn, err)
	}
	next.program = program{name: "gemini", forgets: true}
	if turn, err := r.Turn(t.Context(), session, id); err != nil || !turn.Stored || !turn.Failed || !strings.Contains(turn.Failure, "gemini forgets messages") {
		t.Errorf("of one that forgets: %+v, %v", turn, err)
	}
}

// Permission is given once, never for good; a person's rule is kept here. A question of a stopped turn is withdrawn, so
// that the turn ends.
func TestPermission(t *testing.T) {
	t.Parallel()
	var asked []agent.Use
	answers := []agent.Decision{{}, {Allow: true}, {Allow: true, Session: "Bash(rm -r x)"}}
	waits := make(chan struct{}, 1)
	r, _ := simulated(t, simacp.Script{}, func(o *Options) {
		o.Permission = &agent.Permission{Allow: []string{"Read"}, Ask: func(ctx context.Context, u agent.Use) agent.Decision {
			if asked = append(asked, u); len(asked) <= len(answers) {
				return answers[len(asked)-1]
			}
			waits <- struct{}{}
			<-ctx.Done()
			return agent.Decision{Allow: true}
		}}
	})
	a := start(t, r, uuid.NewString(), mode.Mode{})
	for _, tc := range []struct {
		ask, want string
		asked     int
	}{
		{"read", "selected once", 0}, {"execute", "selected no", 1}, {"execute", "selected once", 2}, {"execute", "selected once", 3}, {"execute", "selected once", 3},
	} {
		p := endOf(t, a, send(t, r, a, "ASK:"+tc.ask))
		if p.Result.Text != "it was "+tc.want || len(asked) != tc.asked {
			t.Errorf("%s: %q after %d questions, want %q after %d", tc.ask, p.Result.Text, len(asked), tc.want, tc.asked)
		}
	}
	if u := asked[0]; u.Tool != "Bash" || string(u.Input) != `{"command":"rm -r x"}` || u.ID != "ask0" || u.ForPerson {
		t.Errorf("it asked for %+v", u)
	}
	id := send(t, r, a, "ASK:edit")
	<-waits
	must(t, a.Interrupt(t.Context(), id))
	if p := endOf(t, a, id); p.State != agent.Cancelled {
		t.Errorf("the turn that was stopped during a question is %s", p.State)
	}
}

// The mode in which an agent asks is set after each start of a session, and an agent that leaves it by itself is ended.
func TestPermissionMode(t *testing.T) {
	t.Parallel()
	set := func(state string) (list []string) {
		for _, e := range simacp.Log(state) {
			if e.Kind == "mode" {
				list = append(list, e.Text)
			}
		}
		return list
	}
	// Its command names a known program.
	named := func(o *Options) {
		program := filepath.Join(o.State, "qwen")
		must(t, os.Symlink(o.Command[0], program))
		o.Command = []string{program}
	}
	r, state := simulated(t, simacp.Script{}, named)
	session := uuid.NewString()
	a := start(t, r, session, mode.Mode{})
	endOf(t, a, send(t, r, a, "hello"))
	must(t, a.End(t.Context(), agent.Grace{EOF: time.Minute, Term: time.Minute}))
	a = start(t, r, session, mode.Mode{})
	if got := set(state); !slices.Equal(got, []string{"default", "default"}) {
		t.Errorf("after two starts the modes %q were set", got)
	}
	plan := mode.Mode{PermissionMode: mode.Set("plan")}
	if now, err := a.SetMode(t.Context(), mode.Mode{}, plan); err != nil || now != plan {
		t.Errorf("plan: %v, %v", now, err)
	}
	if _, err := a.SetMode(t.Context(), plan, mode.Mode{PermissionMode: mode.Set("acceptEdits")}); !errors.Is(err, agent.ErrRefused) {
		t.Errorf("a mode that it has under another name: %v", err)
	}
	send(t, r, a, "WIDEN:bypassPermissions\nTOOL:60")
	for range a.Events(t.Context()) {
	}
	if widened, ok := errors.AsType[*agent.WidenedError](a.Wait(t.Context())); !ok || widened.Got != "bypassPermissions" {
		t.Errorf("it ended with %v", a.Wait(t.Context()))
	}

	// An unknown program keeps its own mode.
	r, state = simulated(t, simacp.Script{})
	start(t, r, uuid.NewString(), mode.Mode{})
	if got := set(state); got != nil {
		t.Errorf("of an agent that is not known, the modes %q were set", got)
	}
}

// A program is recognized by its command, or by the name that it reports.
func TestProgramOf(t *testing.T) {
	t.Parallel()
	for want, commands := range map[string][][]string{
		"opencode": {{"/usr/bin/opencode", "acp"}},
		"gemini":   {{"node", "/x/node_modules/@google/gemini-cli/bundle/gemini.js", "--acp"}},
		"qwen":     {{"node", "/x/node_modules/@qwen-code/qwen-code/cli-entry.js", "--acp"}, {"qwen", "--acp"}},
		"codex":    {{"npx", "-y", "@zed-industries/codex-acp"}, {"/opt/codex-acp"}},
		"claude":   {{"npx", "@agentclientprotocol/claude-agent-acp@0.101.0"}},
		"":         {{"/home/gemini/bin/goose", "acp"}, {"kimi", "--acp"}},
	} {
		for _, c := range commands {
			if got := programOf(c, "").name; got != want {
				t.Errorf("%q is %q, want %q", c, got, want)
			}
		}
	}
	if got := programOf([]string{"node", "index.js"}, "@agentclientprotocol/claude-agent-acp").name; got != "claude" {
		t.Errorf("by its own name it is %q", got)
	}
}

// Only if an agent does not know its session is a message sent in a new one.
func TestUnknownSession(t *testing.T) {
	for text, unknown := range map[string]bool{
		"Resource not found: 0195":                           false, // but for its code
		"No previous sessions found for this project":        true,
		"Session 0195 not found":                             true,
		"no conversation found":                              true,
		"thread 0195 could not be found":                     true,
		"unknown session":                                    true,
		"model qwen3-coder not found":                        false,
		"the server that answers models was not found (404)": false,
		"429: no quota is left for this account":             false,
	} {
		if got := unknownSession(&CallError{Code: -32603, Message: text}); got != unknown {
			t.Errorf("%q: %t", text, got)
		}
	}
	if !unknownSession(&CallError{Code: codeNotFound, Message: "Resource not found: 0195"}) || unknownSession(errEnded) {
		t.Error("the code does not count, or another error does")
	}
}

// An agent may forget a session in which no turn was completed, as Gemini CLI does. It then begins another one.
func TestForgottenSession(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want agent.State
	}{{"FAIL", agent.Failed}, {"SLEEP:60", agent.Cancelled}, {"hello", agent.Done}} {
		r, state := simulated(t, simacp.Script{})
		session := uuid.NewString()
		a := start(t, r, session, mode.Mode{})
		id := send(t, r, a, tc.text)
		if tc.want == agent.Cancelled {
			must(t, a.Interrupt(t.Context(), id))
		}
		if p := endOf(t, a, id); p.State != tc.want {
			t.Errorf("%q is %s, want %s", tc.text, p.State, tc.want)
		}
		must(t, a.End(t.Context(), agent.Grace{EOF: time.Minute, Term: time.Minute}))
		must(t, os.Remove(filepath.Join(state, a.(*Agent).record.session+".jsonl")))
		next, err := r.Start(t.Context(), session, mode.Mode{})
		if began := err == nil; began != (tc.want != agent.Done) {
			t.Errorf("after %q: %v", tc.text, err)
		}
		if err == nil {
			endOf(t, next, send(t, r, next, "more"))
			must(t, next.Kill())
		}
		if turn, err := r.Turn(t.Context(), session, id); err != nil || !turn.Stored {
			t.Errorf("of %q the record has %+v, %v", tc.text, turn, err)
		}
	}
}

// After a failed message, one that may have been taken is not sent in another session.
func TestForgottenSessionOfAnOpenMessage(t *testing.T) {
	t.Parallel()
	r, state := simulated(t, simacp.Script{Die: []string{"recorded"}, Match: "dies"})
	session := uuid.NewString()
	a := start(t, r, session, mode.Mode{})
	endOf(t, a, send(t, r, a, "FAIL"))
	send(t, r, a, "dies")
	for range a.Events(t.Context()) {
	}
	must(t, os.Remove(filepath.Join(state, a.(*Agent).record.session+".jsonl")))
	if _, err := r.Start(t.Context(), session, mode.Mode{}); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("started: %v", err)
	}
}

// A line that was torn by a kill does not damage the lines after it.
func TestTornRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record")
	must(t, os.WriteFile(path, []byte(`{"session":"s"}`+"\n"+`{"begun":"m-`), 0o600))
	for range 2 {
		r, err := openRecord(path)
		must(t, err)
		must(t, r.add(entry{Begun: "m-1"}))
		r.close()
		if r, err = readRecord(path, nil); err != nil || r.session != "s" || !slices.Equal(r.open(), []string{"m-1"}) {
			t.Errorf("the record has %q in session %q, %v", r.open(), r.session, err)
		}
	}
}
