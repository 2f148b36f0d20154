package interop

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// The examples of query with real agents of both kinds: a question, a follow-up through the
// channel after a line that is bad, and the session that is resumed.
func TestRealQueryCommand(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, kind string, program func(*standin.Home) []string) {
		t.Parallel()
		home := standin.NewHome(t, standin.StartAPI(t, func(ctx context.Context, r standin.Request) standin.Answer {
			for question, answer := range map[string]string{"What is 2 + 2?": "4", "And 3 + 3?": "6", "And 4 + 4?": "8"} {
				if !r.Side && r.Has(question) {
					return standin.Answer{Text: answer}
				}
			}
			return standin.Script(ctx, r)
		}))
		command := program(home)
		state := filepath.Join(t.TempDir(), "state")
		query := func(status int, stdin string, args ...string) (lines []map[string]any, result map[string]any) {
			t.Helper()
			cmd := exec.Command(own(t), append(append([]string{"query"}, args...), command...)...)
			cmd.Dir, cmd.Env, cmd.Stdin = home.Work, append(home.Env(), "TEAMBRIDGE_STATE="+state, "GORACE=atexit_sleep_ms=0"), strings.NewReader(stdin)
			got, out, errs := outcome(t, cmd)
			if got != status {
				t.Errorf("exit status %d, want %d\n%s%s", got, status, out, errs)
			}
			for line := range strings.Lines(out) {
				l := decoded[map[string]any](t, line)
				lines = append(lines, l)
			}
			return lines, lines[len(lines)-1]
		}
		object := func(v map[string]any) string {
			v["architecture"], v["cwd"] = kind, home.Work
			data, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			return string(data) + "\n"
		}
		lines, result := query(2, object(map[string]any{"prompt": "What is 2 + 2?", "streamingInput": true})+"{\"text\": bad}\n{\"text\": \"And 3 + 3?\"}\n", "--")
		if result["type"] != "result" || result["text"] != "6" || result["status"] != "completed" || result["turns"] != 2.0 {
			t.Errorf("got %v", result)
		}
		var texts []string
		bad := 0
		for _, l := range lines {
			if ev, ok := l["ev"].(map[string]any); ok && ev["t"] == "text" {
				texts = append(texts, ev["text"].(string))
			}
			if l["type"] == "error" {
				bad++
				if l["line"] != 2.0 {
					t.Errorf("got %v", l)
				}
			}
		}
		if got := strings.Join(texts, "|"); got != "What is 2 + 2?|4|And 3 + 3?|6" || bad != 1 {
			t.Errorf("got %s, %d errors", got, bad)
		}
		_, again := query(0, object(map[string]any{"prompt": "And 4 + 4?", "sessionId": result["sessionId"]}), "--")
		if again["text"] != "8" || again["sessionId"] != result["sessionId"] {
			t.Errorf("got %v", again)
		}
	}
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		test(t, "claude", func(*standin.Home) []string { return standin.Require(t, v) })
	})
	t.Run("opencode", func(t *testing.T) {
		test(t, "opencode", func(home *standin.Home) []string { return []string{home.OpenCode(t)} })
	})
}
