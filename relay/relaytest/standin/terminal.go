package standin

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"teambridge/relay/process"
	"teambridge/teams"
)

// settle is how long a dialogue or a composer gets to show a typed text before it is typed again.
const settle = 2 * time.Second

// Terminal is an interactive Claude Code in a tmux server of its own, 200 columns by 50 lines.
type Terminal struct {
	*Tmux
	home *Home
	pid  int
}

// StartTerminal starts Claude Code of that version in the home with --dangerously-skip-permissions and args behind,
// answers the dialogue about that if it is asked, and returns when a prompt can be typed. Process and tmux server are
// ended when the test ends, even if the test binary is killed. If tmux or Claude Code is not installed the test is
// skipped or fails, see Require.
func StartTerminal(t testing.TB, v teams.Version, h *Home, args ...string) *Terminal {
	t.Helper()
	// env -i, because a pane inherits the server's environment with TMUX in it, and inside tmux a lead puts its teammates into panes of
	// their own.
	return startTerminal(t, v, h, []string{"env", "-i"}, args)
}

// StartSession is StartTerminal for a session that asks its person about tools, without
// --dangerously-skip-permissions.
func StartSession(t testing.TB, v teams.Version, h *Home, args ...string) *Terminal {
	t.Helper()
	return startReady(t, h, []string{"env", "-i"}, append(Require(t, v), args...))
}

// StartPane is StartTerminal for a program that knows that it is in a pane of tmux, %0, as the one of a person does.
func StartPane(t testing.TB, v teams.Version, h *Home, args ...string) *Terminal {
	t.Helper()
	return startTerminal(t, v, h, []string{"/bin/sh", "-c", `exec env -i TMUX="$TMUX" TMUX_PANE="$TMUX_PANE" "$@"`, "sh"}, args)
}

// StartProgram is StartTerminal for a program that starts Claude Code by itself, perhaps later, with more in its
// environment. It returns at once; see Ready.
func StartProgram(t testing.TB, h *Home, env []string, command ...string) *Terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return startCommand(ctx, t, h, []string{"env", "-i"}, append(env, command...))
}

func startTerminal(t testing.TB, v teams.Version, h *Home, prefix, args []string) *Terminal {
	t.Helper()
	return startReady(t, h, prefix, append(append(Require(t, v), "--dangerously-skip-permissions"), args...))
}

func startReady(t testing.TB, h *Home, prefix, command []string) *Terminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p := startCommand(ctx, t, h, prefix, command)
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

func startCommand(ctx context.Context, t testing.TB, h *Home, prefix, command []string) *Terminal {
	t.Helper()
	p := &Terminal{Tmux: StartTmux(t), home: h}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if t.Failed() {
			t.Logf("standin: terminal:\n%s", p.Screen())
		}
		p.end(ctx)
	})

	start := slices.Concat([]string{"new-session", "-d", "-x", "200", "-y", "50", "-c", h.Work}, prefix, h.Env(), command)
	if _, err := p.Run(ctx, nil, start...); err != nil {
		t.Fatal(err)
	}
	pid, err := p.Run(ctx, nil, "display-message", "-p", "#{pane_pid}")
	if err != nil {
		t.Fatal(err)
	}
	if p.pid, err = strconv.Atoi(strings.TrimSpace(pid)); err != nil {
		t.Fatalf("standin: pid of the pane: %v", err)
	}
	return p
}

// Ready waits for the composer and answers the dialogues before it, which depend on the version and on whether it is the
// first to run in this home: permissions may be skipped, a new renderer is not wanted.
func (p *Terminal) Ready(ctx context.Context) error {
	var asked time.Time
	err := poll(ctx, func() (bool, error) {
		screen, err := p.capture(ctx)
		if err != nil {
			return false, err
		}
		if strings.Contains(screen, "Yes, I accept") || strings.Contains(screen, "Try the new fullscreen renderer") {
			if time.Since(asked) < settle {
				return false, nil
			}
			asked = time.Now()
			_, err := p.Run(ctx, nil, "send-keys", "Down", "Enter")
			return false, err
		}
		_, ok := composer(screen)
		return ok, nil
	})
	if err != nil {
		return fmt.Errorf("standin: the terminal shows no prompt: %w; it shows:\n%s", err, p.Screen())
	}
	return nil
}

// Composer returns the text in the box where a prompt is typed, and whether there is one.
func (p *Terminal) Composer(ctx context.Context) (text string, ok bool, err error) {
	screen, err := p.capture(ctx)
	if err != nil {
		return "", false, err
	}
	text, ok = composer(screen)
	return text, ok, nil
}

// composer returns the text in the box where a prompt is typed: between two rules, after ❯.
func composer(screen string) (string, bool) {
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	for end := len(lines) - 1; end > 0; end-- {
		if !strings.HasPrefix(lines[end], "────") {
			continue
		}
		for start := end - 1; start > 0; start-- {
			if strings.HasPrefix(lines[start], "❯") && strings.HasPrefix(lines[start-1], "────") {
				return strings.Join(lines[start:end], "\n"), true
			}
		}
	}
	return "", false
}

// Pid is the process id of Claude Code, or of the program of StartProgram.
func (p *Terminal) Pid() int { return p.pid }

