// Package pane sends messages to agents in terminal panes that have no inbox.
//
// A pane is registered under a name ([Panes.Add]). The registered panes of a Claude root
// form the team [Team], which has no directory. The pane of a member of another team can be
// used without registration ([Panes.Member]).
//
// The ledger is the queue. [Panes.Put] records a message; [Panes.Run] in a service, or
// [Panes.Deliver] in a command, types it into the pane as package terminal does: one at a
// time for each pane, over all processes, important and urgent messages first and otherwise
// in the order of the ledger.
//
// # What is promised
//
//   - A message is pasted at most once, no matter when a process is killed. What was being
//     pasted is continued by the next process, with Enter if the composer shows exactly the
//     message, and is never pasted again. If nothing shows what became of it, it has failed
//     with a reason that begins with "unknown: ", and a person decides.
//   - A message that was certainly not sent is tried again after 1 s, doubled up to 60 s.
//     After [Expire] it has failed with a reason that begins with "not sent: ".
//   - A notification that a task has ended ([Message.Notify]) comes once, and may come late,
//     but not before the turn ended that had the message in it.
//
// # Ends of tasks
//
// If the transcript of the agent's program has the message, it also shows when the agent was
// given it, and the next end of a turn after that ends its task. Otherwise ends of turns are
// counted, as the Stop hook tells of them ([Panes.Stopped]): a message that was sent to a
// busy agent is staged, the next end of a turn arms it, and the one after that ends it. One
// that was sent to an idle agent is armed at once. A pane has one armed message; the others
// are staged.
package pane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/terminal"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/transcript"
)

// Team is the name of the team that the registered panes of a Claude root form.
const Team = ledger.PaneTeam

// Expire is how long a message waits before it has failed as not sent.
const Expire = 15 * time.Minute

// LongHeld is how long a person's draft may hold a message before the person is told.
const LongHeld = 2 * time.Minute

// Reasons of failed messages begin with one of these.
const (
	NotSent = "not sent: " // the pane got nothing
	Unknown = "unknown: "  // it was pasted, and nobody knows whether the program took it
)

// Options are those of [New]. Root, Ledger and State are needed.
type Options struct {
	Root   *teams.Root
	Ledger *ledger.Ledger
	State  string // our state directory

	// Locker is needed to notify members of other teams.
	Locker *lockedfile.Locker

	// Recorded, if not nil, is called after something was recorded in the ledger.
	Recorded func()
	// Changed, if not nil, is called when the messages or tasks of a pane changed, or what
	// holds them. It may be called by several goroutines.
	Changed func(ledger.InboxKey)
	// Warn, if not nil, gets errors that do not end Run or Deliver.
	Warn func(error)
}

// Panes are the terminal panes of a Claude root. It may be used by several goroutines.
type Panes struct {
	opts Options
	wake chan struct{}
}

