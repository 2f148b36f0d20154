package setup

import (
	"strings"
	"testing"

	"teambridge/teams"
	"teambridge/teams/errtest"
	"teambridge/teams/rawjson"
)

var must = errtest.Must

// Existing settings keep their bytes, and additions are removed without a trace.
func TestVariable(t *testing.T) {
	t.Parallel()
	const name = `"` + teams.EnableVariable + `"`
	for _, c := range []struct{ before, want string }{
		{"{}\n", "{\n  \"env\": {\n    " + name + ": \"1\"\n  }\n}\n"},
		{"{ }", "{\"env\":{" + name + ":\"1\"}}"},
		{`{"env":{ }}`, `{"env":{` + name + `:"1"}}`},
		{`{"a" : 1e3, "a" : "\ud800", "env" : {"X" : "<&>"}}` + "\r\n", `{"a" : 1e3, "a" : "\ud800", "env" : {"X" : "<&>",` + name + ` : "1"}}` + "\r\n"},
		{"{\n\t\"env\": {\n\t\t\"X\": \"y\"\n\t},\n\t\"b\": 2\n}\n", "{\n\t\"env\": {\n\t\t\"X\": \"y\",\n\t\t" + name + ": \"1\"\n\t},\n\t\"b\": 2\n}\n"},
	} {
		got, made, err := addVariable([]byte(c.before), nil)
		if err != nil || string(got) != c.want {
			t.Errorf("%q became %q (%v), want %q", c.before, got, err, c.want)
			continue
		}
		if back, err := removeVariable(got, made); err != nil || string(back) != c.before {
			t.Errorf("%q without it is %q (%v), want %q", got, back, err, c.before)
		}
	}
}

// Changes by others in the meantime stay.
func TestRemoveVariable(t *testing.T) {
	t.Parallel()
	fresh, made, err := addVariable([]byte("{}\n"), nil)
	must(t, err)
	with := func(old, now string) string {
		if !strings.Contains(string(fresh), old) {
			t.Fatalf("no %s in %s", old, fresh)
		}
		return strings.Replace(string(fresh), old, now, 1)
	}
	const line = `"` + teams.EnableVariable + `": "1"`
	for now, want := range map[string]string{
		string(fresh):                      "{}\n",
		with(line, line+`, "X": "y"`):      with(line, `"X": "y"`),
		with(`{`, `{"model": "opus",`):     `{"model": "opus"` + "\n}\n",
		with(`"1"`, `"0"`):                 with(`"1"`, `"0"`),
		with(`"1"`, `"true"`):              with(`"1"`, `"true"`),
		with(line, ``):                     with(line, ``),
		`{"env": {}, "model": "opus"}`:     `{"env": {}, "model": "opus"}`,
		`{"model": "opus"}`:                `{"model": "opus"}`,
		`{"env": {` + line + `}, "a": {}}`: `{"a": {}}`,
	} {
		if got, err := removeVariable([]byte(now), made); err != nil || string(got) != want {
			t.Errorf("%s became %s (%v), want %s", now, got, err, want)
		}
	}
}

// Invalid settings are not changed.
func TestInvalidSettings(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		``:                     "no JSON value",
		` `:                    "the file is empty",
		`{"env"`:               "cut-off",
		`[]`:                   "array",
		`{"env": []}`:          `env is not an object`,
		`{"env":{},"env":{}}`:  `env occurs twice`,
		`{} x`:                 "byte 3",
		`{"env": {"A": "b",}}`: "byte",
		`{"env":{"` + teams.EnableVariable + `":"1","` + teams.EnableVariable + `":"0"}}`: "occurs twice",
	} {
		if got, _, err := addVariable([]byte(data), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s became %s (%v), want an error with %s", data, got, err, want)
		}
		if got, err := removeVariable([]byte(data), []rawjson.Made{{Members: 2}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s became %s (%v), want an error with %s", data, got, err, want)
		}
	}
}

// A file is restored only if its content equals the original.
func TestAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, now string
		want        bool
	}{
		{"", `{}`, true},
		{"", `{"enabledPlugins": {}, "extraKnownMarketplaces": {}}`, true},
		{"", `{"version": 2, "plugins": {}}`, true},
		{"", `{"version": 2, "plugins": {"x@y": []}}`, false},
		{"", `{"model": "opus", "enabledPlugins": {}}`, false},
		{"", `{`, false},
		{`{"model":"opus"}`, `{"model": "opus", "enabledPlugins": {}}`, true},
		{`{"model":"opus"}`, `{"model": "sonnet", "enabledPlugins": {}}`, false},
		{`{"model":"opus"}`, `{"enabledPlugins": {}}`, false},
		{`{"enabledPlugins":{}}`, `{"enabledPlugins": {}}`, true},
		{`{"enabledPlugins":{"a@b":true}}`, `{"enabledPlugins": {"a@b": true}, "extraKnownMarketplaces": {}}`, true},
		{`{"enabledPlugins":{"a@b":true}}`, `{"enabledPlugins": {}}`, false},
		{`[`, `{}`, false},
		{"\xef\xbb\xbf{\"a\":1}", `{"a":1,"env":{}}`, true},
	} {
		if got := alike([]byte(c.before), []byte(c.now)); got != c.want {
			t.Errorf("alike(%s, %s) = %t", c.before, c.now, got)
		}
	}
}
