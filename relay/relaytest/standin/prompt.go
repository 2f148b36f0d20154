package standin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// PromptTerminal is an interactive Codex or Qwen Code in a tmux server of its own.
type PromptTerminal struct {
	*Terminal
	mark string // the mark before a prompt on the screen
}

// startPromptTerminal starts a program, and returns when its screen has a text, and a prompt can be typed.
func startPromptTerminal(t testing.TB, h *Home, mark, ready string, command []string) *PromptTerminal {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // Qwen Code takes 20 s on a busy machine
	defer cancel()
	p := &PromptTerminal{Terminal: startCommand(ctx, t, h, []string{"env", "-i"}, command), mark: mark}
	if err := p.Shows(ctx, func(screen string) bool {
		return strings.Contains(screen, ready) && strings.Contains(screen, "\n"+mark)
	}); err != nil {
		t.Fatal(err)
	}
	return p
}

// Prompt types a text of one line, and sends it off.
func (p *PromptTerminal) Prompt(ctx context.Context, text string) error {
	if err := p.Keys(ctx, "-l", text); err != nil {
		return err
	}
	last := func(screen string) string { // the text in the composer
		lines := strings.Split(screen, "\n")
		for _, line := range slices.Backward(lines) {
			if in, ok := strings.CutPrefix(line, p.mark); ok {
				return in
			}
		}
		return ""
	}
	start := text[:min(len(text), 30)]
	if err := p.Shows(ctx, func(screen string) bool { return strings.HasPrefix(last(screen), start) }); err != nil {
		return err
	}
	for {
		if err := p.Keys(ctx, "Enter"); err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, settle)
		err := p.Shows(soon, func(screen string) bool { return !strings.HasPrefix(last(screen), start) })
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// Shows waits until the screen is as wanted, in two looks in a row.
func (p *PromptTerminal) Shows(ctx context.Context, want func(screen string) bool) error {
	looks := 0
	err := poll(ctx, func() (bool, error) {
		screen, err := p.capture(ctx)
		if err != nil {
			return false, err
		}
		if want(screen) {
			looks++
		} else {
			looks = 0
		}
		return looks >= 2, nil
	})
	if err != nil {
		return fmt.Errorf("standin: %w; the terminal shows:\n%s", err, p.Screen())
	}
	return nil
}
