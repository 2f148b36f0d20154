package session

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"teambridge/relay/wire"
)

// FuzzLines: any output and any transcript become valid envelopes, and nothing begins or ends
// twice.
func FuzzLines(f *testing.F) {
	for _, name := range []string{"claude-2.1.80/transcript.jsonl", "claude-2.1.329/transcript.jsonl", "claude-2.1.329/subagents/agent-aworker-a1e744e97229d791.jsonl"} {
		data, err := os.ReadFile(filepath.Join(fixtures, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 20_000)])
	}
	for _, lines := range [][]string{
		{isInit, echo("f1", "hello"), says("a1", `{'type':'tool_use','id':'c1','name':'Task','input':{'description':'x'}}`), isDone},
		{lifecycle("f1", "started"), isInit, `{'type':'assistant','uuid':'a','parent_tool_use_id':'c1','message':{'content':[{'type':'text','text':'\ud800'}]}}`},
		{echo("f1", "<command-name>/x</command-name>"), `{'type':'system','subtype':'local_command','uuid':'u','content':'<local-command-stdout>x'}`},
		{echo("f1", "<task-notification><tool-use-id>c1</tool-use-id>"), `{'type':'attachment','attachment':{'type':'queued_command','prompt':[]}}`},
	} {
		var all []byte
		for _, l := range lines {
			all = append(append(all, quoted(l)...), '\n')
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a := New()
		var printed []wire.Envelope
		for line := range bytes.Lines(data) {
			if bytes.Contains(line, []byte(`"content":"`)) {
				send(a, line)
			}
			printed = append(printed, tells(a, line)...)
		}
		left, err := a.End(start, nil)
		must(t, err)
		for _, e := range append(printed, left...) {
			if _, err := e.MarshalJSON(); err != nil {
				t.Errorf("%s: %v", shown(e), err)
			}
		}
		path := filepath.Join(t.TempDir(), "s.jsonl")
		must(t, os.WriteFile(path, data, 0o600))
		for _, e := range read(t, path, Options{Gone: true}) {
			if _, err := e.MarshalJSON(); err != nil {
				t.Errorf("%s: %v", shown(e), err)
			}
		}
	})
}
