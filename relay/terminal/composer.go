package terminal

import "strings"

// Profile names the kind of program in a pane, which decides how its screen is read.
type Profile string

const (
	Claude  Profile = "claude"  // Claude Code
	Generic Profile = "generic" // any other: its composer cannot be read
)

// Composer is what a screen shows of the box where a prompt is typed, and around it.
type Composer struct {
	Found  bool   // there is a composer on the screen
	Dialog string // the question of an open dialog
	Draft  string // what stands in the composer
	Ghost  string // what the program suggests there, which nobody typed
	Busy   bool   // the agent works
	Queued int    // messages that the program itself keeps until the end of the turn
}

// State is a [Composer] in one word.
type State string

const (
	StateUnknown State = "unknown" // no composer on the screen
	StateDialog  State = "dialog"
	StateDraft   State = "draft"
	StateBusy    State = "busy"
	StateEmpty   State = "empty"
)

// State is what decides whether a message may be typed: a dialog before a draft, before work.
func (c Composer) State() State {
	switch {
	case c.Dialog != "":
		return StateDialog
	case !c.Found:
		return StateUnknown
	case c.Draft != "":
		return StateDraft
	case c.Busy:
		return StateBusy
	}
	return StateEmpty
}

// Read reads a screen of `capture-pane -p -e`. A [Generic] composer is never found.
func (p Profile) Read(screen string) Composer {
	if p != Claude {
		return Composer{}
	}
	lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
	for end := len(lines) - 1; end > 0; end-- {
		if !strings.HasPrefix(lines[end], "────") {
			continue
		}
		for start := end - 1; start > 0; start-- {
			if draft, ok := strings.CutPrefix(lines[start], "❯"); ok && strings.HasPrefix(lines[start-1], "────") {
				draft = strings.Join(append([]string{draft}, lines[start+1:end]...), "\n")
				return Composer{
					Found: true, Draft: strings.TrimSpace(draft),
					Busy: strings.Contains(screen, "esc to interrupt"),
				}
			}
		}
	}
	return Composer{}
}
