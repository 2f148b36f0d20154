//go:build linux

package terminal

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"teambridge/relay/relaytest/standin"
	"teambridge/teams"
)

// Claude Code in our pseudo-terminal takes a large paste whole, and goes on after Ctrl-Z;
// after a kill, the terminal is as if it had never run.
func TestRealProgram(t *testing.T) {
	t.Parallel()
	standin.ForSome(t, func(t *testing.T, v teams.Version) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		home := standin.NewHome(t, nil)
		command := slices.Concat([]string{os.Args[0], "exec"}, standin.Require(t, v), []string{"--dangerously-skip-permissions"})
		x := standin.StartProgram(t, home, []string{"CONSOLE_PROGRAM=launcher"}, command...)
		tmux := func(args ...string) string {
			t.Helper()
			out, err := x.Run(ctx, nil, args...)
			must(t, err)
			return strings.TrimSpace(out)
		}
		until := func(what string, ok func() bool) {
			t.Helper()
			for !ok() {
				select {
				case <-ctx.Done():
					t.Fatalf("not %s; the screen:\n%s", what, x.Screen())
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
		must(t, x.Ready(ctx))

		var text strings.Builder
		for i := 0; text.Len() < 135<<10; i++ {
			fmt.Fprintf(&text, "line %d of a large paste\n", i)
		}
		text.WriteString("[paste]")
		must(t, x.Prompt(ctx, text.String()))
		if r, err := home.API.Wait(ctx, func(r standin.Request) bool { return strings.Contains(r.Text(), "[paste]") }); err != nil {
			t.Fatal(err)
		} else if !strings.Contains(r.Text(), text.String()) {
			t.Errorf("%d bytes of the paste arrived, want %d", len(r.Text()), text.Len())
		}

		must(t, x.Keys(ctx, "C-z"))
		must(t, x.Prompt(ctx, "[after]"))
		must(t, home.API.WaitCount(ctx, standin.Any, "[after]", 1))

		const flags = "#{alternate_on} #{mouse_any_flag} #{mouse_sgr_flag} #{cursor_flag} #{keypad_cursor_flag} #{keypad_flag} #{insert_flag} #{wrap_flag} #{origin_flag} #{scroll_region_upper}-#{scroll_region_lower}"
		pid := 0 // the child that leads a session
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", x.Pid()))
		must(t, err)
		for _, file := range threads {
			children, err := os.ReadFile(file)
			must(t, err)
			for _, child := range strings.Fields(string(children)) {
				if n, err := strconv.Atoi(child); err == nil {
					if session, err := unix.Getsid(n); err == nil && session == n {
						pid = n
					}
				}
			}
		}
		if pid <= 1 {
			t.Fatal("the launcher has no program")
		}
		t.Logf("flags while it runs: %s, title %q", tmux("display-message", "-p", flags), tmux("display-message", "-p", "#{pane_title}"))
		must(t, unix.Kill(pid, unix.SIGKILL))
		until("ended", func() bool { return strings.Contains(x.Screen(), "ended: signal: killed") })
		if got, want := tmux("display-message", "-p", flags), "0 0 0 1 0 0 0 1 0 0-49"; got != want {
			t.Errorf("the terminal is left with %s, want %s", got, want)
		}
		if title := tmux("display-message", "-p", "#{pane_title}"); title != "" {
			t.Errorf("title %q", title)
		}
	})
}
