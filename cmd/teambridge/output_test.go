package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"teambridge/teams/teamstest"
)

// here runs a command line in this process, on a copy of the captured team of
// an older version.
func here(t *testing.T, terminal bool, env map[string]string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	dir := teamstest.Captured(t, teamstest.OlderVersion).Root.Path()
	var out, errs bytes.Buffer
	h := host{
		stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		cwd: func() (string, error) { return dir, nil }, terminal: terminal,
		lookup: func(name string) (string, bool) {
			switch name {
			case "CLAUDE_CONFIG_DIR":
				return dir, true
			case "TEAMBRIDGE_STATE":
				return filepath.Join(dir, "state"), true
			}
			v, ok := env[name]
			return v, ok
		},
	}
	status = run(args, h)
	return status, out.String(), errs.String()
}

func TestColourOnlyOnATerminal(t *testing.T) {
	t.Parallel()
	sgr := regexp.MustCompile(`\x1b\[\d+m`)
	for _, args := range [][]string{{"read"}, {"doctor"}, {"send", "worker", "hello", "--id", "x", "--dry-run"}} {
		_, on, _ := here(t, true, nil, args...)
		_, off, _ := here(t, false, nil, args...)
		_, json, _ := here(t, true, nil, append(args, "--json")...)
		if !sgr.MatchString(on) {
			t.Errorf("%s on a terminal: no colour in %q", args, on)
		}
		if strings.ContainsRune(off, '\x1b') || strings.ContainsRune(json, '\x1b') {
			t.Errorf("%s: colour in %q or %q", args, off, json)
		}
		// Each run has a directory of its own.
		path := regexp.MustCompile(`/\S*/`)
		if diff := cmp.Diff(path.ReplaceAllString(off, ""), path.ReplaceAllString(sgr.ReplaceAllString(on, ""), "")); diff != "" {
			t.Errorf("%s: colour is not all that differs (-without +with):\n%s", args, diff)
		}
	}
}

func TestColourful(t *testing.T) {
	t.Parallel()
	device, err := os.Open(os.DevNull) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, c := range []struct {
		name string
		f    *os.File
		env  map[string]string
		want bool
	}{
		{"terminal", device, nil, true},
		{"NO_COLOR", device, map[string]string{"NO_COLOR": "1"}, false},
		{"empty NO_COLOR", device, map[string]string{"NO_COLOR": ""}, true},
		{"dumb terminal", device, map[string]string{"TERM": "dumb"}, false},
		{"file", file, nil, false},
	} {
		lookup := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
		if got := colourful(c.f, lookup); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, line, text string }{
		{"plain ü 👍🏽 👨‍👩‍👧", "plain ü 👍🏽 👨‍👩‍👧", "plain ü 👍🏽 👨‍👩‍👧"},
		{"a\nb\tc\rd", `a\nb\tc\rd`, "a\nb\tc" + `\rd`},
		{"\x1b]0;x\x07", `\e]0;x\x07`, `\e]0;x\x07`},
		{"\u009b31m\x7f", `\x9b31m\x7f`, `\x9b31m\x7f`},
		{"\u202e\u2066\u200f\ufeff", `\u202e\u2066\u200f\ufeff`, `\u202e\u2066\u200f\ufeff`},
		{"\u2028\u2029", `\u2028\u2029`, `\u2028\u2029`},
		{"\U000e0041", `\U000e0041`, `\U000e0041`},
		{"bad\xff\xc3", `bad\xff\xc3`, `bad\xff\xc3`},
	} {
		if got := escape(c.in, false); got != c.line {
			t.Errorf("escape(%q, false) = %q, want %q", c.in, got, c.line)
		}
		if got := escape(c.in, true); got != c.text {
			t.Errorf("escape(%q, true) = %q, want %q", c.in, got, c.text)
		}
	}
}
