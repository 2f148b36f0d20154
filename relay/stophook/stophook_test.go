package stophook

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"teambridge/teams/rawjson"
)

var hookTestCommands = Commands{Stop: "/usr/bin/teambridge hook stop", Wait: "/usr/bin/teambridge hook wait"}

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
		`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/usr/bin/teambridge hook wait --pid \"$PPID\" || [ $? -ne 42 ] || exit 2"}]}]}}`,
		`{"hooks":{"SessionStart":[],"UserPromptSubmit":[{"hooks":[{"command":"x"}]}]}}`, `{"hooks":{"SessionStart":{}}}`,
		`{"hooks": {} }`, `{"hooks": {"Stop":[ ]}}`, "{\"a\":1e3,\"a\":\"\\ud800\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const own = "/usr/bin/teambridge"
		// count returns how many hooks there are of each kind, or an error.
		count := func(data []byte) (n [4]int, err error) {
			for i, h := range all {
				s, err := parse(data, own, h)
				if err != nil {
					return n, err
				}
				n[i] = len(s.hooks())
			}
			return n, nil
		}
		had, err := count(data)
		if err != nil {
			if got, _, err := installAll(data, own, hookTestCommands, made{}); err == nil {
				t.Fatalf("%q became %q", data, got)
			}
			if got, _, err := uninstallAll(data, own, made{part: part{Hooks: true, Stop: true}}); err == nil {
				t.Fatalf("%q became %q", data, got)
			}
			return
		}
		old := bytes.Clone(data)
		// At once, or the waiting hook later.
		first, m, err := installAll(data, own, Commands{Stop: hookTestCommands.Stop}, made{})
		if err != nil {
			t.Fatal(err)
		}
		later, _, err := installAll(first, own, hookTestCommands, m)
		if err != nil {
			t.Fatal(err)
		}
		got, m, err := installAll(data, own, hookTestCommands, made{})
		if err != nil || !bytes.Equal(data, old) || !bytes.Equal(got, later) {
			t.Fatalf("%q became %q: %v; in two steps: %q", old, data, err, later)
		}
		n, err := count(got)
		if err != nil {
			t.Fatalf("%q became %q: %v", data, got, err)
		}
		for i := range n {
			if n[i] != max(had[i], 1) {
				t.Fatalf("%q became %q, with %d hooks", data, got, n)
			}
		}
		if again, _, err := installAll(got, own, hookTestCommands, m); err != nil || !bytes.Equal(again, got) {
			t.Fatalf("installed twice: %q, %v; once: %q", again, err, got)
		}
		if again, kept, err := installAll(got, own, Commands{Stop: hookTestCommands.Stop}, m); err != nil || !bytes.Equal(again, got) || !reflect.DeepEqual(kept, m) {
			t.Fatalf("the Stop hook alone, after both: %q, %+v, %v; both: %q, %+v", again, kept, err, got, m)
		}
		back, _, err := uninstallAll(got, own, m)
		if err != nil {
			t.Fatal(err)
		}
		if had == [4]int{} && !bytes.Equal(back, data) {
			t.Fatalf("removed again: %q, want %q", back, data)
		}
		if n, err := count(back); err != nil || n != [4]int{} {
			t.Fatalf("removed again: %q: %v", back, err)
		}
		if v := jsonOf(t, got); v != nil {
			if _, ok := v["hooks"].(map[string]any)["Stop"].([]any); !ok {
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
		installed, m, err := installAll([]byte(tc.before), own, hookTestCommands, made{})
		if err != nil {
			t.Fatal(err)
		}
		rewritten, err := json.MarshalIndent(jsonOf(t, installed), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := uninstallAll(rewritten, own, m); err != nil || string(got) != tc.after {
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
		program, ours := stop.programOf(command, "/own/program")
		if ours != (want != "") || ours && program != want {
			t.Errorf("%s: got %q, %v; want %q", command, program, ours, want)
		}
	}
	for _, path := range []string{"/usr/bin/teambridge", "/a b/it's/teambridge"} {
		c, unasked := CommandsOf(path, "--state-dir", "/x y"), CommandsOf(path, "--state-dir", "/x y", Unasked)
		if unasked.Stop != c.Stop || unasked.Wait == c.Wait {
			t.Errorf("unasked, they are %+v", unasked)
		}
		for command, h := range map[string]hook{c.Stop: stop, c.Wait: waiting[1], unasked.Wait: waiting[2]} {
			if got, ok := h.programOf(command, ""); !ok || got != path {
				t.Errorf("%s: got %q, %v", command, got, ok)
			}
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
		if err := f.Replace(tc.write); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %v, want %v", name, err, ErrChanged)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, tc.now) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tc.now)
		}
	}
}

// The plugin has all hooks, where it is on. The settings of a project go before those of the user.
func TestInstalledByPlugin(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".claude"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := Files(root, dir)
	for _, c := range []struct {
		user, project string
		want          bool
	}{
		{`{}`, `{}`, false},
		{`{"enabledPlugins": {"teambridge@teambridge": true}}`, `{}`, true},
		{`{"enabledPlugins": {"teambridge@teambridge": false}}`, `{}`, false},
		{`{"enabledPlugins": {"other@teambridge": true}}`, `{"enabledPlugins": []}`, false},
		{`{"enabledPlugins": {"teambridge@teambridge": true}}`, `{"enabledPlugins": {"teambridge@teambridge": false}}`, false},
		{`{`, `{"enabledPlugins": {"teambridge@teambridge": true}}`, true},
	} {
		for i, text := range []string{c.user, c.project} {
			if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if Installed(root, dir) != c.want || Waiting(root, dir) != c.want {
			t.Errorf("user %s, project %s: installed %t, waiting %t", c.user, c.project, Installed(root, dir), Waiting(root, dir))
		}
	}
}
