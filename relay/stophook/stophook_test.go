package stophook

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"teambridge/teams/rawjson"
)

const hookTestCommand = "/usr/bin/teambridge hook stop"

// Whatever a settings file has in it, the hook is added once, and what was there is there
// again, byte for byte, when it is removed.
func FuzzHookFile(f *testing.F) {
	for _, s := range []string{
		"{}", "{}\n", "{ }", "", "[]", "{\"hooks\": 1}", "{\"hooks\": {\"Stop\": {}}}", `{"hooks":{},"hooks":{}}`,
		"{\n  \"permissions\": {\n    \"allow\": [\"Bash(ls:*)\"]\n  }\n}\n",
		"{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t]\n\t}\n}\n",
		"{\r\n  \"hooks\": {\r\n    \"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": []}]\r\n  },\r\n  \"model\": \"opus\"\r\n}\r\n",
		`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}`,
		`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"'/opt/a b/teambridge' hook stop --state-dir /x"}]}]}}`,
		`{"hooks":{"Stop":[null,{"hooks":7},{"hooks":[1,{"command":2}]}]}}`,
		`{"hooks": {} }`, `{"hooks": {"Stop":[ ]}}`, "{\"a\":1e3,\"a\":\"\\ud800\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const own = "/usr/bin/teambridge"
		before, err := parse(data, own)
		if err != nil {
			if got, _, err := install(data, own, hookTestCommand, made{}); err == nil {
				t.Fatalf("%q became %q", data, got)
			}
			if got, _, err := uninstall(data, own, made{Hooks: true, Stop: true}); err == nil {
				t.Fatalf("%q became %q", data, got)
			}
			return
		}
		old := bytes.Clone(data)
		got, m, err := install(data, own, hookTestCommand, made{})
		if err != nil || !bytes.Equal(data, old) {
			t.Fatalf("%q became %q: %v", old, data, err)
		}
		s, err := parse(got, own)
		if err != nil {
			t.Fatalf("%q became %q: %v", data, got, err)
		}
		had := len(before.hooks())
		if n := len(s.hooks()); n != max(had, 1) {
			t.Fatalf("%q became %q, with %d hooks", data, got, n)
		}
		if again, _, err := install(got, own, hookTestCommand, m); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("installed twice: %q, %v; once: %q", again, err, got)
		}
		back, _, err := uninstall(got, own, m)
		if err != nil {
			t.Fatal(err)
		}
		if had == 0 && !bytes.Equal(back, data) {
			t.Fatalf("removed again: %q, want %q", back, data)
		}
		if s, err := parse(back, own); err != nil || len(s.hooks()) > 0 {
			t.Fatalf("removed again: %q: %v", back, err)
		}
		if v := jsonOf(t, got); v != nil {
			if _, ok := v["hooks"].(map[string]any)[stopEvent].([]any); !ok {
				t.Fatalf("not a list of hooks: %q", got)
			}
		}
	})
}

// jsonOf decodes a settings file; nil if encoding/json does not take it.
func jsonOf(t testing.TB, data []byte) (v map[string]any) {
	t.Helper()
	if _, err := rawjson.Fields(data); err != nil {
		t.Fatalf("%q: %v", data, err)
	}
	if json.Unmarshal(data, &v) != nil {
		return nil
	}
	return v
}

// Claude Code writes its settings with JSON.stringify. The hook is found then too, and
// what was made for it is removed with it.
func TestHookInRewrittenSettings(t *testing.T) {
	t.Parallel()
	const own = "/usr/bin/teambridge"
	for name, tc := range map[string]struct{ before, after string }{
		"empty":          {`{}`, "{}"},
		"others":         {`{"model":"opus"}`, "{\n  \"model\": \"opus\"\n}"},
		"an empty event": {`{"hooks":{"Stop":[]}}`, "{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}"},
		"another hook": {`{"hooks":{"Stop":[{"hooks":[{"command":"x","type":"command"}]}]}}`,
			"{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\n            \"command\": \"x\",\n            \"type\": \"command\"\n          }\n        ]\n      }\n    ]\n  }\n}"},
	} {
		installed, m, err := install([]byte(tc.before), own, hookTestCommand, made{})
		if err != nil {
			t.Fatal(err)
		}
		rewritten, err := json.MarshalIndent(jsonOf(t, installed), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := uninstall(rewritten, own, m); err != nil || string(got) != tc.after {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, tc.after)
		}
	}
}

func TestHookProgram(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		"/usr/bin/teambridge hook stop":                           "/usr/bin/teambridge",
		"/usr/bin/teambridge hook stop || exit 1":                 "/usr/bin/teambridge",
		"/usr/bin/teambridge hook stop || exit 2":                 "",
		"'/opt/a b/teambridge' hook stop":                         "/opt/a b/teambridge",
		`'/opt/it'\''s/teambridge' hook stop --state-dir '/x y'`:  "/opt/it's/teambridge",
		"teambridge hook stop":                                    "teambridge",
		"'/x/teambridge.exe' hook stop":                           "/x/teambridge.exe",
		"/own/program hook stop":                                  "/own/program",
		"/usr/bin/other hook stop":                                "",
		"/usr/bin/teambridge hook stopped":                        "",
		"/usr/bin/teambridge hook install":                        "",
		"echo teambridge hook stop":                               "",
		"/usr/bin/teambridge hook stop; /usr/bin/other hook stop": "",
		"/usr/bin/teambridge hook stop && say done":               "",
	} {
		program, ours := programOf(command, "/own/program")
		if ours != (want != "") || ours && program != want {
			t.Errorf("%s: got %q, %v; want %q", command, program, ours, want)
		}
	}
	for _, path := range []string{"/usr/bin/teambridge", "/a b/it's/teambridge"} {
		if got, ok := programOf(Command(path), ""); !ok || got != path {
			t.Errorf("%s: got %q, %v", path, got, ok)
		}
	}
}

// A file that another program changes between reading and writing is not overwritten.
func TestFileThatHasChanged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "settings.json")
	for name, tc := range map[string]struct{ read, now, write []byte }{
		"changed":        {[]byte("{}"), []byte(`{"a":1}`), []byte(`{"hooks":{}}`)},
		"created":        {nil, []byte(`{}`), []byte(`{"hooks":{}}`)},
		"to be removed":  {[]byte("{}"), []byte(`{"a":1}`), nil},
		"created, empty": {nil, []byte{}, []byte(`{}`)},
	} {
		if err := os.WriteFile(path, tc.now, 0o600); err != nil {
			t.Fatal(err)
		}
		f := File{Path: path, data: tc.read}
		if err := f.replace(tc.write); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v, want %v", name, err, ErrChanged)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, tc.now) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.now)
		}
	}
}
