package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/relay/claude/simchild"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

// agentMain is the simulated Claude Code of tests of run.
func agentMain() {
	if slices.Contains(os.Args, "--version") {
		fmt.Println("2.1.329 (simulated)")
		os.Exit(0)
	}
	simchild.Main()
}

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv(simchild.Variable); ok {
		agentMain()
	}
	testscript.Main(m, map[string]func(){
		"teambridge": func() {
			h := process()
			// Scripts do not wait 15 s to see that a lock is not to be had.
			if d, err := time.ParseDuration(os.Getenv("TEST_LOCK_WAIT")); err == nil {
				h.wait = d
			}
			os.Exit(run(os.Args[1:], h))
		},
		// A simulated Claude Code, for run.
		"agent": func() {
			if err := os.Setenv(simchild.Variable, "{}"); err != nil {
				panic(err)
			}
			agentMain()
		},
	})
}

// TestScripts runs testdata/script. Each script has a Claude directory and a
// state directory of its own, both empty; its further commands are those of
// command_test.go.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                filepath.Join("..", "..", "testdata", "script"),
		UpdateScripts:      *update,
		RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"fixture":   fixture,
			"team":      team,
			"take":      take,
			"age":       age,
			"grow":      grow,
			"repeat":    repeat,
			"replace":   replace,
			"intend":    intend,
			"keys":      keys,
			"remember":  remember,
			"same":      same,
			"untouched": untouched,
			"closed":    closed,
			"interrupt": interrupt,
			"start":     start,
			"until":     until,
			"vanishes":  vanishes,
			"end":       end,
			"signal":    signalling,
			"killagent": killagent,
			"id":        relayID,
			"answer":    answering,
			"clobber":   clobber,
			"say":       say,
			"sql":       execute,
			"hold":      hold,
			"request":   request,
			"visit":     visit,
			"mute":      mute,
			"becomes":   becomes,
			"terminate": terminate,
			"notified":  notified,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(env.WorkDir, "claude"))
			env.Setenv("TEAMBRIDGE_STATE", filepath.Join(env.WorkDir, "state"))
			env.Setenv("TEST_LOCK_WAIT", "300ms")
			env.Setenv("TZ", "UTC")
			// The race detector lets each process wait for 1 s before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("E", "\x1b")
			env.Values[remembered{}] = map[string]string{}
			env.Values[visited{}] = new(string)
			env.Values[notices{}] = &[]*net.UnixConn{}
			env.Values[started{}] = map[string]*exec.Cmd{}
			return os.MkdirAll(filepath.Join(env.WorkDir, "claude", "teams"), 0o700)
		},
	})
}
