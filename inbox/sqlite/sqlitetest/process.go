// Package sqlitetest starts processes that use one database at the same time, for the
// tests of packages that have one. A process is the test binary, run again.
package sqlitetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"teambridge/teams/winetest"
)

// childVariable names, in the environment of a process, the function it runs.
const childVariable = "SQLITETEST_CHILD"

// Main runs the tests, or, in a process that [Child] started, one of children. It is
// what TestMain calls, and does not return.
func Main(m *testing.M, children map[string]func(args []string) error) {
	if name := os.Getenv(childVariable); name != "" {
		if err := children[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0) // not return: nothing is to run after, as in a command
	}
	os.Exit(m.Run())
}

// Child returns a command that runs one of the functions given to [Main].
func Child(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	// The race detector holds up the end of each process by a second.
	cmd.Env = append(os.Environ(), childVariable+"="+name, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// AtOnce runs n children that all begin when the last of them has started, and
// fails the test if one of them fails. Each must call [Started] first.
func AtOnce(t *testing.T, n int, command func(i int) *exec.Cmd) {
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

// Started waits, in a child, for the signal of [AtOnce].
func Started() error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// Kill starts two children that write and kills each at a random instant after it has
// printed some lines. report gets what they printed, line by line.
func Kill(t *testing.T, command func(i int) *exec.Cmd, lines int, report func(child int, line string)) {
	t.Helper()
	var outputs [2]io.Reader
	var commands [2]*exec.Cmd
	var texts [2]bytes.Buffer
	for i := range commands {
		cmd := command(i)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = &texts[i]
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		commands[i], outputs[i] = cmd, out
	}
	for i, cmd := range commands {
		in := bufio.NewReader(outputs[i])
		next := func() bool {
			line, err := in.ReadString('\n')
			if err != nil {
				return false // a cut line acknowledges nothing
			}
			report(i, strings.TrimSpace(line))
			return true
		}
		for range lines {
			if !next() {
				break
			}
		}
		<-time.After(rand.N(3 * time.Millisecond)) // the random instant
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for next() {
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.Exited() && runtime.GOOS != "windows" { // where nothing tells
			t.Errorf("process ended by itself: %v\n%s", err, &texts[i])
		}
	}
}
