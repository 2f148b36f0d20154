//go:build unix

package interactive_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/claude/interactive"
	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
	"teambridge/teams/errtest"
)

var must = errtest.Must

// program is a real Claude Code in a terminal of its own.
type program struct {
	*interactive.Launch
	t    *testing.T
	pid  int
	tty  *os.File
	done chan struct{} // closed when it has ended and all its output was read

	mu     sync.Mutex // of output
	output []byte
}

// begin starts it in the home; it is ended with the test, or, if that is killed, by the hang-up of its terminal.
func begin(t *testing.T, v teams.Version, h *standin.Home, session, prefill string, resume bool) *program {
	t.Helper()
	l, err := interactive.New(interactive.Options{
		Command: append(standin.Require(t, v), "--dangerously-skip-permissions"),
		Root:    h.Root, Dir: h.Work, State: filepath.Join(h.Dir, "state"), Session: session, Prefill: prefill, Resume: resume, Env: h.Env(),
	})
	must(t, err)
	cmd := l.Cmd()
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 160})
	must(t, err)
	p := &program{Launch: l, t: t, pid: cmd.Process.Pid, tty: tty, done: make(chan struct{})}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 64<<10)
		for {
			n, err := tty.Read(b)
			p.mu.Lock()
			p.output = append(p.output, b[:n]...)
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // SIGTERM ends it with 143
		<-read
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // it may be gone
		<-p.done
		tty.Close()
		l.Close()
	})
	p.until("the composer takes keys", func() bool { return bytes.Contains(p.printed(), []byte("\x1b[?2004h")) })
	p.is(interactive.Idle)
	return p
}

func (p *program) printed() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return bytes.Clone(p.output)
}

func (p *program) look() interactive.State {
	p.t.Helper()
	s, err := p.Look(p.pid)
	must(p.t, err)
	return s
}

func (p *program) is(want interactive.Status) {
	p.t.Helper()
	p.until(string(want), func() bool { return p.look().Status == want })
}

func (p *program) until(what string, ok func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 3*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-p.done:
			p.t.Fatalf("%s: it has ended: %.2000q", what, p.printed())
		case <-ctx.Done():
			p.t.Fatalf("not in time: %s; it is %+v and printed %.3000q", what, p.look(), p.printed())
		}
	}
}

func (p *program) press(keys string) {
	p.t.Helper()
	if _, err := p.tty.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// draft returns the draft that can be taken now.
func (p *program) draft() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 10*time.Second)
	defer cancel()
	text, ok, err := p.TakeDraft(ctx, func() error { _, err := p.tty.WriteString("\a"); return err })
	must(p.t, err)
	if !ok {
		return "there was none"
	}
	return text
}

func (p *program) drafts(want string) {
	p.t.Helper()
	p.until("draft "+want, func() bool { return p.draft() == want })
}

// enters presses Enter until it has an effect: keys can be lost while the program returns from an editor.
func (p *program) enters(what string, ok func() bool) {
	p.t.Helper()
	var pressed time.Time
	p.until(what, func() bool {
		if ok() {
			return true
		}
		if time.Since(pressed) > 3*time.Second {
			pressed = time.Now()
			p.press("\r")
		}
		return false
	})
}

// types types a text until it is at the prompt.
func (p *program) types(text string) {
	p.t.Helper()
	p.press(text)
	p.until("draft "+text, func() bool {
		got := p.draft()
		if got == text {
			return true
		}
		p.press(strings.Repeat("\x7f", len(got)+len(text)) + text)
		return false
	})
}

func (p *program) end(s syscall.Signal) {
	p.t.Helper()
	must(p.t, syscall.Kill(p.pid, s))
	<-p.done
}

// A real session at a terminal, ended and resumed, behaves as a launcher expects.
func TestRealSessionAtTheTerminal(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		h := standin.NewHome(t, nil)
		// An editor in the settings would win over the environment.
		settings := `{"skipDangerousModePermissionPrompt":true,"env":{"VISUAL":"/nonexistent"}}`
		must(t, os.WriteFile(filepath.Join(h.Root, "settings.json"), []byte(settings), 0o600))
		session := uuid.NewString()
		p := begin(t, v, h, session, "one\n\n  two 漢字", false)
		p.drafts("one\n\n  two 漢字")
		if got := p.look(); got.Session != session {
			t.Errorf("session: got %+v, want %s", got, session)
		}
		p.enters("the transcript has it", func() bool {
			left, err := interactive.Unrun(h.Root, h.Work, session, time.Time{})
			must(t, err)
			mode, err := interactive.PermissionMode(h.Root, h.Work, session)
			must(t, err)
			return len(left) == 0 && mode == "bypassPermissions"
		})
		p.is(interactive.Idle)
		p.end(syscall.SIGTERM)
		if got := p.printed(); !bytes.Contains(got, []byte("--resume "+session)) {
			t.Errorf("at its end it does not name session %s: %q", session, got)
		}

		p = begin(t, v, h, session, "SLEEP:3600 long", true)
		if pid := interactive.Elsewhere(h.Root, session, agent.Process{}); pid != p.pid {
			t.Errorf("elsewhere: got %d, want %d", pid, p.pid)
		}
		if pid := interactive.Elsewhere(h.Root, session, agent.Process{PID: p.pid}); pid != 0 {
			t.Errorf("elsewhere but here: got %d, want 0", pid)
		}
		p.drafts("SLEEP:3600 long")
		p.enters("it works", func() bool { return p.look().Status == interactive.Busy })
		p.types("waits for it")
		var left []string
		p.enters("it waits", func() bool {
			var err error
			if left, err = interactive.Unrun(h.Root, h.Work, session, time.Time{}); err != nil {
				t.Fatal(err)
			}
			return slices.Equal(left, []string{"waits for it"})
		})
		p.end(syscall.SIGKILL)
		if pid := interactive.Elsewhere(h.Root, session, agent.Process{}); pid != 0 {
			t.Errorf("after its end: got %d, want 0", pid)
		}

		p = begin(t, v, h, session, strings.Join(left, "\n"), true)
		p.drafts("waits for it")
		p.types("/clear")
		p.enters("another session", func() bool { s := p.look().Session; return s != session && s != "" })
	})
}
