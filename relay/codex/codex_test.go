package codex

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"teambridge/teams/errtest"
)

const (
	sampleID = "01a21668-a350-7e63-9362-f37f660ae85c"
	sample   = "../../testdata/codex-0.169.0/rollout-2026-11-26T05-51-26-" + sampleID + ".jsonl"
)

var must = errtest.Must

// A captured transcript is read: a prompt, a message while it was idle, one while it worked, an interrupted turn with
// a message that is lost, and another message.
func TestParse(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(sample)
	must(t, err)
	var kinds []Kind
	turns := map[string]bool{}
	for line := range bytes.Lines(data) {
		if e, ok := Parse(line); ok {
			if e.Turn != "" {
				turns[e.Turn] = true
			}
			if e.At.IsZero() || (e.Kind == Mail) != strings.Contains(e.Text, "<teambridge-message ") {
				t.Errorf("%+v", e)
			}
			if last := len(kinds) - 1; last >= 0 && e.Kind == kinds[last] && (e.Kind == Worked || e.Kind == Mail) {
				continue // several lines of one record
			}
			kinds = append(kinds, e.Kind)
		}
	}
	want := []Kind{Begun, Worked, Ended, Begun, Mail, Worked, Ended, Begun, Worked, Mail, Worked, Ended, Begun, Aborted, Begun, Mail, Worked, Ended}
	if !reflect.DeepEqual(kinds, want) || len(turns) != 5 {
		t.Errorf("%d turns: %v\nwant %v", len(turns), kinds, want)
	}
}

// Only the output of our tool is a message, whatever a prompt or an answer says.
func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(sample)
	must(f, err)
	for line := range bytes.Lines(data) {
		f.Add(line)
	}
	f.Add([]byte(`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"UserMessage","namespace":"teambridge","output":"x"}}}`))
	f.Add([]byte(`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"FunctionCallOutput","namespace":"other","output":"x"}}}`))
	f.Add([]byte(`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"FunctionCallOutput","namespace":"teambridge","output":["x"]}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, ok := Parse(line)
		if ok && (e.Kind < Begun || e.Kind > Worked || e.Turn == "" && e.Kind != Mail) {
			t.Errorf("%+v", e)
		}
		if ok && e.Kind == Mail && !strings.HasPrefix(e.Text, Queued) && !bytes.Contains(line, []byte("FunctionCallOutput")) && !bytes.Contains(line, []byte("function_call_output")) && !bytes.Contains(line, []byte(`\u`)) {
			t.Errorf("%s is taken for a message", line)
		}
	})
}

// A queued message is recognized in each of its two lines, and a typed prompt is not a message.
func TestParseQueued(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"TEXT"}]}}`:                                                     true,
		`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"UserMessage","client_id":"1","content":[{"type":"text","text":"TEXT"}]}}}`:          true,
		`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"UserMessage","content":[{"type":"text","text":"TEXT"}]}}}`:                          false,
		`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"AgentMessage","content":[{"type":"Text","text":"TEXT"}]}}}`:                         false,
		`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"UserMessage","client_id":"1","content":[{"type":"text","text":"he said: TEXT"}]}}}`: false,
		`{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"TEXT"}]}}`:                                               false,
		`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"UserMessage","client_id":"1","content":"TEXT"}}}`:                                   false,
		`{"type":"event_msg","payload":{"type":"item_completed","turn_id":"a","item":{"type":"UserMessage","client_id":"1","content":[{"text":"TEXT"},{"text":"and more"}]}}}`:    false,
	} {
		text, err := json.Marshal(Queued + "hello")
		must(t, err)
		line = strings.ReplaceAll(line, "TEXT", strings.Trim(string(text), `"`))
		if e, ok := Parse([]byte(line)); (ok && e.Kind == Mail) != want || want && e.Text != Queued+"hello" {
			t.Errorf("%s: %t, %+v", line, ok, e)
		}
	}
}

// The transcript is found by its id, in whatever time zone it began, and never outside the directory.
func TestRollout(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "a[b]*")
	at, ok := begun(sampleID)
	if want := time.Date(2026, 11, 26, 5, 51, 26, 0, time.UTC); !ok || at.Truncate(time.Second) != want {
		t.Fatalf("it began at %v", at)
	}
	path := filepath.Join(home, "sessions", "2026", "11", "25", filepath.Base(sample))
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, nil, 0o600))
	if got, ok := Rollout(home, sampleID); !ok || got != path {
		t.Errorf("found %s", got)
	}
	for _, id := range []string{"", "../../x", strings.Repeat("*", 36), "01a21668-a350-4e63-9362-f37f660ae85c", sampleID + "a"} {
		if got, ok := Rollout(home, id); ok {
			t.Errorf("%q has %s", id, got)
		}
	}
}

// Home is $CODEX_HOME if that is absolute, else .codex in the home directory.
func TestHome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ codex, home, want string }{
		{"/x", "/home/ann", "/x"}, {"", "/home/ann", "/home/ann/.codex"}, {"relative", "/home/ann", "/home/ann/.codex"}, {"", "", ""},
	} {
		env := map[string]string{"CODEX_HOME": c.codex, "HOME": c.home}
		if got := Home(func(name string) (string, bool) { v, ok := env[name]; return v, ok }); filepath.ToSlash(got) != c.want && filepath.IsAbs("/x") {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
