package qwen_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"teambridge/relay/qwen"
	"teambridge/teams/errtest"
	"teambridge/teams/transcript"
)

const sample = "../../testdata/qwen-0.24.4/chat.jsonl"

var must = errtest.Must

func TestParse(t *testing.T) {
	t.Parallel()
	var kinds []qwen.Kind
	var texts []string
	for line, err := range (&transcript.Tail{Path: sample}).Lines() {
		must(t, err)
		e, ok := qwen.Parse(line)
		if !ok {
			continue
		}
		if e.At.Year() != 2026 {
			t.Errorf("%s: the time is %s", line, e.At)
		}
		kinds = append(kinds, e.Kind)
		if e.Kind == qwen.Mail || e.Kind == qwen.Ended {
			text, _, _ := strings.Cut(e.Text, "\n")
			texts = append(texts, text[:min(len(text), 50)])
		}
	}
	if want := []qwen.Kind{qwen.Begun, qwen.Ended, qwen.Mail, qwen.Ended, qwen.Begun, qwen.Worked, qwen.Worked, qwen.Ended}; !reflect.DeepEqual(kinds, want) {
		t.Errorf("the kinds are %v, want %v", kinds, want)
	}
	if len(texts) != 4 || !strings.HasPrefix(texts[1], "[teambridge 0123456789ab] look at &lt;main.go>") || texts[3] != "done" {
		t.Errorf("the texts are %q", texts)
	}
	for line, want := range map[string]qwen.Kind{
		`{"type":"user","subtype":"mid_turn_user_message","message":{"parts":[{"text":"typed"}]}}`:                      0,
		`{"type":"user","subtype":"notification","message":{"parts":[{"text":"a task has ended"}]}}`:                    qwen.Begun,
		`{"type":"assistant","message":{"parts":[{"text":"hm","thought":true},{"functionCall":{"name":"x"}}]}}`:         qwen.Worked,
		`{"type":"system","subtype":"ui_telemetry","systemPayload":{"uiEvent":{"event.name":"qwen-code.api_error"}}}`:   qwen.Failed,
		`{"type":"system","subtype":"slash_command","systemPayload":{"rawCommand":"<cross_session_message api_error"}}`: 0,
		`{"type":"user","message":{"parts":"text"}}`:                                                                    0,
		`{`: 0,
	} {
		if e, ok := qwen.Parse([]byte(line)); e.Kind != want || ok != (want != 0) {
			t.Errorf("%s: %d, %t", line, e.Kind, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile(sample)
	must(f, err)
	for line := range strings.Lines(string(data)) {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if e, ok := qwen.Parse(line); ok != (e.Kind != 0) || e.Text != "" && e.Kind != qwen.Mail && e.Kind != qwen.Ended {
			t.Errorf("%q: %+v, %t", line, e, ok)
		}
	})
}

func TestHome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ home, user, want string }{
		{"", "/home/ann", "/home/ann/.qwen"}, {"/q", "/home/ann", "/q"}, {"relative", "/home/ann", "/home/ann/.qwen"}, {"", "", ""},
	} {
		got := qwen.Home(func(name string) (string, bool) {
			v := map[string]string{"QWEN_HOME": c.home, "HOME": c.user}[name]
			return v, v != ""
		})
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// The chats of a directory that changed recently are found in the folder that Qwen Code makes for it.
func TestRecent(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	folder := filepath.Join(home, "projects", "-home-ann-my-work", "chats")
	must(t, os.MkdirAll(folder, 0o700))
	now := time.Now()
	for name, at := range map[string]time.Time{"old.jsonl": now.Add(-time.Hour), "new.jsonl": now, "new.json": now} {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, at, at))
	}
	got := qwen.Recent(home, "/home/ann/my_work", now.Add(-time.Minute))
	if len(got) != 1 || filepath.Base(got[0]) != "new.jsonl" || !qwen.IsChat(got[0]) {
		t.Errorf("got %q", got)
	}
	if path, ok := qwen.Chat(home, "/home/ann/my_work", "new"); !ok || path != got[0] {
		t.Errorf("the chat is %s, %t", path, ok)
	}
}
