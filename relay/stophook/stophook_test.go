package stophook

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"teambridge/teams/errtest"
	"teambridge/teams/rawjson"
)

const hookTestProgram = "/usr/bin/teambridge"

var must = errtest.Must

// add is Add for the program of the tests.
func add(data []byte, wait bool, was []rawjson.Made) ([]byte, []rawjson.Made, error) {
	return Add(data, hookTestProgram, hookTestProgram, nil, wait, was)
}

// For any settings file, the hook is added once, and after its removal the file is the same
// again, byte for byte.
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
		// count returns how many hooks there are of each kind, or an error.
		count := func(data []byte) (n [5]int, err error) {
			for i, h := range all {
				found, err := h.in(data, hookTestProgram)
				if err != nil {
					return n, err
				}
				n[i] = len(found)
			}
			return n, nil
		}
		had, err := count(data)
		if err != nil {
			if got, _, err := add(data, true, nil); err == nil {
				t.Fatalf("%q became %q", data, got)
			}
			if got, err := Remove(data, hookTestProgram, nil); err == nil {
				t.Fatalf("%q became %q", data, got)
			}
			return
		}
		old := bytes.Clone(data)
		// Both at once, or the waiting hook later.
		first, m, err := add(data, false, nil)
		must(t, err)
		later, _, err := add(first, true, m)
		must(t, err)
		got, m, err := add(data, true, nil)
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
		if again, same, err := add(got, true, m); err != nil || !bytes.Equal(again, got) || !slices.Equal(same, m) {
			t.Fatalf("installed twice: %q, %+v, %v; once: %q, %+v", again, same, err, got, m)
		}
		back, err := Remove(got, hookTestProgram, m)
		must(t, err)
		if had == [5]int{} && !bytes.Equal(back, data) {
			t.Fatalf("removed again: %q, want %q", back, data)
		}
		if n, err := count(back); err != nil || n != [5]int{} {
			t.Fatalf("removed again: %q: %v", back, err)
		}
		if v := jsonOf(t, got); v != nil {
			if _, ok := v["hooks"].(map[string]any)["Stop"].([]any); !ok {
				t.Fatalf("not a list of hooks: %q", got)
			}
		}
	})
}

// jsonOf decodes a settings file; nil if encoding/json refuses it.
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

// After Claude Code has rewritten its settings with JSON.stringify, the hook is still found,
// and the objects made for it are removed with it.
func TestHookInRewrittenSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ before, after string }{
		"empty":          {`{}`, "{}"},
		"others":         {`{"model":"opus"}`, "{\n  \"model\": \"opus\"\n}"},
		"an empty event": {`{"hooks":{"Stop":[]}}`, "{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}"},
		"another hook": {`{"hooks":{"Stop":[{"hooks":[{"command":"x","type":"command"}]}]}}`,
			"{\n  \"hooks\": {\n    \"Stop\": [\n      {\n        \"hooks\": [\n          {\n            \"command\": \"x\",\n            \"type\": \"command\"\n          }\n        ]\n      }\n    ]\n  }\n}"},
	} {
		installed, m, err := add([]byte(tc.before), true, nil)
		must(t, err)
		rewritten, err := json.MarshalIndent(jsonOf(t, installed), "", "  ")
		must(t, err)
		if got, err := Remove(rewritten, hookTestProgram, m); err != nil || string(got) != tc.after {
			t.Errorf("%s: got %s, %v; want %s", name, got, err, tc.after)
		}
	}
}

// Only a command that runs our hook, and nothing else with it, counts as ours.
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
		flags := []string{"--state-dir", "/x y", Unasked}
		if stop.command(path, flags) != stop.command(path, flags[:2]) || waiting[0].command(path, flags) == waiting[0].command(path, flags[:2]) {
			t.Errorf("unasked, they are %s and %s", stop.command(path, flags), waiting[0].command(path, flags))
		}
		for command, h := range map[string]hook{stop.command(path, flags): stop, waiting[0].command(path, flags[:2]): waiting[1], waiting[0].command(path, flags): waiting[2]} {
			if got, ok := h.programOf(command, ""); !ok || got != path {
				t.Errorf("%s: got %q, %v", command, got, ok)
			}
		}
	}
}

// An enabled plugin has all hooks. The settings of a project prevail over those of the user.
func TestInstalledByPlugin(t *testing.T) {
	t.Parallel()
	root, dir := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, ".claude"), 0o700))
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
			must(t, os.WriteFile(files[i], []byte(text), 0o600))
		}
		if Installed(root, dir) != c.want || Waiting(root, dir) != c.want {
			t.Errorf("user %s, project %s: installed %t, waiting %t", c.user, c.project, Installed(root, dir), Waiting(root, dir))
		}
	}
}
