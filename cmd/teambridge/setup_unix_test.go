//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teambridge/cmd/setup"
	"teambridge/cmd/stdio"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

// Each step is done only if the person at the terminal agrees.
func TestSetupAsks(t *testing.T) {
	t.Parallel()
	const quiet = "#!/bin/sh\necho '[]'\n"
	for name, c := range map[string]struct {
		answers string
		dry     bool
		state   string // the state of the step teams
		on      bool
		stdout  string
	}{
		"yes":       {"n\ny\n", false, "done", true, ""},
		"a word":    {"no\n YES \n", false, "done", true, ""},
		"no":        {"n\nn\n", false, "declined", false, ""},
		"nothing":   {"\n\n", false, "declined", false, ""},
		"the end":   {"n\n", false, "missing", false, "would turn agent teams on"},
		"cut off":   {"n\ny", false, "missing", false, "would turn agent teams on"},
		"a dry run": {"y\ny\n", true, "missing", false, "would turn agent teams on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			for file, text := range map[string]string{"bin/claude": quiet, ".claude/settings.json": "{}"} {
				path := filepath.Join(home, file)
				errtest.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				standin.WriteProgram(t, path, text)
			}
			call := func(answers string, o setupOptions) (stdout, stderr string) {
				return setupAnswered(t, home, answers, o)
			}
			out, errs := call(c.answers, setupOptions{dryRun: c.dry})
			if want := "claude +teams +" + c.state; !regexp.MustCompile(want).MatchString(out) || !strings.Contains(out, c.stdout) {
				t.Errorf("%s%s; want %s, and %q", out, errs, want, c.stdout)
			}
			if asked := strings.Count(errs, "? [y/N] "); (asked == 2) == c.dry || asked == 1 {
				t.Errorf("it asked %d times: %s", asked, errs)
			}
			text, err := os.ReadFile(filepath.Join(home, ".claude", "settings.json"))
			if on := strings.Contains(string(text), teams.EnableVariable); err != nil || on != c.on {
				t.Errorf("the settings are %s (%v)", text, err)
			}
			if !c.on {
				return
			}
			if out, errs := call("n\n", setupOptions{undo: true}); !regexp.MustCompile("claude +teams +declined +declined: take "+teams.EnableVariable+" out of ").MatchString(out) || !strings.Contains(errs, "? [y/N] ") {
				t.Errorf("%s%s", out, errs)
			}
			if out, errs := call("y\n", setupOptions{undo: true}); !strings.Contains(errs, "lose it when") || !regexp.MustCompile("claude +teams +missing").MatchString(out) {
				t.Errorf("%s%s", out, errs)
			}
			if text, err := os.ReadFile(filepath.Join(home, ".claude", "settings.json")); err != nil || string(text) != "{}" {
				t.Errorf("the settings are %s (%v)", text, err)
			}
		})
	}
	if out, errs := setupAnswered(t, t.TempDir(), "", setupOptions{}); out != "" || errs != "note: none of these programs is in $PATH: claude, codex, opencode, qwen\n" {
		t.Errorf("without programs: %s%s", out, errs)
	}
}

// setupAnswered runs "teambridge setup" with answers at a terminal.
func setupAnswered(t *testing.T, home, answers string, o setupOptions) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(host{stdin: strings.NewReader(answers), stdout: &out, stderr: &errs, keyboard: true}, &stdio.Output{})
	s := &setup.Setup{
		Root: filepath.Join(home, ".claude"), Codex: filepath.Join(home, ".codex"), State: filepath.Join(home, "state"),
		Program: "/opt/teambridge", Path: filepath.Join(home, "bin"),
	}
	if err := runSetup(t.Context(), a, s, o); err != nil {
		t.Error(err)
	}
	return out.String(), errs.String()
}
