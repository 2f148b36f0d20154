// Package api defines the JSON that the command line prints with --json and that the
// service reads and writes: one type for each answer and one code for each kind of
// error. It imports nothing else of this module, so that a client stays small.
//
// Names of JSON fields do not change. New fields can appear at any time, so a client
// must ignore those it does not know. The service refuses unknown fields in requests.
//
// Texts, names and paths come from files that other programs write. They are not
// escaped here: escape them before showing them.
package api

import (
	"cmp"
	"strings"
	"time"
)

// Team is one team under a Claude directory.
type Team struct {
	Team      string    `json:"team"`
	Lead      string    `json:"lead"`                                // name of the lead
	LeadState string    `json:"leadState" enum:"alive,gone,unknown"` // alive, gone, unknown
	Version   string    `json:"version"`                             // of the lead's Claude Code, such as 2.1.329; empty if unknown
	Members   int       `json:"members"`
	CreatedAt time.Time `json:"createdAt"`
	Cwd       string    `json:"cwd"`               // the directory of the lead
	Problem   string    `json:"problem,omitempty"` // why the other fields are empty

	Panes    bool `json:"panes,omitempty"`    // it is the team of the registered tmux panes, named tmux, which has no lead
	Sessions bool `json:"sessions,omitempty"` // it is the team of the sessions that are in no team, named sessions, which has no lead
	// Machine is the machine that the team is on, if it is another one: the team is then called TEAM@MACHINE.
	Machine string `json:"machine,omitempty"`
}

// The roles of members.
const (
	RoleLead  = "lead"
	RoleAgent = "agent"
	RoleGuest = "guest" // a person who joined
	RoleNone  = "none"  // an inbox without a member
)

// Member is one member of a team, or an inbox without a member. It does not have the
// prompt that the member was started with, because that can hold secrets.
type Member struct {
	Team     string     `json:"team"`
	Member   string     `json:"member"`
	Role     string     `json:"role" enum:"lead,agent,guest,none"` // guest: a person who joined; none: an inbox without a member
	AgentID  string     `json:"agentId,omitempty"`
	Type     string     `json:"agentType,omitempty"`
	Model    string     `json:"model,omitempty"`
	Color    string     `json:"color,omitempty"`
	Backend  string     `json:"backendType,omitempty"`
	Cwd      string     `json:"cwd,omitempty"`
	Version  string     `json:"version,omitempty"`  // of the Claude Code that runs it, if that is known
	Outdated bool       `json:"outdated,omitempty"` // that version is too old: nothing that the agent does is proved
	JoinedAt *time.Time `json:"joinedAt,omitempty"`
	Inbox    bool       `json:"inbox"`             // the inbox file exists
	Unread   int        `json:"unread"`            // unread rows
	Relay    string     `json:"relay,omitempty"`   // the state of the relay of a headless agent
	Place    *Place     `json:"place,omitempty"`   // of its session, if it can move
	Problem  string     `json:"problem,omitempty"` // the problem with the inbox file
}

// The states of agents.
const (
	StateActive     = "ACTIVE"
	StateIdle       = "IDLE"
	StateTerminated = "TERMINATED"
)

// The details of states.
const (
	DetailWorking  = "working"   // it has work, or has not reported that it is idle
	DetailWaiting  = "waiting"   // it reported that it is idle, and waits for messages
	DetailFailed   = "failed"    // its last turn failed
	DetailStale    = "stale"     // the process that led its team has ended
	DetailShutDown = "shut down" // it has ended
)

// The words for what an agent is doing, for people.
const (
	WordWorking = "working"
	WordWaiting = "waiting for you" // a person has to answer something
	WordIdle    = "idle"            // it waits for messages
	WordBlocked = "blocked"         // it cannot go on
	WordEnded   = "ended"           // it has shut down, or its process is gone
	WordUnknown = "unknown"         // there is no recent evidence
)

// The sources of words.
const (
	BasisMessage  = "message"  // [Status.Evidence]
	BasisTurn     = "turn"     // the recorded start or end of its turn
	BasisProcess  = "process"  // sessions/<pid>.json of its process
	BasisRelay    = "relay"    // [Status.Relay]
	BasisQuestion = "question" // an open question about a tool
	BasisTeam     = "team"     // config.json
	BasisMachine  = "machine"  // the last report of its machine
	BasisPane     = "pane"     // the screen of its tmux pane
)

// Status says what one agent is doing, and how we know.
//
// Word is for people and rests on all sources. State and Detail rest on messages and
// recorded turns alone.
type Status struct {
	Team     string    `json:"team"`
	Member   string    `json:"member"`
	State    string    `json:"state" enum:"ACTIVE,IDLE,TERMINATED"` // [StateActive] and its like
	Since    time.Time `json:"since"`
	Detail   string    `json:"detail" enum:"working,waiting,failed,stale,shut down"` // [DetailWorking] and its like
	Evidence Evidence  `json:"evidence"`                                             // zero if the member has sent nothing since it was started
	Unread   int       `json:"unread"`

	PassedOver int `json:"passedOver,omitempty"` // entries of its inbox that are no messages

	Color string `json:"color,omitempty"` // that Claude Code gave it, such as "blue"
	Relay *Relay `json:"relay,omitempty"` // of a headless agent

	// [WordWorking] and its like: for people; it rests on all sources, but state and detail rest on messages and turns
	// alone
	Word      string    `json:"word" enum:"working,waiting for you,idle,blocked,ended,unknown"`
	Why       string    `json:"why,omitempty"` // what blocks it, what it waits for, why it ended or is unknown, or how its last turn ended
	WordSince time.Time `json:"wordSince"`
	Heard     time.Time `json:"heard"` // when it last sent or did something; when it joined if it never has
	// what word rests on: evidence, a recorded turn, sessions/<pid>.json of its process, relay, an open question,
	// config.json, its tmux pane, the last report of its machine
	Basis string `json:"basis" enum:"message,turn,process,relay,question,team,pane,machine"`
	PID   int    `json:"pid,omitempty"` // the process that Word rests on

	Program string `json:"program,omitempty" enum:"codex,qwen"` // the program of a session that is not Claude Code's

	Overview // empty in the result of a wait
}

