package transcript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAsked(t *testing.T) {
	t.Parallel()
	const (
		prompt = `{"type":"user","uuid":"u","message":{"role":"user","content":"do it"}}`
		bash   = `{"type":"assistant","uuid":"a","message":{"content":[{"type":"tool_use","id":"1","name":"Bash","input":{"command":"touch x"}}]}}`
		read   = `{"type":"assistant","uuid":"b","message":{"content":[{"type":"tool_use","id":"2","name":"Read","input":{"file_path":"x"}}]}}`
		agent  = `{"type":"assistant","uuid":"c","message":{"content":[{"type":"tool_use","id":"3","name":"Agent","input":{}}]}}`
		result = `{"type":"user","uuid":"r","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"2","content":"x"}]}}`
		ran    = `{"type":"user","uuid":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":""}]}}`
		stop   = `{"type":"user","uuid":"i","message":{"role":"user","content":"[Request interrupted by user for tool use]"}}`
		peer   = `{"type":"user","uuid":"p","isMeta":true,"origin":{"kind":"peer","msg_id":"m"},"message":{"role":"user","content":"Another session wrote:"}}`
		other  = `{"type":"system","uuid":"y","content":"z"}`
	)
	for _, c := range []struct {
		what  string
		lines []string
		want  string
	}{
		{"one", []string{prompt, bash, other}, "Bash"},
		{"after one with a result", []string{prompt, read, result, bash}, "Bash"},
		{"before one with a result", []string{prompt, bash, read, result}, "Bash"},
		{"several", []string{prompt, bash, read}, ""},
		{"none any more", []string{prompt, bash, ran}, ""},
		{"one of an earlier turn", []string{prompt, bash, prompt}, ""},
		{"one that was interrupted", []string{prompt, bash, stop}, ""},
		{"one before the turn of another session's message", []string{prompt, bash, peer}, ""},
		{"that of a subagent, perhaps", []string{prompt, agent}, ""},
		{"none", nil, ""},
	} {
		path := filepath.Join(t.TempDir(), "s.jsonl")
		must(t, os.WriteFile(path, []byte(strings.Join(c.lines, "\n")+"\n"), 0o600))
		if got, ok := Asked(path); got.Name != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t, want %q", c.what, got.Name, ok, c.want)
		}
	}
	if got, ok := Asked(filepath.Join(t.TempDir(), "none")); ok {
		t.Errorf("without a transcript: %+v", got)
	}
}
