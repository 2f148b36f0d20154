package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teambridge/inbox/sqlite"
	"teambridge/status/api"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// here runs a command line in this process, on a copy of the captured team of an older version.
func here(t *testing.T, terminal bool, env map[string]string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return in(teamstest.Captured(t, teamstest.OlderVersion).Root.Path(), terminal, env, args...)
}

// in runs a command line in this process, with a Claude directory and the state directory in it.
func in(dir string, terminal bool, env map[string]string, args ...string) (status int, stdout, stderr string) {
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

// While another process reads a database, SQLite cannot empty its log, so gc cannot promise that deleted text is gone.
func TestCollectedTextIsBeingRead(t *testing.T) {
	t.Parallel()
	dir := teamstest.Captured(t, teamstest.OlderVersion).Root.Path()
	for _, args := range [][]string{{"send", "worker", "password"}, {"gc", "--older-than", "0s"}, {"send", "worker", "password"}} {
		if status, _, stderr := in(dir, false, nil, args...); status != 0 {
			t.Fatal(stderr)
		}
	}
	path := filepath.Join(dir, "state", "ledger.db")
	header, err := os.ReadFile(path)
	errtest.Must(t, err)
	db, err := sqlite.Open(t.Context(), path, sqlite.Format{Name: "ledger", Application: int32(binary.BigEndian.Uint32(header[68:])), Schema: make([]string, 1)})
	errtest.Must(t, err)
	defer func() { errtest.Must(t, db.Close()) }()
	errtest.Must(t, db.Transaction(t.Context(), "read", "DEFERRED", func(c *sqlite.Conn) error {
		_, err := c.Number("SELECT count(*) FROM sends")
		status, stdout, stderr := in(dir, false, nil, "gc", "--older-than", "0s")
		if status != api.ExitLocked || !strings.HasPrefix(stdout, "removed ") || !strings.Contains(stderr, "is still in a -wal file in "+filepath.Join(dir, "state")) {
			t.Errorf("exit %d; stdout: %s; stderr: %s", status, stdout, stderr)
		}
		return err
	}))
	if status, _, stderr := in(dir, false, nil, "gc", "--older-than", "0s"); status != 0 {
		t.Error(stderr)
	}
}