// Prompt types a text, of any number of lines, and sends it off. It returns when the composer is free again: the agent
// has the prompt or has put it into its queue. Wait for its effect with API.Wait.
func (p *Terminal) Prompt(ctx context.Context, text string) error {
	if err := p.Ready(ctx); err != nil {
		return err
	}
	if _, err := p.Run(ctx, strings.NewReader(text), "load-buffer", "-b", "prompt", "-", ";", "paste-buffer", "-b", "prompt", "-d", "-p", "-r"); err != nil {
		return err
	}
	// Enter only when the text is there: one that is read together with a paste is taken as part of it.
	if err := p.composed(ctx, text, true); err != nil {
		return err
	}
	// And again, as it may be so even then, or be lost while the screen is redrawn.
	return p.pressUntilGone(ctx, "Enter", text)
}

// Erase deletes a text of one line that is in the composer.
func (p *Terminal) Erase(ctx context.Context, text string) error {
	return p.pressUntilGone(ctx, "C-u", text)
}

// pressUntilGone presses a key until the composer no longer has the text, or is not there.
func (p *Terminal) pressUntilGone(ctx context.Context, key, text string) error {
	for n := 0; ; n++ {
		// A busy program reads the key late. A second one would answer the dialog that the first may still open.
		if n%5 == 0 {
			if err := p.Keys(ctx, key); err != nil {
				return err
			}
		}
		soon, cancel := context.WithTimeout(ctx, settle)
		err := p.composed(soon, text, false)
		over := soon.Err() != nil // even if tmux was killed for it
		cancel()
		if err == nil || ctx.Err() != nil || !over {
			return err
		}
		// A dialog hides the composer, and must not be given the key.
		if _, ok, err := p.Composer(ctx); err != nil || !ok {
			return err
		}
	}
}

// Keys presses keys, in tmux's names: "Escape", "C-c", "Down", "Enter".
func (p *Terminal) Keys(ctx context.Context, keys ...string) error {
	_, err := p.Run(ctx, nil, append([]string{"send-keys"}, keys...)...)
	return err
}

// composed waits until the composer has the text, or does not, in two looks in a row: one look may fall into a
// redraw. Other changes there, such as hints and suggestions of the next prompt, are ignored.
func (p *Terminal) composed(ctx context.Context, text string, want bool) error {
	looks := 0
	err := poll(ctx, func() (bool, error) {
		now, ok, err := p.Composer(ctx)
		if err != nil {
			return false, err
		}
		if ok && holds(now, text) == want {
			looks++
		} else {
			looks = 0
		}
		return looks == 2, nil
	})
	if err != nil {
		return fmt.Errorf("standin: prompt %.40q in the composer: want %t: %w; the terminal shows:\n%s", text, want, err, p.Screen())
	}
	return nil
}

// holds compares the beginning only, as the rest may be wrapped, and a long paste is shown as a mark for it.
func holds(composer, text string) bool {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(first); len(runes) > 30 {
		first = string(runes[:30])
	}
	return strings.Contains(composer, first) || strings.Contains(composer, "[Pasted text")
}

// capture returns the screen, or an error if the program has ended.
func (p *Terminal) capture(ctx context.Context) (string, error) {
	screen, err := p.Run(ctx, nil, "display-message", "-p", "#{pane_dead}", ";", "capture-pane", "-p")
	if err != nil {
		return "", err
	}
	dead, screen, _ := strings.Cut(screen, "\n")
	if dead == "1" {
		return "", fmt.Errorf("standin: Claude Code has ended; its screen:\n%s", screen)
	}
	return screen, nil
}

// End types /exit and waits for the process, which removes its team directory. If a teammate is at work, it asks
// first whether to stop it, and gets a yes. Its exit code does not matter.
func (p *Terminal) End(ctx context.Context) error {
	asking, asked := context.WithCancel(ctx)
	defer asked()
	confirmed := make(chan error, 1)
	go func() {
		var last time.Time
		confirmed <- poll(asking, func() (bool, error) {
			screen, err := p.capture(asking)
			asks := strings.Contains(screen, "Exit and stop tasks") || strings.Contains(screen, "1. Exit anyway")
			if err != nil || !asks || time.Since(last) < settle {
				return !exists(p.pid), nil
			}
			last = time.Now()
			return false, p.Keys(asking, "Enter")
		})
	}()
	err := p.Prompt(ctx, "/exit")
	if err == nil || !exists(p.pid) {
		err = p.Exited(ctx)
	}
	asked()
	<-confirmed // if the confirmation failed, the process stays
	return err
}

// Exited waits for the end of the process. tmux calls a pane dead when its terminal is closed, which a process does
// well before it is gone, so the process itself is asked.
func (p *Terminal) Exited(ctx context.Context) error {
	if err := poll(ctx, func() (bool, error) { return !exists(p.pid), nil }); err != nil {
		return fmt.Errorf("standin: Claude Code still runs: %w; the terminal shows:\n%s", err, p.Screen())
	}
	return nil
}

// Kill ends the process and its group at once, as kill -9 does, and waits until it is gone.
func (p *Terminal) Kill() error {
	if err := process.KillGroup(p.pid); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return p.Exited(ctx)
}

// end ends the process in any case; the guard ends the server.
func (p *Terminal) end(ctx context.Context) {
	if p.pid != 0 && exists(p.pid) {
		_ = process.TermGroup(p.pid)
		if p.Exited(ctx) != nil {
			_ = p.Kill()
		}
	}
	p.home.Sweep()
}

// Screen returns the screen without its empty lines, for failure messages.
func (p *Terminal) Screen() string {
	// A context of its own, because the test's may be over.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	screen, err := p.Run(ctx, nil, "capture-pane", "-p")
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(screen) {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, " \n"))
		}
	}
	return strings.Join(lines, "\n")
}
