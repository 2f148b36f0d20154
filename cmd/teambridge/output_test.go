package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teambridge/teams/teamstest"
)

// here runs a command line in this process, on a copy of the captured team of an older version.
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
		if want, got := path.ReplaceAllString(off, ""), path.ReplaceAllString(sgr.ReplaceAllString(on, ""), ""); got != want {
			t.Errorf("%s: colour is not all that differs; without:\n%s\nwith:\n%s", args, want, got)
		}
	}
}
