package api

// LastMessage is the newest message to whoever answers, in [NewReply].
const LastMessage = "last"

// NewReply is an answer to a message.
type NewReply struct {
	To   string `json:"to"`             // the id of the message, or a beginning of it that no other one has; for the person also [LastMessage]
	Team string `json:"team,omitempty"` // of the message; "": any
	Ask  bool   `json:"ask,omitempty"`  // wait for an answer, as [Bridge.Ask] does
	NewQuestion
}

// Replied is an answer to a message that was sent.
type Replied struct {
	To     Message   `json:"to"` // what it answers
	Sent   Sent      `json:"sent"`
	Answer *Answered `json:"answer,omitempty"` // if it asked
}
