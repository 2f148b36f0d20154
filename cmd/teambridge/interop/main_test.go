// Package interop checks teambridge with the real programs: each version of Claude Code in .ci/versions, OpenCode,
// Codex and Qwen Code. The program under test is built once, and is the teambridge in $PATH.
package interop

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// envServesFiles makes this program an MCP server.
const envServesFiles = "TEAMBRIDGE_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(envServesFiles) != "" {
		serveFiles()
		return
	}
	os.Exit(runTests(m))
}

// runTests builds teambridge, unless no test will run a program, and runs the tests, by default eight at a time: most
// of the time they wait.
func runTests(m *testing.M) int {
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", "8")
	}
	if os.Getenv(standin.EnvInterop) == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "teambridge")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		err = build(dir, "teambridge")
	}
	if err == nil {
		err = os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds a program of this module into a directory: with the race detector if these tests have it.
func build(dir, program string) error {
	args := []string{"build", "-o", filepath.Join(dir, program), "-ldflags=-w"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if slices.Contains([]string{"-race", "-gcflags"}, s.Key) {
				args = append(args, s.Key+"="+s.Value)
			}
		}
	}
	if out, err := exec.Command("go", append(args, "teambridge/cmd/"+program)...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", program, err, out)
	}
	return nil
}

// own returns the path of the teambridge that was built.
func own(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("teambridge")
	must(t, err)
	return path
}

// program returns a command of teambridge as a person runs it in a directory, with this home, this Claude directory,
// and more in the environment. A text that is too long for a command line goes to standard input.
func program(dir, home, root string, args []string, more ...string) *exec.Cmd {
	stdin := ""
	if i := slices.IndexFunc(args, func(arg string) bool { return len(arg) > 64<<10 }); i >= 0 {
		args, stdin = slices.Clone(args), args[i]
		args[i] = "-"
	}
	cmd := exec.Command("teambridge", args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + home, "CLAUDE_CONFIG_DIR=" + root, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "GORACE=atexit_sleep_ms=0"}, more...)
	return cmd
}

// outcome runs a command, and returns its exit status and its output.
func outcome(t *testing.T, cmd *exec.Cmd) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// executable returns the path of this program.
func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

// onSome runs a test with one version of Claude Code, or with all selected versions at once.
func onSome(t *testing.T, test func(t *testing.T, v teams.Version)) {
	t.Helper()
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		test(t, v)
	})
}

// patience limits the waits of a test; only a failure waits so long.
const patience = 8 * time.Minute

func deadline(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// rounds returns how often a test repeats its work: by default, few times.
func rounds(t *testing.T, variable string, byDefault int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// until waits until a condition holds.
func until(t *testing.T, ctx context.Context, so func() bool, otherwise func() string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%v: %s", ctx.Err(), otherwise())
		}
	}
}

// decoded decodes the output of a command, which is JSON.
func decoded[T any](t *testing.T, out string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

// once checks that models were given each text once.
func once(t *testing.T, model *standin.API, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if n := model.Count(standin.Any, text); n != 1 {
			t.Errorf("%q was given %d times, want once", text, n)
		}
	}
}

// prompts types a prompt as the person.
func prompts(t *testing.T, ctx context.Context, at interface {
	Prompt(ctx context.Context, text string) error
}, text string) {
	t.Helper()
	must(t, at.Prompt(ctx, text))
}

// given waits until an agent was given a text.
func given(t *testing.T, ctx context.Context, model *standin.API, agent, text string) {
	t.Helper()
	if err := model.WaitCount(ctx, agent, text, 1); err != nil {
		t.Fatalf("%s was not given %q: %v", agent, text, err)
	}
}
