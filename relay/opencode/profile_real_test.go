package opencode_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/opencode"
	"teambridge/relay/profile"
)

// An agent has the prompt, the model and exactly the tools of its profile, whatever the user's
// configuration allows. Its file is read again at each start.
func TestRealProfile(t *testing.T) {
	t.Parallel()
	o, home := real(t)
	config := filepath.Join(home.Dir, ".config", "opencode", "opencode.json")
	data, err := os.ReadFile(config)
	must(t, err)
	data = append([]byte(`{"permission": {"*": "allow", "edit": "allow", "webfetch": "allow"},`), strings.TrimPrefix(string(data), "{")...)
	must(t, os.WriteFile(config, data, 0o600))
	path := filepath.Join(home.Root, "agents", "any.md")
	put := func(lines ...string) {
		t.Helper()
		text := "---\nname: reviewer\ndescription: Reviews changes\n" + strings.Join(lines, "\n") + "\n"
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	o.Profile = profile.Ref{Name: "reviewer", Dir: o.Dir, Root: home.Root}
	r := opencode.New(o)
	t.Cleanup(func() { _ = r.Close() })
	turn := func(prompt, model string, tools ...string) {
		t.Helper()
		a := start(t, r, mode.Mode{})
		if p := say(t, a, "hello"); p.State != agent.Done {
			t.Fatalf("turn: %+v", p)
		}
		must(t, a.Kill())
		log := home.API.Log()
		asked := log[len(log)-1]
		slices.Sort(asked.Tools)
		if !strings.Contains(asked.System, prompt) || asked.Model != model || !slices.Equal(asked.Tools, tools) {
			t.Errorf("the model %s was asked with the tools %q and the prompt %.200q…; want %s, %q and %q", asked.Model, asked.Tools, asked.System, model, tools, prompt)
		}
	}
	put("tools: Read, Bash(git log:*)", "model: standin/opus", "---", "PROMPT one")
	turn("PROMPT one", "opus", "bash", "read")
	put("tools: [Grep]", "model: haiku", "---", "PROMPT two") // a model of Claude Code's
	turn("PROMPT two", "sonnet", "grep")

	must(t, os.Remove(path))
	_, err = r.Start(t.Context(), "aaaaaaaa-0000-4000-8000-000000000000", mode.Mode{})
	if missing, ok := errors.AsType[*profile.NotFoundError](err); !ok || !slices.Contains(missing.Dirs, filepath.Dir(path)) {
		t.Errorf("start without the profile: %v", err)
	}
	o.URL = "http://127.0.0.1:1"
	if _, err := opencode.New(o).Start(t.Context(), "aaaaaaaa-0000-4000-8000-000000000000", mode.Mode{}); !errors.Is(err, agent.ErrRefused) {
		t.Errorf("a server that runs already: %v", err)
	}
}
