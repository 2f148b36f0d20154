package tmux

// Outcome is the result of a delivery.
type Outcome struct {
	State  Result
	Reason Reason // why the message is not confirmed; "" if it is
	Detail string // a sentence for a person; it may quote the screen, so escape it for terminals
	Shown  bool   // [Steps.Submitted] is the proof; otherwise the composer, which showed the text only before Enter

	Busy    bool // the agent was working when the text was pasted
	Pasted  bool // the text was sent to the pane
	Enters  int  // how often Enter was pressed, by this process
	Escaped bool // ESC was sent
	Stashed bool // a draft was put aside, and returns with the next submitted prompt
}

// Result is the end of a delivery.
type Result string

const (
	Confirmed   Result = "confirmed"   // the program has the message
	Unconfirmed Result = "unconfirmed" // pasted, and perhaps not submitted; only a person may decide to repeat it
	NotSent     Result = "not_sent"    // nothing was pasted, so it can be sent later
)

// Reason is the state of a pane in one word, why a message is held, or why its submission is unknown.
type Reason string

const (
	Empty        Reason = "empty"        // only a state: an agent waits at an empty prompt
	Closed       Reason = "closed"       // only a state: NotAgent or NotRaw
	NotAgent     Reason = "not_agent"    // a shell is in front
	NotRaw       Reason = "not_raw"      // the terminal is in canonical mode: the program reads lines, not keys
	Draft        Reason = "draft"        // a person has typed a draft
	Dialog       Reason = "dialog"       // the program asks a question, which Enter would answer
	Busy         Reason = "busy"         // the agent is working, and the policy is WhenIdle; or it did not stop after ESC
	HasQueue     Reason = "has_queue"    // after ESC, the agent would work on the messages of its own queue
	Unknown      Reason = "unknown"      // the screen shows no composer
	InMode       Reason = "in_mode"      // a person reads in copy mode, clock mode, …
	InputOff     Reason = "input_off"    // tmux select-pane -d
	Synchronized Reason = "synchronized" // keys would go to other panes too
	Dead         Reason = "dead"         // the program has ended, and tmux kept the pane
	Gone         Reason = "gone"         // the pane or its server no longer exists
	Changed      Reason = "changed"      // the pane, or the program in front, changed between two looks
	TooSoon      Reason = "too_soon"     // less than two seconds since the last ESC
	Outdated     Reason = "outdated"     // set by callers: the program is known to be too old
	Refused      Reason = "refused"      // set by callers: the agent, or its person, does not want it
	Altered      Reason = "altered"      // set by callers: the agent has another text than was sent

	Stuck     Reason = "stuck"      // the program did not read the whole text, so Enter was not pressed
	NotShown  Reason = "not_shown"  // the composer does not show the text, so Enter was not pressed
	Mixed     Reason = "mixed"      // the composer shows more than our text, so Enter was not pressed
	NotTaken  Reason = "not_taken"  // Enter was pressed three times, or at most once with a draft put aside, and the text is still in the composer
	NotProven Reason = "not_proven" // Enter was pressed, and nothing shows whether the message was submitted
)

// NoAgent reports whether a message is held because no agent is in the pane.
func (r Reason) NoAgent() bool { return r == NotAgent || r == NotRaw }

// Lasting reports whether the reason does not pass on its own: the pane is gone, no agent is in it, or the
// agent is too old.
func (r Reason) Lasting() bool { return r == Gone || r == Dead || r == Outdated || r.NoAgent() }
