package tmux

// Profile names the kind of program in a pane, which decides how its screen is read.
type Profile string

const (
	Claude  Profile = "claude"  // Claude Code
	Generic Profile = "generic" // any other: its composer cannot be read
)

// Composer is what a screen shows of the box where a prompt is typed, and around it.
//
// All texts come from the screen. They may hold anything that an agent can print.
type Composer struct {
	Found bool // there is a composer on the screen, below everything else
	// Dialog is the question of what has the keyboard instead of the composer, or its heading: a question about permissions, a
	// menu, the transcript.
	Dialog string
	// Draft is what somebody typed and did not submit. Long pastes are shown as "[Pasted text #1 +30 lines]", and a
	// draft that is higher than the screen is cut. In bash mode it begins with "!".
	Draft  string
	Ghost  string // what the program suggests in an empty composer
	Busy   bool   // the agent works
	Queued int    // messages that the program itself keeps for later; there may be more than this if there is one
	// Stashed says that the program keeps a draft that it brings back after the next prompt. It has room for one.
	Stashed bool
}

// State is what a pane shows, in one word.
type State string

const (
	StateEmpty   State = "empty"   // an agent waits at its prompt, at which nothing is typed
	StateDraft   State = "draft"   // a person has typed something
	StateBusy    State = "busy"    // an agent works, and nothing is typed at its prompt
	StateDialog  State = "dialog"  // an agent asks its person something
	StateUnknown State = "unknown" // the screen shows none of these
	StateClosed  State = "closed"  // a shell is in front, or a program that reads lines
	StateGone    State = "gone"    // the pane, or its server, is no more
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
	return readClaude(parseScreen(screen))
}

// BusyTitle reports whether the title of a pane says that the agent works. That it does not say so proves nothing: a
// title may be another program's, or old.
func (p Profile) BusyTitle(title string) bool {
	// A spinner of two frames: braille, or half circles. ✳ stands for idle.
	return p == Claude && busyTitle().MatchString(title)
}

var busyTitle = expression(`^[⠁-⣿◐-◓] `)
