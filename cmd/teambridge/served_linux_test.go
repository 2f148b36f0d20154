package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// A stopped service delays no command, and earlier requests are not carried out again when it continues.
func TestSendBesideAStoppedService(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.OlderVersion)
	root, state := f.Root.Path(), f.State
	socket := filepath.Join(state, "s")
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("teambridge", args...) // the program of the scripts
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+state, "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m",
			"GORACE=atexit_sleep_ms=0")
		return cmd
	}
	svc := command("serve", "--listen", "unix:"+socket)
	said, err := svc.StdoutPipe()
	errtest.Must(t, err)
	errtest.Must(t, svc.Start())
	defer func() { _ = svc.Process.Kill(); _ = svc.Wait() }()
	if _, err := said.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	var out []byte
	var errs bytes.Buffer
	for deadline := time.Now().Add(patience); ; {
		suspend(t, svc)
		send := command("send", "-v", "worker", "hello", "--id", "m-1", "--json")
		send.Env = append(send.Env, "TEST_LOCK_WAIT=100ms")
		errs.Reset()
		send.Stderr = &errs
		if out, err = send.Output(); send.ProcessState.ExitCode() != 6 || time.Now().After(deadline) {
			break
		}
		// The service was stopped while it held the lock of the inbox, and no command can avoid that lock.
		errtest.Must(t, svc.Process.Signal(syscall.SIGCONT))
	}
	if err != nil || !strings.Contains(string(out), `"state":"verified"`) || !strings.Contains(errs.String(), "going on without the service") {
		t.Errorf("%v: %s%s", err, out, &errs)
	}
	// The service does not delay commands about its relays either. It is unknown why these do not run.
	add := command("relay", "add", "lead@later", "--", "claude")
	add.Env = append(add.Env, "TEST_LOCK_WAIT=100ms")
	if out, err := add.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for text, args := range map[string][]string{
		" the service does not answer\n":                                          {"relay", "list", "--relays"},
		"\"code\":\"timeout\"":                                                    {"inbox", "--json"},
		"does not answer: not even to a health check":                             {"inbox"},
		"does not answer: not even to a health check within 100ms; the questions": {"permit"},
	} {
		cmd := command(args...)
		cmd.Env = append(cmd.Env, "TEST_LOCK_WAIT=100ms")
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != api.ExitTimeout || !strings.Contains(string(out), text) {
			t.Errorf("%q: %v: %s", args, err, out)
		}
	}
	errtest.Must(t, svc.Process.Signal(syscall.SIGCONT))
	// The service finds the request that was given up, and answers this one.
	again := command("send", "-v", "worker", "hello", "--id", "m-1", "--json")
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), `"deduplicated":true`) {
		t.Errorf("%v: %s", err, out)
	}
	errtest.Must(t, svc.Process.Signal(syscall.SIGTERM))
	over := time.AfterFunc(patience, func() { _ = svc.Process.Kill() })
	defer over.Stop()
	if err := svc.Wait(); err != nil {
		t.Errorf("the service ended with %v", err)
	}
	data, err := os.ReadFile(filepath.Join(root, "teams", "myteam", "inboxes", "worker.json"))
	errtest.Must(t, err)
	rows, err := inbox.Parse(data)
	errtest.Must(t, err)
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

// If its databases were moved away, a service records in files that are no longer read. Commands do not use a service
// that does not notice, because it is of an earlier version or stopped.
func TestServiceWhoseDatabasesWereMoved(t *testing.T) {
	t.Parallel()
	f := teamstest.Captured(t, teamstest.OlderVersion)
	root, state, away := f.Root.Path(), f.State, t.TempDir()
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command("teambridge", args...) // the program of the scripts
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+root, "TEAMBRIDGE_STATE="+state, "TEST_LOCK_WAIT=1m", "TEST_LOCK_HOLD=1m", "GORACE=atexit_sleep_ms=0")
		return cmd
	}
	svc := command("serve", "--listen", "unix:"+filepath.Join(away, "s"))
	said, err := svc.StdoutPipe()
	errtest.Must(t, err)
	errtest.Must(t, svc.Start())
	defer func() { _ = svc.Process.Kill(); _ = svc.Wait() }()
	if _, err := said.Read(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if out, err := command("send", "worker", "through the service", "--id", "m-1").CombinedOutput(); err != nil || strings.Contains(string(out), "warning") {
		t.Fatalf("%v: %s", err, out)
	}
	suspend(t, svc)
	for _, name := range []string{"ledger.db", "journal.db"} {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			errtest.Must(t, os.Rename(filepath.Join(state, name+suffix), filepath.Join(away, name+suffix)))
		}
	}
	out, err := command("send", "worker", "without it", "--id", "m-2").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "warning: the service (process "+strconv.Itoa(svc.Process.Pid)+") is not used: while it ran, ledger.db and journal.db were moved away or replaced in "+state+"; end it") {
		t.Errorf("%v: %s", err, out)
	}
	for range 2 {
		out, err := command("doctor").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "problem  ledger.db and journal.db were moved away or replaced while the service ran") || !strings.Contains(string(out), "    end process "+strconv.Itoa(svc.Process.Pid)) {
			t.Errorf("%v: %s", err, out)
		}
	}
	// The present version notices it, ends, and does not change the present databases.
	errtest.Must(t, svc.Process.Signal(syscall.SIGCONT))
	over := time.AfterFunc(patience, func() { _ = svc.Process.Kill() })
	defer over.Stop()
	if err := svc.Wait(); svc.ProcessState.ExitCode() != 1 {
		t.Errorf("the service ended with %v", err)
	}
	if out, err := command("send", "worker", "without it", "--id", "m-2").CombinedOutput(); err != nil || !strings.Contains(string(out), "was sent before") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := command("history").CombinedOutput(); err != nil || strings.Count(string(out), "without it") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// suspend stops a child process, and waits until it has stopped: on a busy machine, its threads can run for some time
// after the signal.
func suspend(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	errtest.Must(t, cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it did not stop: %v, %v", status, err)
	}
}
