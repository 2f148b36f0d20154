package main

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/simsession"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// At a terminal, a broadcast to sessions asks first, and names the recipients. An ended session gets nothing,
// even if messages wait for it.
func TestBroadcastToSessionsAsks(t *testing.T) {
	t.Parallel()
	dir := teamstest.StateDir(t)
	root := filepath.Join(dir, "claude")
	begin := func(id, name string) *simsession.Process {
		p, err := simsession.Begin(root, id, name, "")
		errtest.Must(t, err)
		t.Cleanup(p.End)
		return p
	}
	type answer struct {
		status      int
		stdout, err string
	}
	command := func(typed string, args ...string) answer {
		var out, errs bytes.Buffer
		status := run(args, host{
			stdin: strings.NewReader(typed), stdout: &out, stderr: &errs, keyboard: typed != "",
			cwd: func() (string, error) { return dir, nil },
			lookup: func(name string) (string, bool) {
				v, ok := map[string]string{"CLAUDE_CONFIG_DIR": root, "TEAMBRIDGE_STATE": filepath.Join(dir, "state")}[name]
				return v, ok
			},
		})
		return answer{status, out.String(), errs.String()}
	}
	web, over := begin("5e55104e-0000-4000-8000-000000000001", "web"), begin("5e55104e-0000-4000-8000-000000000002", "over")
	if a := command("", "send", "over", "the first"); a.status != 0 {
		t.Fatal(a)
	}
	over.End()
	// The message waits there until the session is resumed.
	if a := command("", "send", "over", "the second", "--timeout", time.Millisecond.String()); a.status == 0 {
		t.Fatal(a)
	}

	const question = "Send it to 1 session: web? [y/N] "
	for _, typed := range []string{"n\n", "\n", "no\n"} {
		if a := command(typed, "broadcast", "--team", "sessions", "to all"); a.status != 0 || a.stdout != "" || !strings.HasPrefix(a.err, question) || !strings.Contains(a.err, "nothing was sent") {
			t.Errorf("typed %q: %+v", typed, a)
		}
	}
	for _, typed := range []string{"y\n", ""} {
		if a := command(typed, "broadcast", "--team", "sessions", "to all "+typed); a.status != 0 || strings.Count(a.stdout, "received") != 1 || strings.Contains(a.err, question) != (typed != "") {
			t.Errorf("typed %q: %+v", typed, a)
		}
	}
	texts, err := web.Texts()
	if texts = slices.DeleteFunc(texts, func(text string) bool { return !strings.HasPrefix(text, "to all") }); err != nil || len(texts) != 2 {
		t.Errorf("web got %q, %v", texts, err)
	}
}
