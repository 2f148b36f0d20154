package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"teambridge/relay/relaytest/simagent"
	"teambridge/status/plain"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

// pseudoTerminal returns both ends of a pseudo terminal with a number of columns.
func pseudoTerminal(t *testing.T, columns uint16) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { master.Close() })
	ioctl := func(f *os.File, request uintptr, arg unsafe.Pointer) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(arg)); errno != 0 {
			t.Fatalf("ioctl %#x: %v", request, errno)
		}
	}
	var unlocked, number int32
	ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&unlocked))
	ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	errtest.Must(t, err)
	t.Cleanup(func() { slave.Close() })
	size := struct{ rows, columns, x, y uint16 }{24, columns, 0, 0}
	ioctl(slave, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
	return master, slave
}

// teamAtTerminal creates a team, and returns a function that makes teambridge commands for it.
func teamAtTerminal(t *testing.T, members ...string) func(args ...string) *exec.Cmd {
	t.Helper()
	opts := simagent.TeamOptions{Root: t.TempDir(), Name: "t"}
	for _, name := range members {
		opts.Members = append(opts.Members, simagent.Member{Name: name, Absent: true})
	}
	if _, err := simagent.Create(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	state := teamstest.StateDir(t)
	return func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "teambridge", append(args, "--team", "t")...)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.Env = append(os.Environ(), "CLAUDE_CONFIG_DIR="+opts.Root, "TEAMBRIDGE_STATE="+state, "NO_COLOR=", "TERM=xterm", "GORACE=atexit_sleep_ms=0")
		return cmd
	}
}

// At a terminal, a command that waits shows a line, and removes it at the end.
func TestProgressAtATerminal(t *testing.T) {
	t.Parallel()
	command := teamAtTerminal(t, "worker")
	for _, env := range []string{"NO_COLOR=1", "NO_COLOR="} {
		master, slave := pseudoTerminal(t, 80)
		cmd := command("wait", "--for", "idle", "--member", "worker")
		cmd.Env = append(cmd.Env, env)
		cmd.Stderr = slave
		errtest.Must(t, cmd.Start())
		slave.Close()
		var printed strings.Builder
		interrupt := sync.OnceFunc(func() { _ = cmd.Process.Signal(os.Interrupt) }) // a second interrupt would kill it
		for b := make([]byte, 1000); ; {
			n, err := master.Read(b)
			if err != nil { // EIO at the end
				break
			}
			if printed.Write(b[:n]); strings.Contains(printed.String(), "waiting for worker to be idle… ") {
				interrupt()
			}
		}
		_ = cmd.Wait()
		line, ended := screenOf(strings.NewReplacer("\r\n", "\n", "\x1b[2m", "", "\x1b[0m", "").Replace(printed.String()))
		if line != "" || len(ended) != 1 || ended[0] != "teambridge: interrupt signal received" {
			t.Errorf("%s: the terminal shows %q %q at the end", env, ended, line)
		}
		if strings.Contains(printed.String(), "\x1b") != (env == "NO_COLOR=") {
			t.Errorf("%s: the terminal got %q", env, printed.String())
		}
	}
}

// No such line is written to a pipe, or to a terminal that cannot move its cursor.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	command := teamAtTerminal(t, "worker")
	waits := func() *exec.Cmd { return command("wait", "--for", "idle", "--member", "worker", "--timeout", "1500ms") }
	const want = "teambridge: timed out after 1.5s: worker is not idle"
	if out, _ := waits().CombinedOutput(); strings.TrimSpace(string(out)) != want {
		t.Errorf("a pipe got %q", out)
	}
	master, slave := pseudoTerminal(t, 80)
	cmd := waits()
	cmd.Stderr, cmd.Env = slave, append(cmd.Env, "TERM=dumb")
	errtest.Must(t, cmd.Start())
	slave.Close()
	printed, _ := io.ReadAll(master) // EIO at the end
	if _ = cmd.Wait(); strings.TrimSpace(string(printed)) != want {
		t.Errorf("the terminal got %q", printed)
	}
}

// A table is folded to the width of the terminal, and whole in a pipe.
func TestTableAtATerminal(t *testing.T) {
	t.Parallel()
	long := "a-worker-with-a-long-name-of-its-own"
	command := teamAtTerminal(t, long)
	out, err := command("status", "-o", "wide").Output()
	errtest.Must(t, err)
	if !strings.Contains(string(out), "\n"+long+"  working  ") {
		t.Errorf("a pipe got %q", out)
	}
	master, slave := pseudoTerminal(t, 72)
	cmd := command("status", "-o", "wide")
	cmd.Stdout, cmd.Env = slave, append(cmd.Env, "NO_COLOR=1")
	errtest.Must(t, cmd.Start())
	slave.Close()
	printed, _ := io.ReadAll(master) // EIO at the end
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(string(printed)), "\r\n")
	for _, line := range lines {
		if plain.Width(line) > 72 {
			t.Errorf("a line of %d columns: %q", plain.Width(line), line)
		}
	}
	if len(lines) < 5 {
		t.Errorf("nothing is folded: %q", lines)
	}
}
