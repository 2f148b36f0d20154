package doctor

import "testing"

func TestRuntimeArgs(t *testing.T) {
	for command, want := range map[string]string{
		"claude --model sonnet":   "-- claude --model sonnet",
		"/opt/acpx/claude":        "-- /opt/acpx/claude",
		"opencode":                "--runtime opencode -- opencode",
		"http://127.0.0.1:4096":   "--runtime opencode --url http://127.0.0.1:4096",
		"/usr/bin/opencode acp":   "--runtime acp -- /usr/bin/opencode acp",
		"gemini --acp":            "--runtime acp -- gemini --acp",
		"codex-acp -c model=some": "--runtime acp -- codex-acp -c model=some",
	} {
		if got := runtimeArgs(command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
}
