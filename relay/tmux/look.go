package tmux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// snapshot is the pane before the paste. Enter goes to the same one.
type snapshot struct {
	pane     Pane
	tty      tty
	composer Composer
}

// hold is why not.
type hold struct {
	reason Reason
	detail string
}

// look takes the snapshot before a paste, and says what holds the message.
func (d *delivery) look(ctx context.Context) (snapshot, hold, error) {
	s, h, err := d.glance(ctx)
	if err != nil || h.reason != "" {
		return s, h, err
	}
	if s.composer, err = d.ref.Composer(ctx, d.profile); err != nil {
		return s, hold{}, err
	}
	return s, d.occupied(s.composer), nil
}

// glance takes a snapshot without waiting, and says what would swallow keys or misuse them.
func (d *delivery) glance(ctx context.Context) (snapshot, hold, error) {
	pane, composer, err := d.ref.read(ctx, d.profile)
	if err != nil {
		return snapshot{}, hold{}, err
	}
	s := snapshot{pane: pane, composer: composer}
	switch {
	case pane.Dead:
		return s, hold{Dead, "the program has ended"}, nil
	case pane.Mode != "":
		return s, hold{InMode, "somebody uses " + pane.Mode + " in the pane"}, nil
	case pane.InputOff:
		return s, hold{InputOff, "the input of the pane is switched off; tmux select-pane -e switches it on"}, nil
	case pane.Synchronized:
		return s, hold{Synchronized, "the keys of the window go to all its panes (synchronize-panes)"}, nil
	}
	if s.tty, err = pane.tty(); err != nil {
		// The program may have ended since.
		if now, lookErr := d.ref.Look(ctx); lookErr != nil {
			return s, hold{}, lookErr
		} else if now.Dead {
			return s, hold{Dead, "the program has ended"}, nil
		}
		return s, hold{}, err
	}
	// With a profile, the screen has to show a composer as well.
	if isShell(pane.Command) && (d.profile == Generic || !s.tty.script()) {
		return s, hold{NotAgent, "a shell runs in front, " + pane.Command}, nil
	}
	if s.tty.canonical {
		return s, hold{NotRaw, pane.Command + " reads lines, not keys: it is no agent with a prompt"}, nil
	}
	return s, hold{}, nil
}

// occupied says what on the screen holds the message. An interrupt is not tried if it could do harm.
func (d *delivery) occupied(c Composer) hold {
	policy := d.message.Policy
	switch c.State() {
	case StateDialog:
		return hold{Dialog, "the agent asks: " + c.Dialog}
	case StateDraft:
		return hold{Draft, "somebody has typed at the prompt"}
	case StateBusy:
		if policy == WhenIdle {
			return hold{Busy, "the agent works"}
		}
		if policy == Urgent && c.Queued > 0 {
			return hold{HasQueue, "the agent has messages in its own queue: after ESC it would work on them, not stop"}
		}
	case StateUnknown:
		if d.profile != Generic {
			return hold{Unknown, "the screen shows no prompt that is known"}
		}
		if policy == WhenIdle || policy == Urgent {
			return hold{Unknown, "whether the program is busy cannot be seen with the profile generic"}
		}
	}
	return hold{}
}

var shells = []string{"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash", "busybox", "rbash", "nu", "pwsh", "elvish", "xonsh", "login"}

func isShell(command string) bool {
	command = strings.TrimPrefix(command, "-") // of a login shell
	return slices.Contains(shells, command) || command == filepath.Base(os.Getenv("SHELL"))
}

// changed says what became of a pane that is not as in the snapshot.
func (d *delivery) changed(ctx context.Context, s snapshot) (hold, error) {
	now, h, err := d.glance(ctx)
	if err != nil || h.reason != "" {
		return h, err
	}
	if now.pane.Command != s.pane.Command || now.tty.foreground != s.tty.foreground {
		return hold{Changed, fmt.Sprintf("%s runs in front now, it was %s", now.pane.Command, s.pane.Command)}, nil
	}
	return hold{Changed, "the pane changed for a moment"}, nil
}