// New returns the panes of a Claude root. It starts nothing.
func New(opts Options) *Panes {
	if opts.Recorded == nil {
		opts.Recorded = func() {}
	}
	if opts.Changed == nil {
		opts.Changed = func(ledger.InboxKey) {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Panes{opts: opts, wake: make(chan struct{}, 1)}
}

// A Pane is a registered pane, or the pane of a member of a team.
type Pane struct {
	ledger.InboxKey // Inbox is the name
	Ref             terminal.Ref
	Profile         terminal.Profile
	At              time.Time // when it was recorded
}

// Name is the name of the pane, or of the member.
func (p Pane) Name() string { return p.Inbox }

var (
	// ErrTeamExists means that a real team has the name of [Team].
	ErrTeamExists = errors.New("a team named " + Team + " exists")
	// ErrUnknown means that no message has the id.
	ErrUnknown = errors.New("no such message")
	// ErrBusy means that another process delivers a message to the pane.
	ErrBusy = errors.New("a message is being delivered to the pane")
)

// NotFoundError says that no pane is registered under a name.
type NotFoundError struct {
	Name  string
	Panes []Pane // what there is
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no pane is registered as %q", e.Name) }

// ExistsError says that a name or a pane is registered already.
type ExistsError struct {
	Pane Pane // as it is registered
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s is registered already, for pane %s", e.Pane.Inbox, e.Pane.Ref.ID)
}

// Registration is what [Panes.Add] registers. Name and Target are needed.
type Registration struct {
	Name    string
	Socket  string // of the tmux server; "" for the one a plain tmux would use
	Target  string // "%12", or session:window.pane
	Profile terminal.Profile
	// Replace gives a registered name another pane: what waits goes there. A pane does not
	// outlive its tmux server or its first process; afterwards this is needed.
	Replace bool
}

// Add registers a pane. The errors are [teams.ErrBadName], [ErrTeamExists], *[ExistsError],
// and those of [terminal.Resolve]. Nothing is sent to the pane.
func (p *Panes) Add(ctx context.Context, r Registration) (Pane, terminal.Pane, error) {
	return Pane{}, terminal.Pane{}, errNotBuilt
}

// Remove removes a registered pane. What waits for it is dropped, and it returns how many
// messages those are. Senders who wait for a notification are told that none will come. The
// errors are *[NotFoundError] and [ErrBusy].
func (p *Panes) Remove(ctx context.Context, name string) (dropped int, err error) {
	return 0, errNotBuilt
}

// List returns the registered panes, sorted by name.
func (p *Panes) List(ctx context.Context) ([]Pane, error) { return nil, errNotBuilt }

// Find returns the pane that is registered under a name, or a *[NotFoundError].
func (p *Panes) Find(ctx context.Context, name string) (Pane, error) { return Pane{}, errNotBuilt }

// Member records the pane of a member of a team, as its config.json names it, and returns
// it. Messages to the member can then be put there.
func (p *Panes) Member(ctx context.Context, k ledger.InboxKey, ref terminal.Ref, profile terminal.Profile) (Pane, error) {
	return Pane{}, errNotBuilt
}

// Message is what is sent to a pane. Only Text is needed.
type Message struct {
	ID        string // sending twice under one id is sending once; empty: a new id
	From      string // as the agent and the history show it; empty: the person
	Text      string
	Summary   string
	Policy    terminal.Policy // empty: [terminal.Queued]
	SaveDraft bool            // a person's draft may be cut, and is put back

	// Notify asks for a notification when the agent has ended the task. It goes to the inbox
	// NotifyTo, which can be a pane, or to the person if that is zero.
	Notify   bool
	NotifyTo ledger.InboxKey
}

// Put records a message for a pane, and returns its record; again is true if it was put
// before. It is on the disk when Put returns. The errors are those of
// [terminal.Message.Check] and [ledger.Ledger.AddPaneMessage]: [ledger.ErrConflict] if the id
// belongs to another message.
func (p *Panes) Put(ctx context.Context, to Pane, m Message) (_ ledger.PaneMessage, again bool, err error) {
	return ledger.PaneMessage{}, false, errNotBuilt
}

// Message returns the record of a message, by the uuid of its delivery. [ErrUnknown].
func (p *Panes) Message(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	return ledger.PaneMessage{}, errNotBuilt
}

// Await waits until a message has an outcome: it is done, failed or dropped. The caller
// knows that a service runs the queue. If ctx ends first, Await returns the record as it is,
// and the error of ctx.
func (p *Panes) Await(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	return ledger.PaneMessage{}, errNotBuilt
}

// Deliver runs the queue of a message's pane until the message has an outcome. If ctx ends
// first and nothing was sent, the message has failed as not sent, and a nil error is
// returned: it does not come as a surprise later.
func (p *Panes) Deliver(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	return ledger.PaneMessage{}, errNotBuilt
}

// Run delivers the messages of all panes, follows their tasks, and notifies senders, until
// ctx ends. It returns when the deliveries that had begun are finished.
func (p *Panes) Run(ctx context.Context) error { return errNotBuilt }

// Poke makes Run look at the ledger now. It does not block.
func (p *Panes) Poke() {
	select {
	case p.wake <- struct{}{}:
	default: // already told
	}
}

// State is what the program in a pane does now.
type State string

const (
	Idle    State = "idle"    // its composer is empty
	Draft   State = "draft"   // a person has typed something
	Working State = "working" // it works
	Dialog  State = "dialog"  // it asks the person something
	NoAgent State = "shell"   // a shell is in front, or a program that reads lines
	Gone    State = "gone"    // the pane, or its server, is no more
	Unclear State = "unclear" // the screen does not say
)

// Basis is what a State rests on.
type Basis string

const (
	OnProcess Basis = "process" // sessions/<pid>.json of its process
	OnScreen  Basis = "screen"  // the composer on the screen
	OnPane    Basis = "pane"    // what tmux says of the pane
)

// View is what is known of a pane at one time.
type View struct {
	Pane     Pane
	State    State
	Why      string    // what it asks, or why nothing can be said, for people
	Since    time.Time // when State began, as far as it is known; else zero
	Basis    Basis
	At       time.Time // when it was seen
	Terminal terminal.Pane
	Composer terminal.Composer
	Process  transcript.Process // of the agent; zero if unknown
	PID      int                // of the agent, or of the first process in the pane

	Messages []ledger.PaneMessage // that have not ended, or whose tasks have not, in the order of delivery
}

// Waiting returns the messages that wait, in the order of delivery.
func (v View) Waiting() (list []ledger.PaneMessage) {
	for _, m := range v.Messages {
		if m.State == ledger.Claimed {
			list = append(list, m)
		}
	}
	return list
}

// Look tells what the program in a pane does now. A pane that is gone is no error.
func (p *Panes) Look(ctx context.Context, of Pane) (View, error) { return View{}, errNotBuilt }

// Busy says why a pane is not idle: its program is not, or a message of ours waits, is being
// delivered or was not yet worked off. It is "" in the one case that two looks show an idle
// program and there is no such message. See [Panes.Look].
func (p *Panes) Busy(ctx context.Context, of Pane) (why string, err error) { return "", errNotBuilt }

// Stop is what the Stop hook of an agent's program tells.
type Stop struct {
	Session    string
	Transcript string // path of the transcript
	Answer     string // what the agent said last, if the program tells it

	Socket string // of the tmux server, from $TMUX; "" if the program is in no pane
	Server int    // pid of the server, from $TMUX
	PaneID string // $TMUX_PANE
}

// Stopped records that a turn of an agent has ended, and notifies the senders of messages
// whose tasks have ended with it. It waits up to a second, or until ctx ends, for the
// program to write the end into its transcript.
func (p *Panes) Stopped(ctx context.Context, s Stop) error { return errNotBuilt }

// Answer returns the agent's answer to a message, as a row of an inbox, or nil while its task
// has not ended. done is true once it has. [ErrUnknown].
func (p *Panes) Answer(ctx context.Context, uuid string) (row []byte, done bool, err error) {
	return nil, false, errNotBuilt
}

// AwaitAnswer waits until the task of a message has ended, or ctx ends. It follows the task
// itself, so that it needs no service.
func (p *Panes) AwaitAnswer(ctx context.Context, uuid string) (ledger.PaneMessage, error) {
	return ledger.PaneMessage{}, errNotBuilt
}

// Notice is a notification that the task of a message has ended.
type Notice struct {
	ID   string    // for [ledger.Ledger.Dismiss]
	At   time.Time // when the task ended
	Lost string    // why its end was not seen; "" if it was
	Text string    // one paragraph for people or agents
	ledger.PaneMessage
}

// Notices returns the notifications for the person that were not dismissed, oldest first.
func (p *Panes) Notices(ctx context.Context) ([]Notice, error) { return nil, errNotBuilt }

var errNotBuilt = errors.New("pane: not built yet")
