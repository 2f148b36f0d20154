package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// flight is a message that a headless agent of the service is working on.
type flight struct {
	state   string // the simulated agent's: its transcripts are in the Claude directory
	command func(args ...string) ([]byte, error)
}

const flightText = "WAIT:go deploy, once"

// inFlight makes the service run an agent, and waits until the agent works on a message.
func inFlight(t *testing.T, root string, command func(args ...string) ([]byte, error)) flight {
	t.Helper()
	f := flight{root, command}
	self, err := os.Executable()
	errtest.Must(t, err)
	dir := t.TempDir()
	agent := filepath.Join(dir, "claude")
	script := fmt.Sprintf("#!/bin/sh\nexport '%s'\nexec '%s' \"$@\"\n", simchild.Script{State: f.state}.Env(), self)
	standin.WriteProgram(t, agent, script)
	for _, args := range [][]string{
		{"relay", "add", "lead@flight", "--create-team", "--dir", dir, "--", agent},
		{"send", "lead@flight", flightText, "--id", "deploy-1"},
	} {
		if out, err := command(args...); err != nil {
			t.Fatalf("%s: %v: %s", args[0], err, out)
		}
	}
	f.until(t, "begin", flightText)
	return f
}

// until waits until the agent did something in turns with a text, and returns how often.
func (f flight) until(t *testing.T, kind, text string) (n int) {
	t.Helper()
	for over := time.After(patience); n == 0; {
		all, err := simchild.Log(f.state)
		errtest.Must(t, err)
		for _, e := range all {
			if e.Kind == kind && strings.Contains(e.Text, text) {
				n++
			}
		}
		select {
		case <-over:
			t.Fatalf("no %s of %q: %+v", kind, text, all)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return n
}

// finish lets the agent continue, and checks that exactly one agent worked on the message, once.
func (f flight) finish(t *testing.T) {
	t.Helper()
	errtest.Must(t, os.WriteFile(filepath.Join(f.state, "go"), nil, 0o600))
	if out, err := f.command("wait", "--for", "idle", "--team", "flight", "--member", "lead", "--timeout", patience.String()); err != nil {
		t.Fatalf("wait: %v: %s", err, out)
	}
	if n := f.until(t, "work", ""); n != 1 {
		all, _ := simchild.Log(f.state)
		t.Errorf("it was worked on %d times: %+v", n, all)
	}
	if out, err := f.command("relay", "remove", "lead@flight", "--delete-team"); err != nil {
		t.Errorf("remove: %v: %s", err, out)
	}
}

// The unit starts under a real systemd, is started again when it is killed, and is removed. It is a unit of the user
// who runs the test, so the test must be requested: with TEAMBRIDGE_SYSTEMD=1, if "systemctl --user" works, or with
// the path of a teambridge instead of 1. ".ci/long systemd" runs it in a machine of its own.
func TestServiceUnderSystemd(t *testing.T) {
	binary := os.Getenv("TEAMBRIDGE_SYSTEMD")
	if binary == "" {
		t.Skip("TEAMBRIDGE_SYSTEMD is not set")
	}
	if !filepath.IsAbs(binary) {
		binary = built(t, ".")
	}
	f := teamstest.Captured(t, teamstest.OlderVersion)
	root, state := f.Root.Path(), f.State
	command := func(args ...string) ([]byte, error) {
		cmd := exec.Command(binary, append([]string{"--json", "--claude-dir", root, "--state-dir", state}, args...)...)
		cmd.Stderr = os.Stderr
		return cmd.Output()
	}
	var was serviceState
	out, _ := command("service", "status")
	if err := json.Unmarshal(out, &was); err != nil || was.Installed {
		t.Skipf("there is a unit already, or something is wrong: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := command("service", "uninstall"); err != nil {
			t.Errorf("uninstall: %v: %s", err, out)
		}
		if out, err := command("service", "status"); err == nil {
			t.Errorf("it runs on: %s", out)
		}
	})
	if out, err := command("service", "install"); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	status := func() (s serviceState) {
		t.Helper()
		out, err := command("service", "status")
		if err := json.Unmarshal(out, &s); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.Answers = s.Answers && err == nil
		return s
	}
	s := status()
	if !s.Answers || s.State != "active" || s.PID == 0 {
		t.Fatalf("status %+v", s)
	}
	errtest.Must(t, syscall.Kill(s.PID, syscall.SIGKILL))
	for over := time.After(patience); ; {
		if now := status(); now.Answers && now.PID != s.PID {
			break
		}
		select {
		case <-over:
			t.Fatal("it is not started again")
		case <-time.After(50 * time.Millisecond):
		}
	}
	s = status()
	agent := inFlight(t, root, command)
	if out, err := command("service", "restart"); err != nil {
		t.Errorf("restart: %v: %s", err, out)
	}
	if now := status(); !now.Answers || now.PID == s.PID {
		t.Errorf("restarted: %+v, and was process %d", now, s.PID)
	}
	agent.finish(t)
	if out, err := command("service", "logs"); err != nil || len(out) == 0 {
		t.Errorf("logs: %v: %s", err, out)
	}
}
