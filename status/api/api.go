// Package api is what the command line prints with --json and what the service
// speaks: one definition of each answer and of each error, for both of them and
// for their clients.
//
// Names of JSON fields stay what they are. A field that is new may come at any
// time, so a client passes over those it does not know; what a client sends is
// read strictly.
//
// Texts, names and paths come from files that others write. They are whole here:
// whoever shows them escapes them.
package api

import "time"

// Team is one team under a Claude directory.
type Team struct {
	Team      string    `json:"team"`
	Lead      string    `json:"lead"`      // the lead's name
	LeadState string    `json:"leadState"` // alive, gone, unknown
	Version   string    `json:"version"`   // of the lead's Claude Code; empty if it is not known
	Members   int       `json:"members"`
	CreatedAt time.Time `json:"createdAt"`
	Cwd       string    `json:"cwd"`
	Problem   string    `json:"problem,omitempty"` // why the rest is not known
}

// The roles of members.
const (
	RoleLead  = "lead"
	RoleAgent = "agent"
	RoleGuest = "guest" // a person who joined
	RoleNone  = "none"  // an inbox without a member
)

// Member is one member of a team, or an inbox without one. What a member was
// started with, its prompt, is not in it: that can hold secrets.
type Member struct {
	Team     string     `json:"team"`
	Member   string     `json:"member"`
	Role     string     `json:"role"`
	AgentID  string     `json:"agentId,omitempty"`
	Type     string     `json:"agentType,omitempty"`
	Model    string     `json:"model,omitempty"`
	Color    string     `json:"color,omitempty"`
	Backend  string     `json:"backendType,omitempty"`
	Cwd      string     `json:"cwd,omitempty"`
	JoinedAt *time.Time `json:"joinedAt,omitempty"`
	Inbox    bool       `json:"inbox"`             // there is a file
	Unread   int        `json:"unread"`            // rows that are not read
	Relay    string     `json:"relay,omitempty"`   // what the relay of a headless agent does
	Problem  string     `json:"problem,omitempty"` // of the file
}

// The states of agents.
const (
	StateActive     = "ACTIVE"
	StateIdle       = "IDLE"
	StateTerminated = "TERMINATED"
)

// The details of states.
const (
	DetailWorking  = "working"   // it was given work, or has not said yet that it is idle
	DetailWaiting  = "waiting"   // it said that it is idle, and waits for messages
	DetailFailed   = "failed"    // its last turn failed
	DetailStale    = "stale"     // the process that led its team has ended
	DetailShutDown = "shut down" // it has ended
)

// Status says what one agent is doing, and how that is known.
type Status struct {
	Team     string    `json:"team"`
	Member   string    `json:"member"`
	State    string    `json:"state"` // [StateActive] and its like
	Since    time.Time `json:"since"`
	Detail   string    `json:"detail"`   // [DetailWorking] and its like
	Evidence Evidence  `json:"evidence"` // zero if the member has said nothing since it was started
	Unread   int       `json:"unread"`
	Relay    *Relay    `json:"relay,omitempty"` // of a headless agent
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
	Timestamp string `json:"timestamp"` // as it stands in the row: any text
	Read      bool   `json:"read"`
	Summary   string `json:"summary"`
	Color     string `json:"color"`
	Kind      string `json:"kind"` // message, the type of a structured text, or answer: see [Record.Answer]
	Gone      bool   `json:"gone"` // it is in its inbox no more
}

// How far a message has come that was sent.
const (
	Verified = "verified" // it was read back from the inbox
	Consumed = "consumed" // its agent took it
	Failed   = "failed"   // it was not sent
	Lost     = "lost"     // another program overwrote it
	Unknown  = "unknown"  // it is gone, and nothing tells whether its agent took it
	DryRun   = "dry-run"  // all was checked, and nothing sent
)

// Sent is the answer to a message that was to be sent.
type Sent struct {
	Team         string `json:"team"`
	Member       string `json:"member"`
	ID           string `json:"id"`
	State        string `json:"state"`
	Deduplicated bool   `json:"deduplicated"` // it was sent before, under this id
	Reachable    bool   `json:"reachable"`
	Reach        string `json:"reach,omitempty"` // why nobody will read it: not-a-member, lead-gone, no-relay, no-teammate, unread
	WaitedMs     int64  `json:"waitedMs"`
	Delivery     string `json:"delivery,omitempty"` // by which it goes to a headless agent as the person's own words
	Error        *Error `json:"error,omitempty"`    // of a broadcast, for this member
}

// Version says which teambridge it is.
type Version struct {
	Version string `json:"version"` // of the module; "(devel)" for a build from a checkout
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}
