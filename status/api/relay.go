package api

import (
	"encoding/json"
	"time"
)

// Relay is what is known of the relay of one headless member.
type Relay struct {
	State       string     `json:"state"` // starting, waiting, idle, working, asleep, backing off, dead, stopped
	Running     bool       `json:"running"`
	Queue       int        `json:"queue"`       // claimed, and not done
	DeadLetters int        `json:"deadLetters"` // failed
	LastAck     *time.Time `json:"lastAck,omitempty"`
	PID         int        `json:"pid,omitempty"`      // of the relay
	AgentPID    int        `json:"agentPid,omitempty"` // of the agent
	Session     string     `json:"session,omitempty"`
	Reason      string     `json:"reason,omitempty"` // why it waits, is asleep or is dead, or what is held
	Held        []Hold     `json:"held,omitempty"`   // senders whose messages are not relayed now
}

// Hold keeps the messages of one sender from a headless agent, because the two
// answered each other too often. They stay unread in the inbox until it is released.
type Hold struct {
	Team   string    `json:"team"`
	Member string    `json:"member"` // the agent
	Sender string    `json:"sender"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// Lasting leaves out what changes with each message.
func (r *Relay) Lasting() *Relay {
	if r == nil {
		return nil
	}
	return &Relay{State: r.State, DeadLetters: r.DeadLetters, Reason: r.Reason, Held: r.Held}
}

// RelayEntry is one relay: one that the service is told to run, or one that was
// run by "teambridge run".
type RelayEntry struct {
	ID          string          `json:"relay"` // its id, of which that of one run by "teambridge run" is made of its place
	Team        string          `json:"team"`
	Member      string          `json:"member"`
	Command     []string        `json:"command"`
	Dir         string          `json:"dir,omitempty"`
	OnCut       string          `json:"onCut,omitempty"`
	Permissions string          `json:"permissions,omitempty"`
	Mode        json.RawMessage `json:"mode,omitempty"`
	Plain       bool            `json:"plain,omitempty"`
	CreateTeam  bool            `json:"createTeam,omitempty"`
	IdleExit    string          `json:"idleExit,omitempty"` // how long the agent may be idle, such as "30m0s"; empty: for ever
	Created     *time.Time      `json:"created,omitempty"`  // when it was added; nil for one run by "teambridge run"
	Relay

	Questions []Question `json:"questions,omitempty"` // of the agent, that wait for a person; only the service knows them
}

// Question is a use of a tool that an agent asks a person to allow. All but ID
// and At is text of the agent.
type Question struct {
	ID    string          `json:"id"`
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input,omitempty"`
	At    time.Time       `json:"at"`
}

// NewRelay says which agent the service is to run, and how.
type NewRelay struct {
	Team        string          `json:"team"`    // which need not be there yet
	Member      string          `json:"member"`  // a name, or lead
	Command     []string        `json:"command"` // the program and its arguments
	Dir         string          `json:"dir"`     // an absolute path
	OnCut       string          `json:"onCut,omitempty"`
	Permissions string          `json:"permissions,omitempty"`
	Mode        json.RawMessage `json:"mode,omitempty"`
	Plain       bool            `json:"plain,omitempty"`
	IdleExit    string          `json:"idleExit,omitempty"`   // end the agent when it was idle for so long, such as "30m"; empty: never
	CreateTeam  bool            `json:"createTeam,omitempty"` // whenever there is none of that name
}

// Permit answers a [Question].
type Permit struct {
	Question string `json:"question"` // its id
	Allow    bool   `json:"allow"`
	Reason   string `json:"reason,omitempty"` // told to the agent where it is not allowed
}

// Delivery is one message on its way to a headless agent.
type Delivery struct {
	Delivery string    `json:"delivery"`
	Team     string    `json:"team"`
	Member   string    `json:"member"`
	ID       string    `json:"id"` // of the message
	From     string    `json:"from"`
	Kind     string    `json:"kind"`
	State    string    `json:"state"` // claimed, written, accepted, cut, done, cancelled, failed, dropped, taken_by_agent
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`               // when it came to that state
	Person   bool      `json:"person,omitempty"` // it is a person's own words
}

// RelayEvent is one thing that happened to a message on its way to a headless
// agent or, without Delivery, to the relay that brings it there.
type RelayEvent struct {
	Seq       int64     `json:"seq"`
	Team      string    `json:"team"`
	CreatedAt int64     `json:"createdAt"` // of the team, in milliseconds
	Member    string    `json:"member"`
	At        time.Time `json:"at"`
	State     string    `json:"state"` // of a message: as in Delivery; of a relay: waiting, running, asleep, backing off, dead, ended; held, released: the messages of a sender
	Reason    string    `json:"reason,omitempty"`

	Delivery string `json:"delivery,omitempty"`
	ID       string `json:"id,omitempty"` // of the message
	From     string `json:"from,omitempty"`
	Person   bool   `json:"person,omitempty"` // it is a person's own words

	AgentPID int    `json:"agentPid,omitempty"`
	Session  string `json:"session,omitempty"`
}

// Fate is what became of a message that was relayed.
type Fate struct {
	Delivery string    `json:"delivery"`
	State    string    `json:"state"` // of the delivery: claimed, written, accepted, done, cut, …
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"` // when it came to that state
}
