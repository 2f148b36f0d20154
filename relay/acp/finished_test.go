package acp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"teambridge/teams/transcript"
)

// A record proves the end of a message's turn, unless the turn is open, failed or interrupted, or is another one.
func TestFinished(t *testing.T) {
	t.Parallel()
	const (
		session = "01a226d7-260b-76d3-89e1-20a3fa35c5ce"
		ours    = "b88491e0-a970-4c51-a514-8c5aa2c70104"
		other   = "f8a02c6c-1bd8-442e-bd29-c1ca810959d5"
	)
	// Lines as the programs write them, without the fields that are ignored.
	codex := map[string]string{
		"prompt":  `{"type":"event_msg","payload":{"type":"task_started","turn_id":"ID"}}` + "\n" + `{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"[message ID]\nhello"}]}}`,
		"quoted":  `{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"[message ID]\nhello"}]}}`,
		"answer":  `{"type":"event_msg","payload":{"type":"agent_message","message":"done"}}`,
		"end":     `{"type":"event_msg","payload":{"type":"task_complete","turn_id":"ID","last_agent_message":"done"}}`,
		"failure": `{"type":"event_msg","payload":{"type":"task_complete","turn_id":"ID","last_agent_message":null}}`,
		"stop":    `{"type":"event_msg","payload":{"type":"turn_aborted","turn_id":"ID","reason":"interrupted"}}`,
	}
	qwen := map[string]string{
		"prompt":  `{"uuid":"u-ID","type":"user","message":{"role":"user","parts":[{"text":"[message ID]\nhello"}]}}`,
		"quoted":  `{"uuid":"q-ID","type":"user","message":{"role":"user","parts":[{"text":"of [message ID]\nhello"}]}}`,
		"call":    `{"uuid":"c-ID","type":"assistant","message":{"role":"model","parts":[{"text":"[message ID]\n"},{"functionCall":{"name":"x"}}]}}`,
		"answer":  `{"uuid":"a-ID","type":"assistant","message":{"role":"model","parts":[{"text":"done"}]}}`,
		"end":     `{"uuid":"e-ID","type":"system","subtype":"branch_checkpoint","systemPayload":{"v":1,"assistantRecordUuid":"a-ID"}}`,
		"failure": `{"uuid":"f-ID","type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_error"}}}`,
		"stop":    `{"uuid":"e-ID","type":"system","subtype":"branch_checkpoint","systemPayload":{"v":1,"assistantRecordUuid":"c-ID"}}`,
	}
	claude := map[string]string{
		"prompt":  `{"uuid":"u-ID","type":"user","message":{"role":"user","content":[{"type":"text","text":"[message ID]\nhello"}]}}`,
		"quoted":  `{"uuid":"q-ID","type":"user","message":{"role":"user","content":"of [message ID]\nhello"}}`,
		"call":    `{"uuid":"c-ID","parentUuid":"u-ID","type":"assistant","message":{"stop_reason":"tool_use","content":[{"type":"text","text":"[message ID]\n"}]}}`,
		"end":     `{"uuid":"a-ID","parentUuid":"u-ID","type":"assistant","message":{"stop_reason":"end_turn","content":[{"type":"text","text":"done"}]}}`,
		"failure": `{"uuid":"f-ID","parentUuid":"u-ID","type":"assistant","isApiErrorMessage":true,"message":{"stop_reason":"stop_sequence","content":[{"type":"text","text":"API Error: 400"}]}}`,
		"stop":    `{"uuid":"i-ID","parentUuid":"u-ID","type":"user","message":{"content":[{"type":"text","text":"[Request interrupted by user]"}]}}` + "\n" + `{"uuid":"n-ID","parentUuid":"i-ID","type":"assistant","message":{"model":"<synthetic>","stop_reason":"stop_sequence","content":[{"type":"text","text":"No response requested."}]}}`,
	}
	dir := t.TempDir()
	home := t.TempDir()
	o := Options{Dir: dir, Env: []string{"CODEX_HOME=" + home, "QWEN_HOME=" + home, "CLAUDE_CONFIG_DIR=" + home}}
	for _, agent := range []struct {
		name  string
		path  string
		lines map[string]string
	}{
		{"codex", "sessions/2026/11/29/rollout-2026-11-29T10-26-03-" + session + ".jsonl", codex},
		{"qwen", "projects/" + transcript.Slug(dir) + "/chats/" + session + ".jsonl", qwen},
		{"claude", "projects/" + transcript.Slug(dir) + "/" + session + ".jsonl", claude},
	} {
		finished := programOf([]string{agent.name}, "").finished
		if _, ok := finished(o, session, ours); ok {
			t.Errorf("%s: proved without a record", agent.name)
		}
		for _, tc := range []struct {
			ours, other string // their lines, one after the other
			want        bool
		}{
			{"prompt", "", false},
			{"prompt quoted call", "", false},
			{"prompt answer", "", false},
			{"prompt call answer end", "", true},
			{"prompt call answer end", "prompt call", true},
			{"prompt call", "prompt answer end", false},
			{"prompt failure", "prompt answer end", false},
			{"prompt call stop", "prompt answer end", false},
			{"quoted", "prompt answer end", false},
		} {
			var text strings.Builder
			for i, words := range []string{tc.ours, tc.other} {
				for _, word := range strings.Fields(words) {
					if line := agent.lines[word]; line != "" {
						text.WriteString(strings.ReplaceAll(line, "ID", []string{ours, other}[i]) + "\n")
					}
				}
			}
			path := filepath.Join(home, agent.path)
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(path, []byte(text.String()), 0o600))
			if answer, got := finished(o, session, ours); got != tc.want || got && answer != "done" {
				t.Errorf("%s, %s; then %s: got %q, %t, want %t", agent.name, tc.ours, tc.other, answer, got, tc.want)
			}
		}
	}
}
