package tmux

// Outcome says what became of a delivery.
type Outcome struct {
	State  Result
	Reason Reason // why it is not confirmed; empty if it is
	Detail string // a sentence for a person; may quote the screen, so escape it for terminals
	Shown  bool   // [Steps.Submitted] has confirmed it, and not the composer, which showed the text before Enter and not after it

	Busy    bool // the agent worked when the text was pasted
	Pasted  bool // the text went to the pane
	Enters  int  // how often Enter was pressed, by this process
	Escaped bool // ESC was sent
	Stashed bool // a draft was put aside: it comes back with the next prompt that is submitted
}

// Result is how a delivery ended.
type Result string

const (
	Confirmed   Result = "confirmed"   // the program has the message
	Unconfirmed Result = "unconfirmed" // pasted, and not known to be submitted: never repeat it without a person
	NotSent     Result = "not_sent"    // nothing was pasted: it can be sent later
)

// Reason is why a message is held, or why it is not known to be submitted.
type Reason string

const (
	NotAgent     Reason = "not_agent"    // a shell is in front
	NotRaw       Reason = "not_raw"      // the terminal is in canonical mode: the program reads lines, no keys
	Draft        Reason = "draft"        // a person has typed something
	Dialog       Reason = "dialog"       // the program asks something, which Enter would answer
	Busy         Reason = "busy"         // the agent works, and the policy is WhenIdle; or it did not stop after ESC
	HasQueue     Reason = "has_queue"    // after ESC the agent would work on messages of its own queue
	Unknown      Reason = "unknown"      // the screen shows no composer
	InMode       Reason = "in_mode"      // copy mode, clock mode: a person reads
	InputOff     Reason = "input_off"    // tmux select-pane -d
	Synchronized Reason = "synchronized" // keys would go to other panes too
	Dead         Reason = "dead"         // the program has ended, and tmux kept the pane
	Gone         Reason = "gone"         // the pane, or its server, is no more
	Changed      Reason = "changed"      // the pane or the program in front became another between two looks
	TooSoon      Reason = "too_soon"     // less than two seconds since the last ESC
	Outdated     Reason = "outdated"     // of callers: the program is known to be too old
	Refused      Reason = "refused"      // of callers: the agent, or its person, does not want it
	Altered      Reason = "altered"      // of callers: the agent has another text than was sent

	Stuck     Reason = "stuck"      // the program did not read all of the text, so Enter was not pressed
	NotShown  Reason = "not_shown"  // the composer does not show the text, so Enter was not pressed
	Mixed     Reason = "mixed"      // the composer shows more than our text, so Enter was not pressed
	NotTaken  Reason = "not_taken"  // Enter was pressed three times, or at most once with a draft put aside, and the text is still in the composer
	NotProven Reason = "not_proven" // Enter was pressed, and nothing shows what became of it
)

// NoAgent reports whether a message is held because no agent is in the pane.
func (r Reason) NoAgent() bool { return r == NotAgent || r == NotRaw }

// Lasting reports whether what holds a message does not pass by itself: the pane is gone, or no
// agent is in it, or one that is too old.
func (r Reason) Lasting() bool { return r == Gone || r == Dead || r == Outdated || r.NoAgent() }
