// Package pane sends messages to agents that have no inbox: in terminal panes, and in sessions outside teams.
//
// A pane is registered under a name ([Registry.Add]). The registered panes of a Claude root
// form the team [Team], which has no directory. The pane of a member of another team can be
// used without registration ([Registry.Member]).
//
// The ledger is the queue. [Queue.Put] records a message; [Panes.Run] in a service, or
// [Queue.Deliver] in a command, types it into the pane as package tmux does: one at a
// time for each pane, over all processes, important and urgent messages first and otherwise
// in the order of the ledger.
//
// # What is promised
//
//   - A message is pasted at most once, no matter when a process is killed. The next process
//     continues an interrupted paste: it presses Enter if the composer shows exactly the
//     message, and never pastes again. If nothing shows whether the agent has the message, it
//     has failed as [ledger.CauseUnknown], and a person decides.
//   - A message that was certainly not sent is tried again after 1 s, doubled up to 60 s.
//     After [Expire] it has failed as [ledger.CauseNotSent].
//   - A notification that a task has ended ([Message.Notify]) comes once. It may come late,
//     but not before the message's turn has ended.
//
// # Ends of tasks
//
// If the transcript of the agent's program has the message, it also shows when the agent was
// given it, and the next end of a turn after that ends its task. Otherwise the ends of turns
// that the Stop hook reports are counted ([Tasks.Stopped]): a message that was sent to a busy
// agent is staged, the next end of a turn arms it, and the end of the turn after that ends
// its task. A message that was sent to an idle agent is armed at once. A pane has one armed
// message; the others are staged.
package pane

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/peer"
	"teambridge/relay/process"
	"teambridge/relay/tmux"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
	"teambridge/teams/transcript"
)

// Team is the name of the team that the registered panes of a Claude root form.
const Team = ledger.PaneTeam

// Expire is how long a message waits before it has failed as not sent.
const Expire = 15 * time.Minute

// LongHeld is how long a person's draft may hold a message before it is reported to the person.
const LongHeld = 2 * time.Minute

// altered is why a message has failed that the transcript has with another text.
const altered = "what arrived differs from what was sent"

// Options are the options of [New]. Root, Ledger and State are needed.
type Options struct {
	Root   *teams.Root
	Ledger *ledger.Ledger
	State  string // our state directory

	// Homes are the directories with the sessions of other programs.
	Homes Homes

	// Locker is needed to notify members of other teams.
	Locker *lockedfile.Locker

	// Notified promises that [Panes.Poke] is called after each change of the ledger. Run then polls
	// the ledger only while there are panes.
	Notified bool

	// As is the name under which sessions list us, so that their agents can write to the person without a message
	// from us first. If it is "", sessions do not list us.
	As string

	// Recorded, if not nil, is called after each change of the ledger.
	Recorded func()
	// Changed, if not nil, is called when the messages or tasks of a pane, or their holds,
	// have changed. It may be called by several goroutines.
	Changed func(inbox.InboxKey)
	// Warn, if not nil, gets errors that do not end Run or Deliver.
	Warn func(error)
}

// Panes are the terminal panes and the sessions of a Claude root. It may be used by several goroutines.
type Panes struct {
	*shared
	Registry *Registry
	Sessions *Sessions
	Views    *Views
	Queue    *Queue
	Tasks    *Tasks
	Incoming *Incoming
}

// Registry has the panes that are registered under a name, or recorded for a member of a team.
type Registry struct{ *shared }

// Sessions finds the agents that are in no team, by name and by process.
type Sessions struct{ *shared }

// Views reports the state of the programs in panes and sessions.
type Views struct{ *shared }

// Queue has the messages that wait for a pane or a session, and those that are being delivered.
type Queue struct{ *shared }

// Tasks follows the work of agents on the messages that they have, until their turns end.
type Tasks struct {
	*shared
	idle map[string]time.Time // by uuid of a message without an end of its turn: since when its agent is idle
}

// Incoming has the messages of the agents of sessions to the person.
type Incoming struct {
	*shared
	mailbox *peer.Mailbox // it also gets the reports of sessions on our messages
	open    int           // number of users of mailbox
}

// transcripts has the transcripts that are followed.
type transcripts struct {
	*shared
	files map[string]*conversation // by path
}

