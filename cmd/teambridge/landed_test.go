package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"teambridge/inbox/sqlite"
)

// What commands of earlier versions sent is not sent again after an upgrade, and is still in
// the history. The databases in testdata of ledger and journal were made by these versions.
func TestUpgradeFromLandedVersions(t *testing.T) {
	t.Parallel()
	const databases = "../../inbox"
	commit := regexp.MustCompile(`as commit (\w+) made it`)
	scripts := func(name string) map[string]string {
		byCommit := map[string]string{}
		paths, err := filepath.Glob(filepath.Join(databases, name, "testdata", "*.sql"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%d scripts: %v", len(paths), err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			byCommit[string(commit.FindSubmatch(data)[1])] = string(data)
		}
		return byCommit
	}
	journals := scripts("journal")
	for id, ledger := range scripts("ledger") {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			testUpgrade(t, ledger, journals[id])
		})
	}
}

const demoConfig = `{"name":"demo","createdAt":1795196213317,"leadAgentId":"team-lead@demo","leadProcess":{"pid":1},"members":[
	{"agentId":"team-lead@demo","name":"team-lead","joinedAt":1795196213317,"tmuxPaneId":"","cwd":"/"},
	{"agentId":"worker@demo","name":"worker","joinedAt":1795196213317,"tmuxPaneId":"","cwd":"/","backendType":"in-process"},
	{"agentId":"helper@demo","name":"helper","joinedAt":1795196213317,"tmuxPaneId":"","cwd":"/"}]}`

func testUpgrade(t *testing.T, ledger, journal string) {
	root, state := t.TempDir(), t.TempDir()
	inboxes := filepath.Join(root, "teams", "demo", "inboxes")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(inboxes, 0o700))
	must(os.WriteFile(filepath.Join(root, "teams", "demo", "config.json"), []byte(demoConfig), 0o600))
	for _, member := range []string{"worker", "helper"} {
		must(os.WriteFile(filepath.Join(inboxes, member+".json"), []byte("[]"), 0o600))
	}
	for name, script := range map[string]string{"ledger.db": ledger, "journal.db": journal} {
		if script != "" {
			makeDatabase(t, filepath.Join(state, name), strings.ReplaceAll(script, "/tmp/demo/claude", root))
		}
	}
	teambridge := func(want int, args ...string) string {
		t.Helper()
		cmd := exec.Command("teambridge", args...) // that of the scripts
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+state, "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended || cmd.ProcessState.ExitCode() != want {
			t.Errorf("%q: %v, want status %d: %s", args, err, want, out)
		}
		return string(out)
	}
	again := 0
	for _, sent := range [][]string{
		{"worker@demo", "the release key is in the safe", "--id", "one"}, {"worker@demo", "alice was here", "--id", "two", "--from", "alice"},
		{"worker@demo", "sent without a service", "--id", "three"}, {"helper@demo", "work on it", "--id", "four"},
		{"helper@demo", "as a prompt", "--id", "six"}, {"helper@demo", "from the worker", "--id", "eight", "--from", "worker"},
	} {
		if !strings.Contains(ledger, "'"+sent[3]+"'") {
			continue
		}
		again++
		if out := teambridge(0, append([]string{"send", "--json"}, sent...)...); !strings.Contains(out, `"deduplicated":true`) {
			t.Errorf("%q was sent again: %s", sent, out)
		}
	}
	if again < 3 {
		t.Errorf("%d messages were sent before", again)
	}
	teambridge(5, "send", "worker@demo", "another text", "--id", "one")
	for _, member := range []string{"worker", "helper"} {
		if data, err := os.ReadFile(filepath.Join(inboxes, member+".json")); err != nil || string(data) != "[]" {
			t.Errorf("in the inbox of %s: %s, %v", member, data, err)
		}
	}
	if out := teambridge(0, "send", "--json", "worker@demo", "after the upgrade", "--id", "new"); !strings.Contains(out, `"deduplicated":false`) {
		t.Errorf("a new message: %s", out)
	}
	history := teambridge(0, "history", "--team", "demo", "--json")
	texts := []string{"after the upgrade"}
	if journal != "" {
		texts = append(texts, "the release key is in the safe", "alice was here")
	}
	for _, text := range texts {
		if n := strings.Count(history, `"text":"`+text+`"`); n != 1 {
			t.Errorf("%q is in the history %d times: %s", text, n, history)
		}
	}
	for name, script := range map[string]string{"ledger.db": ledger, "journal.db": journal} {
		if copies, err := sqlite.Copies(filepath.Join(state, name)); script != "" && (err != nil || len(copies) != 1) {
			t.Errorf("copies of %s as it was: %q, %v", name, copies, err)
		}
	}
}

// makeDatabase makes a database with a script.
func makeDatabase(t *testing.T, path, script string) {
	t.Helper()
	d, err := sqlite.Open(t.Context(), path, sqlite.Format{Name: "fixture", Application: 1, Schema: []string{"SELECT 1"}, Create: "PRAGMA auto_vacuum=INCREMENTAL"})
	if err == nil {
		err = d.Do(context.Background(), "make", func(c *sqlite.Conn) error { _, err := c.Exec(script); return err })
		err = errors.Join(err, d.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
