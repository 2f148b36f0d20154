package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
)

// A service that is stopped holds nobody up, and what it was asked before is not
// done again when it goes on.
func TestSendBesideAStoppedService(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.OlderVersion)
	root, state := f.Root.Path(), f.State
	socket := filepath.Join(state, "s")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("teambridge", args...) // that of the scripts
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+state, "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m",
			"GORACE=atexit_sleep_ms=0")
		return cmd
	}
	svc := command("serve", "--listen", "unix:"+socket)
	said, err := svc.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := svc.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = svc.Process.Kill(); _ = svc.Wait() }()
	if _, err := said.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	var out []byte
	var errs bytes.Buffer
	for deadline := time.Now().Add(patience); ; {
		if err := svc.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		send := command("send", "-v", "worker", "hello", "--id", "m-1", "--json")
		send.Env = append(send.Env, "TEST_LOCK_WAIT=100ms")
		errs.Reset()
		send.Stderr = &errs
		if out, err = send.Output(); send.ProcessState.ExitCode() != 6 || time.Now().After(deadline) {
			break
		}
		// It was stopped while it held the lock of the inbox, which nobody can get around.
		if err := svc.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || !strings.Contains(string(out), `"state":"verified"`) || !strings.Contains(errs.String(), "going on without the service") {
		t.Errorf("%v: %s%s", err, out, &errs)
	}
	// Nor does it hold up who asks for its relays, and why they do not run is not known.
	add := command("relay", "add", "lead@later", "--", "claude")
	add.Env = append(add.Env, "TEST_LOCK_WAIT=100ms")
	if out, err := add.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	list := command("relay", "list", "--relays")
	list.Env = append(list.Env, "TEST_LOCK_WAIT=100ms")
	if out, err := list.CombinedOutput(); err != nil || !strings.Contains(string(out), " the service does not answer\n") {
		t.Errorf("%v: %s", err, out)
	}
	if err := svc.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// It finds the request that was given up, and answers this one.
	again := command("send", "-v", "worker", "hello", "--id", "m-1", "--json")
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), `"deduplicated":true`) {
		t.Errorf("%v: %s", err, out)
	}
	if err := svc.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	over := time.AfterFunc(patience, func() { _ = svc.Process.Kill() })
	defer over.Stop()
	if err := svc.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
	data, err := os.ReadFile(filepath.Join(root, "teams", "myteam", "inboxes", "worker.json"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := inbox.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range rows {
		if r.ID() == "m-1" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the message is there %d times", n)
	}
	if _, err := os.Stat(api.CardPath(state, root)); err == nil {
		t.Error("it left its card")
	}
}