// shared holds the parts of a [Panes], and the resources that all of them use.
type shared struct {
	opts    Options
	timing  timing
	tmux    actions
	wake    chan struct{}
	respawn func(ctx context.Context, root, job string) error

	registry    *Registry
	sessions    *Sessions
	views       *Views
	queue       *Queue
	carrier     *carrier
	tasks       *Tasks
	incoming    *Incoming
	transcripts *transcripts

	mu     sync.Mutex      // guards the fields of all parts that change
	warned map[string]bool // texts that were passed to first

	future map[time.Time]time.Time // when messages were first seen that are sent in the future: see tokens
}

// timing has the intervals and limits of all waiting.
type timing struct {
	every, quiet     time.Duration // between two looks at the ledger, and if there are no panes
	follow           time.Duration // between two looks at a task
	firstTry, maxTry time.Duration // between two tries
	expire           time.Duration
	finish           time.Duration // how long a delivery may continue after its context has ended
	look             time.Duration // between two looks at a program that seems to be idle
	lag              time.Duration // how long a transcript may lag behind a paste
	recent           time.Duration // how long before a hook the turn may have ended
	record           time.Duration // between two looks for the end of a turn in a transcript
	settle           time.Duration // how long a session may take to show a message
	repeat           time.Duration // after which a message that it does not show may be sent again
	refill           time.Duration // after which a session takes one more message
}

var usual = timing{
	every: 250 * time.Millisecond, quiet: 2 * time.Second, follow: time.Second, firstTry: time.Second, maxTry: time.Minute, expire: Expire, finish: 5 * time.Second,
	look: 200 * time.Millisecond, lag: 10 * time.Second, recent: 3 * time.Second, record: 50 * time.Millisecond, settle: 3 * time.Second, repeat: peer.Repeat, refill: peer.Refill,
}

