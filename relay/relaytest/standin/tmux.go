package standin

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"teambridge/relay/process"
	"teambridge/relay/relaytest/simchild"
)

// Tmux is a tmux server of a test, without the settings of the person. A program that ends leaves a dead pane.
type Tmux struct {
	Socket  string
	program string
}

// StartTmux starts a server for a test, and ends it with the test, even if the test binary is killed. If tmux is not
// installed the test is skipped or fails, see [Require].
func StartTmux(t testing.TB) *Tmux {
	t.Helper()
	s := &Tmux{program: RequireTmux(t)}
	// Not in t.TempDir: the path of a socket may be some hundred bytes long, the name of a test as well.
	dir, err := os.MkdirTemp("", "standin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.Socket = filepath.Join(dir, "tmux")

	// The server is a daemon: it ends only on command.
	server, err := startGuard(s.env(), `"$0" -S "$1" kill-server 2>/dev/null; :`, s.program, s.Socket)
	if err != nil {
		t.Fatalf("standin: guard the tmux server: %v", err)
	}
	t.Cleanup(func() {
		if err := server.fire(); err != nil {
			t.Errorf("standin: end the tmux server at %s: %v", s.Socket, err)
		}
	})
	if _, err := s.Run(t.Context(), nil, "start-server", ";", "set-option", "-g", "exit-empty", "off", ";", "set-option", "-g", "remain-on-exit", "on"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Tmux) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=xterm-256color", "SHELL=/bin/sh"}
}

// Run runs one command of tmux on the server, and returns its output.
func (s *Tmux) Run(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.program, append([]string{"-S", s.Socket, "-f", os.DevNull}, args...)...)
	cmd.Env, cmd.Stdin = s.env(), stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("standin: tmux %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// StartAgent starts a simulated Claude Code in a new window, and returns the id of its pane. The program is the test
// binary: its TestMain calls [simchild.MainTerminal] first. No Claude directory of the test knows it.
func (s *Tmux) StartAgent(t testing.TB) (pane string) {
	t.Helper()
	id, err := s.Run(t.Context(), nil, "new-session", "-d", "-x", "100", "-y", "40", "-P", "-F", "#{pane_id} #{pane_pid}",
		"-e", simchild.Script{State: t.TempDir()}.Env(), "exec '"+os.Args[0]+"'") // in place of the shell, whose end would count as its own
	if err != nil {
		t.Fatal(err)
	}
	id, number, _ := strings.Cut(strings.TrimSpace(id), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	program := process.Identify(pid)
	t.Cleanup(func() { // it writes into its directory, which is removed next
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_, _ = s.Run(ctx, nil, "kill-pane", "-t", id) // unless the test has ended it
		if err := poll(ctx, func() (bool, error) { alive, err := program.Alive(); return !alive, err }); err != nil {
			t.Errorf("standin: end the program in pane %s: %v", id, err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := poll(ctx, func() (bool, error) {
		screen, err := s.Run(ctx, nil, "capture-pane", "-p", "-t", id)
		return strings.Contains(screen, "? for shortcuts"), err
	}); err != nil {
		t.Fatalf("standin: the program in pane %s: %v", id, err)
	}
	return id
}

// Keys presses keys in a pane, as a person does.
func (s *Tmux) Keys(t testing.TB, pane string, keys ...string) {
	t.Helper()
	if _, err := s.Run(t.Context(), nil, append([]string{"send-keys", "-t", pane}, keys...)...); err != nil {
		t.Fatal(err)
	}
}
