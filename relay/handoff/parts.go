package handoff

import (
	"context"
	"os"
	"os/exec"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claude/interactive"
	"teambridge/relay/mode"
	"teambridge/relay/terminal"
)

// Terminal is the person's terminal.
type Terminal interface {
	Start(*exec.Cmd) (Program, error)
	Keys() <-chan terminal.Key // yields the hot key; while no program runs, every key
	SetNotice(text string)     // shows text before the program's title; "" removes it
	Print(lines string) error  // only while no program runs
}

// Program is the person's program in the terminal.
type Program interface {
	ID() agent.Process
	Pastes() bool         // whether it accepts keys, at its prompt or in a dialog
	Quiet() time.Duration // time since the person last typed
	Block()               // buffers typed keys instead of passing them on
	Unblock()             // passes the buffered keys on
	Take() []byte         // removes and returns the buffered keys
	Write([]byte) error   // sends keys as if typed
	Signal(os.Signal) error
	Kill() error
	Done() <-chan struct{}
	Wait() error
}

// Agent starts and inspects the person's program. Package interactive implements it.
type Agent interface {
	Launch(Start) (Launch, error)
	Unrun(session string, since time.Time) ([]string, error)
	Entered(session string, since time.Time) (bool, error)
	Elsewhere(session string, ours agent.Process) (pid int)
	Obstacle(ctx context.Context, session string, earlier ...string) (reason string, err error)
	PermissionMode(session string) (string, error)
}

// Start configures the start of the person's program.
type Start struct {
	Session string // the session to resume; "" for a new one
	Prefill string // text to put at its prompt
	Mode    mode.Mode
}

// Launch is one run of the person's program.
type Launch interface {
	Cmd() *exec.Cmd
	Session() string
	Paste() string // the part of the prefill that must be pasted
	Close() error
	Look(pid int) (interactive.State, error)
	// TakeDraft copies the text at the prompt. It calls press to press Ctrl-G. ok is false if the program
	// does not hand over the text before ctx ends.
	TakeDraft(ctx context.Context, press func() error) (text string, ok bool, err error)
}

// Remote is the relay of one remote phase.
type Remote interface {
	Run(context.Context) error
	Finish()                         // makes Run return nil after the running turn
	Interrupt(context.Context) error // stops the running turn
	Working() bool                   // whether a turn runs
	Key(terminal.Key)                // handles all keys except those of the switch
}

// StoreOf returns the parts of a ledger that a handoff needs.
func StoreOf(l *ledger.Ledger) Store {
	return struct {
		ledger.Sessions
		ledger.Deliveries
	}{l.Sessions, l.Deliveries}
}

// Store is the part of a [ledger.Ledger] that a handoff needs.
type Store interface {
	Session(context.Context, inbox.InboxKey) (ledger.Session, bool, error)
	SetSession(context.Context, ledger.Session) error
	Handoff(context.Context, inbox.InboxKey) (ledger.Handoff, bool, error)
	SetHandoff(context.Context, ledger.Handoff) error
	OpenCount(context.Context, inbox.InboxKey) (int, error)
	OpenPrompts(ctx context.Context, k inbox.InboxKey, after int64) (n int, newest int64, err error)
}
