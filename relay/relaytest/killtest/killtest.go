// Package killtest runs the test program again in other roles: as processes that are killed at a point or at any
// instant and started again, or that do the same thing at once. Afterwards a test counts the results with
// [Once].
//
// TestMain calls [Main], or [Run] if it has more to do:
//
//	func TestMain(m *testing.M) { killtest.Main(m, killtest.Roles{"sender": runSender}) }
//
// A role calls [At] at its points, and a test kills it at one of them:
//
//	cmd := killtest.Command(t.Context(), "sender", path)
//	killtest.Killed(t, killtest.KillAt(cmd, "written"))
//
// or starts it, waits for its output, and kills it:
//
//	p := killtest.Start(t, killtest.Command(t.Context(), "sender", path))
//	p.Line()
//	rest := p.Kill()
package killtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/teams/winetest"
)

// The environment of a process with a role.
const (
	envRole     = "KILLTEST_ROLE"
	envKillAt   = "KILLTEST_KILL_AT"
	envStopAt   = "KILLTEST_STOP_AT"
	envAttached = "KILLTEST_ATTACHED" // it ends with its stdin
)

// Roles has the functions that the test program runs in processes of their own, by name.
type Roles map[string]func(args []string) error

// Main runs a role, or [Tests]. It does not return.
func Main(m *testing.M, roles Roles) {
	Run(roles)
	os.Exit(Tests(m))
}

// Tests runs the tests of a package that mostly waits for other processes: at least eight at once, unless the command line
// has -parallel.
func Tests(m *testing.M) int {
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	return m.Run()
}

// Run runs the role that this process was started with, and does not return. In a process without a role, it returns.
func Run(roles Roles) {
	name := os.Getenv(envRole)
	if name == "" {
		return
	}
	_ = os.Unsetenv(envRole) // its children have no role
	if os.Getenv(envAttached) != "" {
		_ = os.Unsetenv(envAttached)
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	if err := roles[name](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0) // no return: nothing must run afterwards, as in a command
}

// Job makes a role of a function that takes its one argument as a value.
func Job[T any](run func(T) error) func(args []string) error {
	return func(args []string) error {
		var job T
		if err := json.Unmarshal([]byte(args[0]), &job); err != nil {
			return err
		}
		return run(job)
	}
}

// Command returns a command that runs a role. An argument that is no string is passed as JSON, for [Job].
func Command(ctx context.Context, role string, args ...any) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	for _, a := range args {
		text, ok := a.(string)
		if !ok {
			data, err := json.Marshal(a)
			if err != nil {
				panic(err)
			}
			text = string(data)
		}
		cmd.Args = append(cmd.Args, text)
	}
	// The race detector delays the end of each process by a second.
	cmd.Env = append(os.Environ(), envRole+"="+role, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// KillAt makes the process of a command kill itself at a point. It returns the command.
func KillAt(cmd *exec.Cmd, point string) *exec.Cmd {
	cmd.Env = append(cmd.Env, envKillAt+"="+point)
	return cmd
}

// At is a point of a role: a process to be killed here is killed, and At does not return.
func At(point string) {
	if point == "" {
		return
	}
	if point == os.Getenv(envKillAt) {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		AwaitKill() // the signal may come to another thread first, and this one would go on for a moment
	}
	stopAt(point)
}

// AwaitKill waits, in a role, to be killed.
func AwaitKill() { <-time.After(time.Hour) }

// Killed runs a command until it is killed, and fails the test if it ends in another way. It returns its output.
func Killed(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); !killed(err) {
		t.Fatalf("it was not killed, but ended with %v\n%s", err, &out)
	}
	return out.String()
}

// killed reports whether a process ended by a signal. On Windows, that cannot be told from exit status 1.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && (!exit.Exited() || runtime.GOOS == "windows")
}

// A Process is a command that runs. It ends with the test, at the latest, and with the process of the test.
type Process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout *bufio.Reader // unless the command has another
	stderr string        // a file; "" if the command has no file for it
	wait   func() error
}

