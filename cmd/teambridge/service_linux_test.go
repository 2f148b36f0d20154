package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"teambridge/teams/teamstest"
)

// The unit under a real systemd: it starts, is started again when it is killed, and
// is removed. It is a unit of whoever runs the test, so it has to be asked for with
// TEAMBRIDGE_SYSTEMD=1, where "systemctl --user" works, or with the path of a teambridge
// instead of 1. ".ci/long systemd" runs it in a machine of its own.
func TestServiceUnderSystemd(t *testing.T) {
	binary := os.Getenv("TEAMBRIDGE_SYSTEMD")
	if binary == "" {
		t.Skip("TEAMBRIDGE_SYSTEMD is not set")
	}
	if !filepath.IsAbs(binary) {
		binary = filepath.Join(t.TempDir(), "teambridge")
		if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	f := teamstest.Captured(t, teamstest.OlderVersion)
	root, state := f.Root.Path(), f.State
	command := func(args ...string) ([]byte, error) {
		cmd := exec.Command(binary, append(args, "--json", "--claude-dir", root, "--state-dir", state)...)
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
	if err := syscall.Kill(s.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
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
	if out, err := command("service", "restart"); err != nil {
		t.Errorf("restart: %v: %s", err, out)
	}
	if now := status(); !now.Answers || now.PID == s.PID {
		t.Errorf("restarted: %+v, and was process %d", now, s.PID)
	}
	if out, err := command("service", "logs"); err != nil || len(out) == 0 {
		t.Errorf("logs: %v: %s", err, out)
	}
}
