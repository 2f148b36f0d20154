// Package pane sends messages to agents in terminal panes that have no inbox.
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
//   - A message is pasted at most once, no matter when a process is killed. What was being
//     pasted is continued by the next process, with Enter if the composer shows exactly the
//     message, and is never pasted again. If nothing shows what became of it, it has failed
//     as [ledger.CauseUnknown], and a person decides.
//   - A message that was certainly not sent is tried again after 1 s, doubled up to 60 s.
//     After [Expire] it has failed as [ledger.CauseNotSent].
//   - A notification that a task has ended ([Message.Notify]) comes once, and may come late,
//     but not before the turn ended that had the message in it.
//
// # Ends of tasks
//
// If the transcript of the agent's program has the message, it also shows when the agent was
// given it, and the next end of a turn after that ends its task. Otherwise ends of turns are
// counted, as the Stop hook tells of them ([Tasks.Stopped]): a message that was sent to a
// busy agent is staged, the next end of a turn arms it, and the one after that ends it. One
// that was sent to an idle agent is armed at once. A pane has one armed message; the others
// are staged.
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

// altered is what is known of a message that the transcript names, with another text.
const altered = "what arrived differs from what was sent"

// Options are the options of [New]. Root, Ledger and State are needed.
type Options struct {
	Root   *teams.Root
	Ledger *ledger.Ledger
	State  string // our state directory

	// Homes are where the sessions of other programs are.
	Homes Homes

	// Locker is needed to notify members of other teams.
	Locker *lockedfile.Locker

	// Told says that [Panes.Poke] is called after each change of the ledger: without that, Run
	// then reads it only if there are panes.
	Told bool

	// As is the name under which sessions list us, so that their agents can write to the person first; "": they do
	// not.
	As string

	// Recorded, if not nil, is called after something was recorded in the ledger.
	Recorded func()
	// Changed, if not nil, is called when the messages or tasks of a pane changed, or what
	// holds them. It may be called by several goroutines.
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

// Registry are the panes that are registered under a name, or recorded for a member of a team.
type Registry struct{ *shared }

// Sessions are the agents that are in no team, by name and by process.
type Sessions struct{ *shared }

// Views tell what the programs in panes and sessions do now.
type Views struct{ *shared }

// Queue has the messages that wait for a pane or a session, and those that are being delivered.
type Queue struct{ *shared }

// Tasks are what agents do about the messages that they have, until their turns end.
type Tasks struct {
	*shared
	idle map[string]time.Time // messages whose turns seem to be broken off, since when
}

// Incoming is what the agents of sessions write to the person.
type Incoming struct {
	*shared
	mailbox *peer.Mailbox // in which sessions also say what became of messages
	open    int           // how many use it
}

// transcripts are the conversations that are followed.
type transcripts struct {
	*shared
	files map[string]*conversation // by path
}

// shared is what each of them has of the others and of what they use.
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

	mu     sync.Mutex      // for what changes, also in the others
	warned map[string]bool // messages about which Warn was told
}

// timing is how long things take, or are waited for.
type timing struct {
	every, quiet     time.Duration // between two looks at the ledger, and if there are no panes
	follow           time.Duration // between two looks at a task
	firstTry, maxTry time.Duration // between two tries
	expire           time.Duration
	finish           time.Duration // how long a delivery may go on after its context has ended
	look             time.Duration // between two looks at a program that seems to be idle
	lag              time.Duration // how long after a paste its transcript may not show it
	recent           time.Duration // how long before a hook the turn may have ended
	record           time.Duration // between two looks for the end of a turn in a transcript
	settle           time.Duration // how long a session may take to show what it was sent
	repeat           time.Duration // after which it may be sent it again, if it has not
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
	s := &shared{opts: opts, timing: usual, tmux: real, respawn: respawn, wake: make(chan struct{}, 1), warned: map[string]bool{}}
	s.registry, s.sessions, s.views, s.queue, s.carrier = &Registry{s}, &Sessions{s}, &Views{s}, &Queue{s}, &carrier{s}
	s.tasks, s.transcripts = &Tasks{s, map[string]time.Time{}}, &transcripts{s, map[string]*conversation{}}
	s.incoming = &Incoming{shared: s}
	s.incoming.mailbox = peer.Open(opts.State, s.incoming.take)
	return &Panes{s, s.registry, s.sessions, s.views, s.queue, s.tasks, s.incoming}
}

// actions are what is done with tmux, and what is asked about processes.
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
	Start          string   // of a session: when its process started, as it says itself; see also [Homes.Processes]
	Cwd            string   // of a session
	Job            string   // of a session in the background that lives: what Claude Code calls it
	Title          string   // of a session that lives: what it is called now, which Inbox may once have been
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
	Panes []Pane // what there is
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("no pane is registered as %q", e.Name) }

// NoPaneError says that config.json names no tmux pane for a member.
type NoPaneError struct{ Team, Member string }

func (e *NoPaneError) Error() string {
	return fmt.Sprintf("config.json has no tmux pane for %s@%s", e.Member, e.Team)
}

// SenderError says that a name without a team is no registered pane, and not of one living
// team: of none, or of several.
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

// ProfileError says that there is no such profile.
type ProfileError struct{ Profile tmux.Profile }

func (e *ProfileError) Error() string {
	return fmt.Sprintf("there is no profile %q; there are %s and %s", e.Profile, tmux.Claude, tmux.Generic)
}

// Registration is what [Registry.Add] registers. Name and Target are needed.
type Registration struct {
	Name    string
	Socket  string // of the tmux server; "" for the one a plain tmux would use
	Target  string // "%12", or session:window.pane
	Profile tmux.Profile
	// Replace gives a registered name another pane: what waits goes there. A pane does not
	// outlive its tmux server or its first process; afterwards this is needed.
	Replace bool
}

// Message is what is sent to a pane. Only Text is needed.
type Message struct {
	ID        string // sending twice under one id is sending once; empty: a new id
	From      string // as the agent and the history show it; empty: the person
	Text      string
	Summary   string
	Policy    tmux.Policy // empty: [tmux.Queued]
	SaveDraft bool        // a person's draft may be cut, and is put back

	// Notify asks for a notification when the agent has ended the task. It goes to the inbox
	// NotifyTo, which can be a pane, or to the person if that is zero.
	Notify   bool
	NotifyTo inbox.InboxKey
}

// Basis is what the State of a [View] rests on.
type Basis string

const (
	OnProcess Basis = "process" // sessions/<pid>.json of its process
	OnScreen  Basis = "screen"  // the composer on the screen
	OnPane    Basis = "pane"    // what tmux says of the pane
)

// View is what is known of a pane at one time.
type View struct {
	Pane     Pane
	State    tmux.State
	Why      string    // what it asks, or why nothing can be said, for people
	Since    time.Time // when State began, as far as it is known; else zero
	Basis    Basis
	At       time.Time // when it was seen
	Terminal tmux.Pane
	Composer tmux.Composer
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

// Stop is what the Stop hook of an agent's program tells.
type Stop struct {
	Session    string
	Transcript string // path of the transcript
	Answer     string // what the agent said last, if the program tells it

	Socket string // of the tmux server, from $TMUX; "" if the program is in no pane
	Server int    // pid of the server, from $TMUX
	PaneID string // $TMUX_PANE
}

// Notice is a notification that the task of a message has ended.
type Notice struct {
	ID   string    // for [ledger.Person.Dismiss]
	At   time.Time // when the task ended
	Lost string    // why its end was not seen; "" if it was
	Text string    // one paragraph for people or agents
	ledger.PaneMessage
}