// Evidence names the message that a status rests on.
type Evidence struct {
	Inbox     string `json:"inbox"`
	ID        string `json:"id"`
	Kind      string `json:"kind"`
	Timestamp string `json:"timestamp"`
}

// Message is a row of an inbox.
type Message struct {
	Team      string `json:"team"`
	Inbox     string `json:"inbox"`
	ID        string `json:"id"`
	From      string `json:"from"`
	Text      string `json:"text"`
	Timestamp string `json:"timestamp"` // as in the row; may be any text
	Read      bool   `json:"read"`
	Summary   string `json:"summary"`
	Color     string `json:"color"`
	Kind      string `json:"kind"` // message, the type of a structured text, or answer: see [Record.Answer]
	Gone      bool   `json:"gone"` // it is no longer in its inbox
}

// The states of a sent message.
const (
	Verified = "verified" // it was read back from the inbox
	Consumed = "consumed" // its agent took it
	Seen     = "seen"     // its agent's model was given it; only of [Sent]
	Failed   = "failed"   // it was not sent
	Lost     = "lost"     // another program overwrote it
	Unknown  = "unknown"  // it is gone, or its inbox is corrupt, and we cannot know whether its agent took it
	DryRun   = "dry-run"  // everything was checked, nothing was sent
)

// Sent is the result of sending a message.
type Sent struct {
	Team   string `json:"team"`
	Member string `json:"member"` // whose inbox it is in
	ID     string `json:"id"`
	// consumed: only with an answer or as an outcome; seen: only as an outcome; failed: only in a broadcast, with error, or
	// if the message never left for another machine; dry-run: with dryRun; of a message to another machine: queued (here),
	// stored (the hub has it), received (its ledger has it), then verified, consumed and seen as here, or refused, lost,
	// unknown (it may have arrived) or dropped; of a message to a pane: waiting (it was not typed yet),
	// confirmed (the agent has taken it), unconfirmed (it was typed, but nothing shows that the agent has taken it),
	// not_sent
	State        string `json:"state" enum:"verified,consumed,seen,failed,waiting,confirmed,unconfirmed,not_sent,dry-run,queued,stored,received,refused,lost,unknown,dropped"`
	Deduplicated bool   `json:"deduplicated"` // it was sent before, and was not sent again
	Recorded     bool   `json:"recorded"`     // the history has it or is about to; false if it was forced without a ledger, or was not sent
	Reachable    bool   `json:"reachable"`    // as far as is known, it will be read
	// why it may never be read: not-a-member, lead-gone, agent-gone, no-relay, no-teammate, at-terminal, unread;
	// outdated: there will be no proof that it was read
	Reach    string `json:"reach,omitempty" enum:"not-a-member,lead-gone,agent-gone,no-relay,no-teammate,at-terminal,unread,outdated"`
	ReachWhy string `json:"reachWhy,omitempty"` // the same in words, to follow the name of the member
	NoAnswer bool   `json:"noAnswer,omitempty"` // the member cannot write to the sender's name; joining the team gives a name that it can write to
	Unlisted string `json:"unlisted,omitempty"` // the member's version of Claude Code, if it is too old, or newer than all that teambridge was measured with
	WaitedMs int64  `json:"waitedMs"`
	Delivery string `json:"delivery,omitempty"` // the id of the delivery, if it goes to a headless agent as a user prompt, to a pane, or to another machine
	Reason   string `json:"reason,omitempty"`   // why a message to a pane waits, is unconfirmed or was not sent; of one to another machine, why it ended or may take long
	Error    *Error `json:"error,omitempty"`    // of a broadcast to this member, or of the outcome
}

// Next returns the state that a message reaches by itself, which [Bridge.Await] waits for; "" if it has reached one.
func (s *Sent) Next() string {
	switch s.State {
	case Waiting, Unconfirmed, NotSent: // for the last two, Await says why
		return Confirmed
	case Queued, Stored, Received:
		return Verified
	case "refused", Lost, Unknown, Failed: // on another machine; Await says why
		if s.Delivery != "" {
			return Verified
		}
	}
	return ""
}

// Until returns the state to wait for, given the wanted one, or "". Received is the last state of a message to a
// session or pane. Of a row or prompt, the agent has then taken it. To another machine, it is a state of its own.
func (s *Sent) Until(wanted string) string {
	switch {
	case wanted != Received, s.Delivery != "" && strings.Contains(s.Team, "@"):
		return cmp.Or(wanted, s.Next())
	case s.Typed():
		return s.Next()
	}
	return Consumed
}

// Typed reports whether a message is typed into a pane or written to a session, or was to be.
func (s *Sent) Typed() bool {
	return s.Next() == Confirmed || s.State == Confirmed
}

// Unverified is the sender of a message whose author is not known.
const Unverified = "unverified"

// Version is the version of a teambridge binary.
type Version struct {
	Version string `json:"version"` // of the module; "(devel)" for a build from a checkout
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// Other reports whether v and o are known to be different versions or builds.
func (v Version) Other(o Version) bool {
	return v.Version != o.Version || v.Commit != "" && o.Commit != "" && v.Commit != o.Commit
}