// New returns the panes of a Claude root. It starts nothing.
func New(opts Options) *Panes {
	if opts.Recorded == nil {
		opts.Recorded = func() {}
	}
	if opts.Changed == nil {
		opts.Changed = func(inbox.InboxKey) {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	s := &shared{opts: opts, timing: usual, tmux: real, respawn: respawn, wake: make(chan struct{}, 1), warned: map[string]bool{}, future: map[time.Time]time.Time{}}
	s.registry, s.sessions, s.views, s.queue, s.carrier = &Registry{s}, &Sessions{s}, &Views{s}, &Queue{s}, &carrier{s}
	s.tasks, s.transcripts = &Tasks{s, map[string]time.Time{}}, &transcripts{s, map[string]*conversation{}}
	s.incoming = &Incoming{shared: s}
	s.incoming.mailbox = peer.Open(opts.State, s.incoming.take)
	return &Panes{s, s.registry, s.sessions, s.views, s.queue, s.tasks, s.incoming}
}

// actions are the calls of tmux, and of the system about processes. Tests replace them.
type actions struct {
	resolve  func(ctx context.Context, socket, target string) (tmux.Pane, error)
	look     func(context.Context, tmux.Ref) (tmux.Pane, error)
	composer func(context.Context, tmux.Ref, tmux.Profile) (tmux.Composer, error)
	held     func(context.Context, tmux.Ref, tmux.Profile, tmux.Policy) (tmux.Reason, string, error)
	send     func(context.Context, tmux.Ref, tmux.Profile, tmux.Input, tmux.Steps) (tmux.Outcome, error)
	resume   func(_ context.Context, _ tmux.Ref, _ tmux.Profile, _ tmux.Input, entered bool, _ tmux.Steps) (tmux.Outcome, error)
	parent   func(pid int) int // 0 if it does not run
}

var real = actions{
	resolve: tmux.Resolve, look: func(ctx context.Context, r tmux.Ref) (tmux.Pane, error) { return r.Look(ctx) },
	composer: func(ctx context.Context, r tmux.Ref, p tmux.Profile) (tmux.Composer, error) {
		return r.Composer(ctx, p)
	},
	held: func(ctx context.Context, r tmux.Ref, p tmux.Profile, policy tmux.Policy) (tmux.Reason, string, error) {
		return r.Held(ctx, p, policy)
	},
	send: tmux.Deliver, resume: tmux.Continue, parent: process.Parent,
}

// A Pane is a registered pane, the pane of a member of a team, or, in the team [SessionTeam], a session.
type Pane struct {
	inbox.InboxKey          // Inbox is the name
	Ref            tmux.Ref // of a session: its socket, its id and its process
	Start          string   // of a session: when its process started, in its own words; see also [Homes.Processes]
	Cwd            string   // of a session
	Home           string   // the directory of its program, one of [Homes]; "" for a pane and a session of Claude Code
	Job            string   // of a living session in the background: its key in Claude Code
	Title          string   // of a living session: its present name, while Inbox may be an earlier one
	Ended          bool     // of a session among others ([Sessions.Around]): it has no process
	Profile        tmux.Profile
	At             time.Time // when it was recorded
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
	Panes []Pane // all that are registered
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no pane is registered as %q", e.Name) }

// NoPaneError says that config.json names no tmux pane for a member.
type NoPaneError struct{ Team, Member string }

func (e *NoPaneError) Error() string {
	return fmt.Sprintf("config.json has no tmux pane for %s@%s", e.Member, e.Team)
}

// SenderError says that a name without a team is no registered pane, and that no living team,
// or more than one, has a member of that name.
type SenderError struct {
	Name  string
	Teams []string // the living teams that have it
}

func (e *SenderError) Error() string {
	if len(e.Teams) == 0 {
		return fmt.Sprintf("the sender %s is no pane, and no member of a living team", e.Name)
	}
	return fmt.Sprintf("the sender %s is no pane, and a member of %d teams", e.Name, len(e.Teams))
}

// ExistsError says that a name or a pane is registered already.
type ExistsError struct {
	Pane Pane // as it is registered
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("%s is registered already, for pane %s", e.Pane.Inbox, e.Pane.Ref.ID)
}

// ProfileError names a profile that does not exist.
type ProfileError struct{ Profile tmux.Profile }

func (e *ProfileError) Error() string {
	return fmt.Sprintf("there is no profile %q; there are %s and %s", e.Profile, tmux.Claude, tmux.Generic)
}

// Registration describes a pane for [Registry.Add]. Name and Target are needed.
type Registration struct {
	Name    string
	Socket  string // of the tmux server; "" for the one a plain tmux would use
	Target  string // "%12", or session:window.pane
	Profile tmux.Profile
	// Replace gives a registered name another pane, which gets the messages that wait. It is
	// needed after the tmux server or the first process of the old pane has ended.
	Replace bool
}

// Message is a message to a pane or session. Only Text is needed.
type Message struct {
	ID        string // a second message with the same id is not sent; empty: a new id
	From      string // as the agent and the history show it; empty: the person
	Text      string
	Summary   string
	Policy    tmux.Policy // empty: [tmux.Queued]
	SaveDraft bool        // a person's draft may be cut, and is put back

	// Notify asks for a notification when the agent has ended the task. It goes to the inbox
	// NotifyTo, which can be a pane, or to the person if NotifyTo is zero.
	Notify   bool
	NotifyTo inbox.InboxKey
}

// Basis is the source of the State of a [View].
type Basis string

const (
	OnProcess Basis = "process" // sessions/<pid>.json of its process
	OnScreen  Basis = "screen"  // the composer on the screen
	OnPane    Basis = "pane"    // what tmux reports of the pane
)

// View is the state of a pane or session as it was seen at one time.
type View struct {
	Pane     Pane
	State    tmux.Reason
	Why      string    // for people: the question of a dialog, or the reason for another State
	Since    time.Time // when State began, as far as it is known; else zero
	Basis    Basis
	At       time.Time // when it was seen
	Terminal tmux.Pane
	Composer tmux.Composer
	Process  transcript.Process // of the agent; zero if unknown
	PID      int                // of the agent, or of the first process in the pane

	Messages []ledger.PaneMessage // with an open delivery or task, in the order of delivery
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

// Stop is a report of the Stop hook of an agent's program.
type Stop struct {
	Session    string
	Transcript string // path of the transcript
	Answer     string // the agent's last text, if the program reports it

	Socket string // of the tmux server, from $TMUX; "" if the program is in no pane
	Server int    // pid of the server, from $TMUX
	PaneID string // $TMUX_PANE
}

// Notice is a notification that the task of a message has ended.
type Notice struct {
	ID   string    // for [ledger.Person.Dismiss]
	At   time.Time // when the task ended
	Lost string    // why the end of the task was not seen; "" if it was
	Text string    // one paragraph for people or agents
	ledger.PaneMessage
}
