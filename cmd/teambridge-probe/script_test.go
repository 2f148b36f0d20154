package main

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/relay/relaytest/probetest"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"teambridge-probe": func() {
			quiet, _ = time.ParseDuration(os.Getenv("TEST_PROBE_QUIET"))
			main()
		},
		"oddclaude": func() { probetest.Run(os.Args[1:]) },
	})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), UpdateScripts: *update, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TEAMBRIDGE_STATE", filepath.Join(e.WorkDir, "state"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "interrupt": interrupt},
	})
}

// exits runs a program and checks its exit status:
//
//	exits STATUS PROGRAM ARGUMENT...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM ARGUMENT...")
	}
	wantStatus(ts, args[0], ts.Exec(args[1], args[2:]...))
}

// interrupt runs the probe, interrupts it once a file matches PATTERN, and checks the exit status:
//
//	interrupt STATUS PATTERN ARGUMENT...
func interrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupt STATUS PATTERN ARGUMENT...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "teambridge-probe", args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TEAMBRIDGE_STATE", "TEST_PROBE_QUIET"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(cmd.Start())
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		if found, _ := filepath.Glob(ts.MkAbs(args[1])); len(found) > 0 {
			break
		}
		<-tick.C
	}
	ts.Check(cmd.Process.Signal(syscall.SIGINT))
	wantStatus(ts, args[0], cmd.Wait())
}

func wantStatus(ts *testscript.TestScript, want string, err error) {
	status := "0"
	if err != nil {
		status = err.Error()
	}
	if status != want && status != "exit status "+want {
		ts.Fatalf("%s, want exit status %s", status, want)
	}
}
