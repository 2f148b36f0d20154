package relay

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/acp"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/model"
	"teambridge/relay/relaytest/standin"
)

// The real Qwen Code, by ACP.
func TestRealConformanceQwenByACP(t *testing.T) {
	t.Parallel()
	standin.RequireQwen(t)
	conformsByACP(t, true, func(t *testing.T) *subject {
		var chats string
		s := realACP(t, func(home *standin.Home) []string {
			chats = filepath.Join(home.Dir, ".qwen", "projects", "*", "chats", "*.jsonl")
			return append(home.Qwen(t, nil), "--acp")
		})
		// It records a message some milliseconds after its model has it. After a kill in between, the model is asked twice.
		s.held = func() bool {
			found, _ := filepath.Glob(chats) // the pattern is right
			return slices.ContainsFunc(found, func(chat string) bool {
				data, err := os.ReadFile(chat)
				return err == nil && bytes.Contains(data, []byte("[held]"))
			})
		}
		return s
	})
}

// The real OpenCode, by ACP.
func TestRealConformanceOpenCodeByACP(t *testing.T) {
	t.Parallel()
	standin.RequireOpenCode(t)
	conformsByACP(t, false, func(t *testing.T) *subject {
		s := realACP(t, func(home *standin.Home) []string { return []string{home.OpenCode(t), "acp"} })
		s.calm = func(kill func()) { kill() } // it records a prompt before its model has it
		return s
	})
}

// The real Codex, by ACP.
func TestRealConformanceCodexByACP(t *testing.T) {
	t.Parallel()
	conformsByACP(t, true, func(t *testing.T) *subject {
		s := realACP(t, func(home *standin.Home) []string { return home.CodexACP(t) })
		s.modes[0] = mode.Mode{PermissionMode: mode.Set("acceptEdits")} // it has no plan mode
		s.calm = func(kill func()) { kill() }                           // it records a prompt before its model has it
		return s
	})
}

// The real Gemini CLI, by ACP. It does not pass the suite: 0.61.0 removes a session that was loaded before when it starts again.
func TestRealGeminiByACP(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T, *subject){"an id is run once": conformsIDs, "an interrupt": conformsInterrupt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := realACP(t, func(home *standin.Home) []string { return home.GeminiACP(t) })
			s.record()
			test(t, s)
		})
	}
}

// The real Claude Code, by ACP.
func TestRealConformanceClaudeByACP(t *testing.T) {
	t.Parallel()
	conformsByACP(t, true, func(t *testing.T) *subject {
		return realACP(t, func(home *standin.Home) []string { return home.ClaudeACP(t) })
	})
}

// conformsByACP runs the whole suite if rounds of kills are requested: a real program takes seconds to start. proves
// says that the agent's own record proves the end of a turn.
func conformsByACP(t *testing.T, proves bool, newSubject func(*testing.T) *subject) {
	t.Run("its record proves an end", func(t *testing.T) { conformsProof(t, newSubject(t), proves) })
	if os.Getenv(envRounds) != "" {
		Conformance(t, newSubject)
		return
	}
	t.Run("an id is run once", func(t *testing.T) { conformsIDs(t, newSubject(t)) })
}

func realACP(t *testing.T, program func(*standin.Home) []string) *subject {
	var api *model.API
	s := realSubject(t, func(home *standin.Home) otherAgent {
		api = home.API
		command := program(home)
		return otherAgent{ACP: &acp.Options{Command: command, Env: home.Env()}}
	})
	s.ends, s.modes = true, []mode.Mode{{PermissionMode: mode.Set("plan")}, {}}
	// Qwen Code and Gemini join a cut message with the nudge that follows it into one text.
	s.answered = func(marker string) (n int) {
		for _, r := range api.Log() {
			if !r.Side && !r.Answered.IsZero() && r.Has(marker) && !r.Has(Nudge) {
				n++
			}
		}
		return n
	}
	s.held = func() bool { return s.given("[held]") > 0 }
	return s
}

// If this process is killed after the end of a turn that it has not noticed, the agent's own record proves the end.
func conformsProof(t *testing.T, s *subject, proves bool) {
	runtime, session, id := s.options().Runtime, uuid.NewString(), uuid.NewString()
	line, err := runtime.Encode(id, "hello [m-1]")
	must(t, err)
	a, err := runtime.Start(t.Context(), session, mode.Mode{})
	must(t, err)
	t.Cleanup(func() { _ = a.Kill() })
	must(t, a.Send(t.Context(), line))
	if got := ending(t, a, id); got != agent.Done {
		t.Errorf("the message is %v", got)
	}
	must(t, a.End(t.Context(), agent.Grace{EOF: time.Minute, Term: time.Minute}))

	record := filepath.Join(s.dir, "state", "acp", session, "record")
	data, err := os.ReadFile(record)
	must(t, err)
	heard, _, found := bytes.Cut(data, []byte(`"t":"turn-end"`))
	if !found {
		t.Fatalf("our record does not tell of the end: %s", data)
	}
	must(t, os.WriteFile(record, heard[:bytes.LastIndexByte(heard, '\n')+1], 0o600))
	turn, err := runtime.Turn(t.Context(), session, id)
	if err != nil || !turn.Stored || turn.Finished != proves || (turn.Text == "") == proves {
		t.Errorf("the conversation has %+v, %v; proved: %t", turn, err, proves)
	}
}
