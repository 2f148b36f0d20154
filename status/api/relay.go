package api

import (
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
)

// Relay is what is known of the relay of one headless member.
type Relay struct {
	State       string     `json:"state"` // starting, waiting, idle, working, backing off, dead, stopped
	Running     bool       `json:"running"`
	Queue       int        `json:"queue"`       // claimed, and not done
	DeadLetters int        `json:"deadLetters"` // failed
	LastAck     *time.Time `json:"lastAck,omitempty"`
	PID         int        `json:"pid,omitempty"`      // of the relay
	AgentPID    int        `json:"agentPid,omitempty"` // of the agent
	Session     string     `json:"session,omitempty"`
	Reason      string     `json:"reason,omitempty"` // why it waits, or is dead
}

// Lasting leaves out what changes with each message.
func (r *Relay) Lasting() *Relay {
	if r == nil {
		return nil
	}
	return &Relay{State: r.State, DeadLetters: r.DeadLetters, Reason: r.Reason}
}

// Fate is what became of a message that was relayed.
type Fate struct {
	Delivery string    `json:"delivery"`
	State    string    `json:"state"` // of the delivery: claimed, written, accepted, done, cut, …
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"` // when it came to that state
}

// FateOf is how far a delivery came.
func FateOf(d ledger.Delivery) *Fate {
	return &Fate{Delivery: d.UUID, State: string(d.State), Reason: d.Reason, At: d.At}
}

// PostOf is what the relay of a message's inbox keeps it under.
func PostOf(m journal.Message) ledger.Post {
	return ledger.Post{Root: m.Root, Team: m.Team.Team, CreatedAt: m.Team.CreatedAt, Inbox: m.Inbox}
}
