package tmux

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// snapshot is the state of the pane before the paste. Enter must go to the same pane and program.
type snapshot struct {
	pane     Pane
	tty      tty
	composer Composer
}

// hold is the reason why a message is not typed; the zero value means that there is none.
type hold struct {
	reason Reason
	detail string
}

// look takes a snapshot with the composer at rest, and returns the reason to hold the message.
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

// glance takes a snapshot without waiting, and returns the reason if keys would be lost or misused.
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
		// The program may have ended meanwhile.
		if now, lookErr := d.ref.Look(ctx); lookErr != nil {
			return s, hold{}, lookErr
		} else if now.Dead {
			return s, hold{Dead, "the program has ended"}, nil
		}
		return s, hold{}, err
	}
	// With a profile, a shell that runs a script is allowed: the screen must show a composer as well.
	if isShell(pane.Command) && (d.profile == Generic || !s.tty.script()) {
		return s, hold{NotAgent, "a shell runs in front, " + pane.Command}, nil
	}
	if s.tty.canonical {
		return s, hold{NotRaw, pane.Command + " reads lines, not keys: it is not an agent with a prompt"}, nil
	}
	return s, hold{}, nil
}

// occupied returns the reason on the screen to hold the message. It also holds an interrupt that could do
// harm.
func (d *delivery) occupied(c Composer) hold {
	policy := d.message.Policy
	switch c.State() {
	case Dialog:
		return hold{Dialog, "the agent asks: " + c.Dialog}
	case Draft:
		return hold{Draft, "somebody has typed at the prompt"}
	case Busy:
		if policy == WhenIdle {
			return hold{Busy, "the agent works"}
		}
		if policy == Urgent && c.Queued > 0 {
			return hold{HasQueue, "the agent has messages in its own queue, and would work on them after ESC instead of stopping"}
		}
	case Unknown:
		if d.profile != Generic {
			return hold{Unknown, "the screen shows no known prompt"}
		}
		if policy == WhenIdle || policy == Urgent {
			return hold{Unknown, "with the profile generic, the screen does not show whether the program is busy"}
		}
	}
	return hold{}
}

var shells = []string{"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "csh", "tcsh", "ash", "busybox", "rbash", "nu", "pwsh", "elvish", "xonsh", "login"}

func isShell(command string) bool {
	command = strings.TrimPrefix(command, "-") // the name of a login shell begins with a hyphen
	return slices.Contains(shells, command) || command == filepath.Base(os.Getenv("SHELL"))
}

// changed returns the reason to hold a message to a pane that has changed since the snapshot.
func (d *delivery) changed(ctx context.Context, s snapshot) (hold, error) {
	now, h, err := d.glance(ctx)
	if err != nil || h.reason != "" {
		return h, err
	}
	if now.pane.Command != s.pane.Command || now.tty.foreground != s.tty.foreground {
		return hold{Changed, fmt.Sprintf("%s is in front now, in place of %s", now.pane.Command, s.pane.Command)}, nil
	}
	return hold{Changed, "the pane changed for a moment"}, nil
}
