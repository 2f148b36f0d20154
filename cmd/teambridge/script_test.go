package main

import (
	"cmp"
	"errors"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"teambridge/cmd/demo"
	"teambridge/inbox"
	"teambridge/relay"
	"teambridge/relay/relaytest/killtest"
	"teambridge/relay/relaytest/simacp"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/relaytest/simcodex"
	"teambridge/relay/relaytest/simsession"
	"teambridge/relay/tmux"
)

var update = flag.Bool("update", false, "rewrite the expected output in testdata/script")

// tests adds programs to the tests.
type tests struct{ *testing.M }

func (t tests) Run() int {
	agent, err := exec.LookPath("agent")
	if err == nil {
		err = os.Link(agent, filepath.Join(filepath.Dir(agent), "teambridge"+filepath.Ext(agent)))
	}
	if program := os.Getenv("TEAMBRIDGE_SIMULATED"); err == nil && program != "" {
		for _, name := range []string{agent, filepath.Join(filepath.Dir(agent), "claude"+filepath.Ext(agent))} {
			err = errors.Join(err, os.Remove(name), os.Symlink(program, name))
		}
	}
	if ssh := filepath.Join(filepath.Dir(agent), "ssh"); err == nil && runtime.GOOS != "windows" {
		err = errors.Join(os.Remove(ssh), os.WriteFile(ssh, []byte(plainSSH), 0o700))
	}
	if err != nil {
		panic(err)
	}
	time.Local = time.UTC // as in scripts
	status := killtest.Tests(t.M)
	if err := dismiss(); err != nil {
		panic(err)
	}
	return status
}

func TestMain(m *testing.M) {
	demo.Main()
	simchild.Main()
	simsession.Main()
	simcodex.Main()
	if strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == "teambridge" {
		if d, err := time.ParseDuration(os.Getenv("TEST_TMUX_WAIT")); err == nil {
			tmux.Relax(d)
		}
		if os.Getenv(workerVariable) != "" {
			os.Exit(work())
		}
		os.Exit(run(os.Args[1:], underTest(ownProcess())))
	}
	testscript.Main(tests{m}, map[string]func(){
		"agent":   simulated,           // for run
		"claude":  simulated,           // for the commands of the README
		"prompt":  func() { prompt() }, // for panes
		"acp":     simulatedACP,        // for run --runtime acp
		"ssh":     fakeSSH,
		"fakessh": fakeSSH,
	})
}

// underTest adds the tests' settings in the environment to a host.
func underTest(h host) host {
	duration := func(name string) time.Duration {
		value, _ := h.lookup(name)
		d, _ := time.ParseDuration(value)
		return d
	}
	h.wait, h.hold, h.settles, h.gather = duration("TEST_LOCK_WAIT"), duration("TEST_LOCK_HOLD"), duration("TEST_SETTLES"), duration("TEST_GATHER")
	h.patience = duration("TEST_PATIENCE")
	supervisor, _ := h.lookup("TEST_SUPERVISOR")
	h.supervised = simulatedSupervisors[supervisor]
	return h
}

// simulated is a simulated Claude Code, which may have a script.
func simulated() {
	if err := os.Setenv(simchild.Variable, cmp.Or(os.Getenv("TEST_SIMULATED"), "{}")); err != nil {
		panic(err)
	}
	simchild.MainTerminal()
	simchild.Main()
}

// simulatedACP is a simulated agent of the Agent Client Protocol, which keeps its files below the Claude
// directory. It first prints TEST_PRINTS.
func simulatedACP() {
	state := filepath.Join(os.Getenv("CLAUDE_CONFIG_DIR"), "acp")
	_ = os.MkdirAll(state, 0o700)
	name, entry, _ := strings.Cut(simacp.Script{State: state, Print: os.Getenv("TEST_PRINTS")}.Env(), "=")
	_ = os.Setenv(name, entry)
	simacp.Main()
}

// prompt is an agent program for a pane; see runPrompt.
var prompt = func() {}

// TestScripts runs testdata/script. Each script has an empty Claude directory and an empty state directory;
// command_test.go has its further commands.
func TestScripts(t *testing.T) { testscript.Run(t, scripts()) }

// scripts returns the parameters for a directory of testdata/script.
func scripts(dir ...string) testscript.Params {
	return testscript.Params{
		Dir:                filepath.Join(append([]string{"..", "..", "testdata", "script"}, dir...)...),
		UpdateScripts:      *update,
		RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"teambridge": func(ts *testscript.TestScript, neg bool, args []string) {
				if err := runs(ts, "teambridge", args...); (err != nil) != neg {
					ts.Fatalf("it ended with %v", err)
				}
			},
			"exits":     exits,
			"each":      each,
			"fixture":   fixture,
			"team":      team,
			"session":   session,
			"codex":     codexSession,
			"take":      take,
			"given":     given,
			"age":       age,
			"envelopes": envelopes,
			"grow":      grow,
			"repeat":    repeat,
			"replace":   replace,
			"intend":    intend,
			"dead":      dead,
			"unsettled": unsettled,
			"held":      held,
			"launcher":  launching,
			"keys":      keys,
			"remember":  remember,
			"same":      same,
			"untouched": untouched,
			"closed":    closed,
			"interrupt": interrupt,
			"typing":    typing,
			"start":     start,
			"unread":    unread,
			"collect":   collect,
			"until":     until,
			"vanishes":  vanishes,
			"end":       end,
			"signal":    signalling,
			"killagent": killagent,
			"id":        relayID,
			"answer":    answering,
			"clobber":   clobber,
			"say":       say,
			"does":      does,
			"sql":       execute,
			"hold":      hold,
			"request":   request,
			"visit":     visit,
			"mute":      mute,
			"earlier":   earlier,
			"becomes":   becomes,
			"asked":     asked,
			"terminate": terminate,
			"notified":  notified,
			"webhook":   webhook,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(env.WorkDir, "claude"))
			env.Setenv("TEAMBRIDGE_STATE", filepath.Join(env.WorkDir, "state"))
			// Scripts also run on machines where a process may not be scheduled for seconds. A script that tests
			// locks sets a shorter time.
			env.Setenv("TEST_LOCK_WAIT", "1m")
			env.Setenv("TEST_TMUX_WAIT", "1m")
			env.Setenv("TEST_LOCK_HOLD", "1m")
			env.Setenv("TEST_GATHER", "10ms")
			env.Setenv("TZ", "UTC")
			// With the race detector, each process would wait for 1 s before it ends.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("E", "\x1b")
			env.Values[inside{}] = len(dir) == 0
			env.Values[remembered{}] = map[string]string{}
			env.Values[visited{}] = new(string)
			env.Values[notices{}] = &[]*net.UnixConn{}
			env.Values[sessions{}] = map[string]*simsession.Process{}
			env.Values[started{}] = map[string]*exec.Cmd{}
			env.Values[launchers{}] = map[inbox.InboxKey]*relay.Held{}
			env.Values[outputs{}] = map[string]*os.File{}
			return os.MkdirAll(filepath.Join(env.WorkDir, "claude", "teams"), 0o700)
		},
	}
}