// Start starts a command, with its stdin, stdout and stderr if it has them. Without a stdin, it ends with the process
// of the test.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{t: t, cmd: cmd, wait: sync.OnceValue(cmd.Wait)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if cmd.Stdin == nil {
		cmd.Env = append(cmd.Env, envAttached+"=1")
		_, err := cmd.StdinPipe()
		must(err)
	}
	if cmd.Stdout == nil {
		out, err := cmd.StdoutPipe()
		must(err)
		p.stdout = bufio.NewReader(out)
	}
	if cmd.Stderr == nil { // a file: the process's children may keep it open for longer than the process lives
		file, err := os.CreateTemp(t.TempDir(), "stderr")
		must(err)
		defer file.Close()
		cmd.Stderr = file
	}
	if file, ok := cmd.Stderr.(*os.File); ok && file != os.Stderr {
		p.stderr = file.Name()
	}
	must(cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = p.wait()
	})
	return p
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Line returns the next line that the process prints, and fails the test if there is none.
func (p *Process) Line() string {
	p.t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		_ = p.cmd.Process.Kill()
		p.t.Fatalf("it printed %q and ended with %v\n%s", line, p.wait(), p.Stderr())
	}
	return strings.TrimSpace(line)
}

// Stderr returns the process's output there.
func (p *Process) Stderr() string {
	if p.stderr == "" {
		return ""
	}
	data, err := os.ReadFile(p.stderr)
	if err != nil {
		p.t.Error(err)
	}
	return string(data)
}

// Kill kills the process, waits until it has ended, and returns its unread lines. An incomplete line is left out,
// since it acknowledges nothing. The test fails if the process had ended before.
func (p *Process) Kill() []string {
	p.t.Helper()
	_ = p.cmd.Process.Kill()
	return p.Killed()
}

// Killed waits until the process was killed, as by [KillAt], and returns its unread lines.
func (p *Process) Killed() (rest []string) {
	p.t.Helper()
	rest = p.rest()
	if err := p.wait(); !killed(err) {
		p.t.Errorf("it was not killed, but ended with %v\n%s", err, p.Stderr())
	}
	return rest
}

// rest returns the unread lines.
func (p *Process) rest() (lines []string) {
	for p.stdout != nil {
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			break
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// Wait waits until the process has ended by itself.
func (p *Process) Wait() error { return p.wait() }

// KillAll starts commands, and kills the processes at random instants once each has printed a number of lines. It
// returns all lines of each.
func KillAll(t testing.TB, lines int, commands ...*exec.Cmd) [][]string {
	t.Helper()
	processes, said := make([]*Process, len(commands)), make([][]string, len(commands))
	for i, cmd := range commands {
		processes[i] = Start(t, cmd)
	}
	for i, p := range processes {
		for range lines {
			said[i] = append(said[i], p.Line())
		}
		<-time.After(rand.N(3 * time.Millisecond)) // the random instant
		said[i] = append(said[i], p.Kill()...)
	}
	return said
}

// AtOnce runs commands whose roles all go on from [Started] when the last of them has reached it, and fails the test
// if one fails.
func AtOnce(t testing.TB, n int, command func(i int) *exec.Cmd) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	commands, texts := make([]*exec.Cmd, n), make([]bytes.Buffer, n)
	for i := range commands {
		var err error
		for range 5 {
			commands[i] = command(i)
			commands[i].Stdin, commands[i].Stderr = read, &texts[i]
			if err = commands[i].Start(); err == nil || !winetest.Running() {
				break
			}
			// With Wine, now and then a process cannot be started (error 731), if others start too.
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read.Close()
	write.Close()
	for i, cmd := range commands {
		if err := cmd.Wait(); err != nil {
			t.Errorf("process %d: %v\n%s", i, err, &texts[i])
		}
	}
}

// Started waits, in a role, for the signal of [AtOnce].
func Started() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// Rounds returns how often a test kills something: the number in the variable, or else n.
func Rounds(t testing.TB, variable string, n int) int {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	return n
}

// Once fails the test unless there has each wanted item exactly once, and no others.
func Once(t testing.TB, want, there []string) {
	t.Helper()
	count := map[string]int{}
	for _, name := range there {
		count[name]++
	}
	for _, name := range want {
		if n := count[name]; n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
		delete(count, name)
	}
	if len(count) > 0 {
		t.Errorf("there is what nobody did: %v", count)
	}
}
