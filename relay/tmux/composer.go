package tmux

// Profile names a kind of program in a pane. It decides how the screen is read.
type Profile string

const (
	Claude  Profile = "claude"  // Claude Code
	Generic Profile = "generic" // any other program; its composer cannot be read
)

// Composer describes the box on the screen where a prompt is typed, and its surroundings.
//
// All texts come from the screen. They may contain anything that an agent can print.
type Composer struct {
	Found bool // a composer is on the screen, below everything else
	// Dialog is the question or the heading of the element that has the keyboard in place of the composer: a
	// question about permissions, a menu, the transcript.
	Dialog string
	// Draft is the text that is typed and not submitted. A long paste appears as "[Pasted text #1 +30
	// lines]", and a draft that is higher than the screen is cut. In bash mode the draft begins with "!".
	Draft  string
	Ghost  string // the program's suggestion in an empty composer
	Busy   bool   // the agent is working
	Queued int    // messages in the program's own queue; 1 may stand for more
	// Stashed means that the program keeps a draft, and restores it after the next prompt. It can keep one
	// draft.
	Stashed bool
}

// State returns the state that decides whether a message may be typed. A dialog takes precedence over a
// draft, and a draft over work.
func (c Composer) State() Reason {
	switch {
	case c.Dialog != "":
		return Dialog
	case !c.Found:
		return Unknown
	case c.Draft != "":
		return Draft
	case c.Busy:
		return Busy
	}
	return Empty
}

// Read reads a screen from `capture-pane -p -e`. With [Generic], it never finds a composer.
func (p Profile) Read(screen string) Composer {
	if p != Claude {
		return Composer{}
	}
	return readClaude(parseScreen(screen))
}

// BusyTitle reports whether the title of a pane shows that the agent is working. If it does not, that proves
// nothing: the title may be old, or another program's.
func (p Profile) BusyTitle(title string) bool {
	// The spinner has two frames: braille, or half circles. ✳ means idle.
	return p == Claude && busyTitle().MatchString(title)
}

var busyTitle = expression(`^[⠁-⣿◐-◓] `)
