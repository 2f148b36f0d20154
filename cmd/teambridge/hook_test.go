package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/teams/errtest"
)

// Whatever input the hook gets, it prints nothing on standard output, and ends with 0 or 1: with 2, the agent would
// not stop.
func TestHookStopLetsTheAgentStop(t *testing.T) {
	t.Parallel()
	endless, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	for name, tc := range map[string]struct {
		stdin  io.Reader
		status int
		stderr string
	}{
		"as it should be":        {strings.NewReader(`{"session_id": "s", "transcript_path": "/nowhere", "stop_hook_active": true}`), 0, ""},
		"nothing":                {strings.NewReader(""), 1, "read the JSON of the hook"},
		"no object":              {strings.NewReader(`[1]`), 1, "read the JSON of the hook"},
		"another type":           {strings.NewReader(`{"session_id": 7}`), 1, "read the JSON of the hook"},
		"input that never ends":  {endless, 1, "standard input does not end"},
		"input that is too long": {bytes.NewReader(bytes.Repeat([]byte(" "), 2*maxHookJSON)), 1, "read the JSON of the hook"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			wait := time.Minute
			if tc.stdin == endless {
				wait = time.Millisecond
			}
			var stdout, stderr bytes.Buffer
			status := run([]string{"hook", "stop", "--state-dir", filepath.Join(home, "state")}, host{
				stdin: tc.stdin, stdout: &stdout, stderr: &stderr, wait: wait,
				lookup: func(name string) (string, bool) { return home, name == "HOME" }, cwd: os.Getwd,
			})
			if status != tc.status || stdout.Len() > 0 || !strings.Contains(stderr.String(), tc.stderr) || (tc.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("status %d, stdout %q, stderr %q; want %d and %q on stderr", status, &stdout, &stderr, tc.status, tc.stderr)
			}
		})
	}
}

// Hooks that several processes install at the same time are installed once.
func TestHookInstalledAtTheSameTime(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	path := filepath.Join(home, "settings.json")
	const before = "{\n  \"model\": \"opus\"\n}\n"
	errtest.Must(t, os.WriteFile(path, []byte(before), 0o600))
	hook := func(flags ...string) {
		var done sync.WaitGroup
		for range 8 {
			done.Go(func() {
				cmd := exec.Command("teambridge", append([]string{"setup", "hooks", "--yes", "--file", path}, flags...)...)
				cmd.Env = append(os.Environ(), "TEAMBRIDGE_STATE="+filepath.Join(home, "state"), "GORACE=atexit_sleep_ms=0")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("setup hooks %q: %v: %s", flags, err, out)
				}
			})
		}
		done.Wait()
	}
	hook()
	if data, err := os.ReadFile(path); err != nil || bytes.Count(data, []byte("hook stop")) != 1 {
		t.Errorf("%s, %v; want one hook", data, err)
	}
	hook("--undo")
	if data, err := os.ReadFile(path); err != nil || string(data) != before {
		t.Errorf("%q, %v; want %q", data, err, before)
	}
}

// The waiting hook ends at once, with 0 or 1, in a headless session, and in one that itself listens for messages.
// Otherwise it ends with the session.
func TestHookWaitsOnlyAtATerminal(t *testing.T) {
	t.Parallel()
	const input = `{"session_id": "s", "cwd": "/", "hook_event_name": "Stop"}`
	for name, tc := range map[string]struct {
		entry, stdin string
		socket       bool
		status       int
		waits        bool
	}{
		"headless":      {entry: "sdk-cli", stdin: input},
		"by hand":       {stdin: input},
		"with a socket": {entry: "cli", stdin: input, socket: true},
		"no JSON":       {entry: "cli", stdin: "x", status: 1},
		"at a terminal": {entry: "cli", stdin: input, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, err := os.MkdirTemp("", "tb") // short enough for a socket
			errtest.Must(t, err)
			defer os.RemoveAll(home)
			root := filepath.Join(home, ".claude")
			errtest.Must(t, os.MkdirAll(filepath.Join(root, "sessions"), 0o700))
			record := fmt.Sprintf(`{"pid": %d, "sessionId": "s"}`, os.Getpid())
			if tc.socket {
				record = fmt.Sprintf(`{"pid": %d, "sessionId": "s", "messagingSocketPath": %q}`, os.Getpid(), root)
			}
			errtest.Must(t, os.WriteFile(filepath.Join(root, "sessions", strconv.Itoa(os.Getpid())+".json"), []byte(record), 0o600))
			waited := false
			var stdout, stderr bytes.Buffer
			status := run([]string{"hook", "wait", "--state-dir", filepath.Join(home, "state"), "--pid", strconv.Itoa(os.Getpid())}, host{
				stdin: strings.NewReader(tc.stdin), stdout: &stdout, stderr: &stderr,
				unread: func(context.Context) bool { waited = true; return true },
				lookup: func(name string) (string, bool) {
					v, ok := map[string]string{"HOME": home, "CLAUDE_CODE_ENTRYPOINT": tc.entry}[name]
					return v, ok
				}, cwd: os.Getwd,
			})
			if status != tc.status || waited != tc.waits || stdout.Len() > 0 || (tc.status == 0) != (stderr.Len() == 0) {
				t.Errorf("status %d, waited %t, stdout %q, stderr %q; want %d, %t", status, waited, &stdout, &stderr, tc.status, tc.waits)
			}
		})
	}
}
