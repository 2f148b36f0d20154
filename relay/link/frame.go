package link

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox/ledger"
)

// Version is the version of frames and presences. A machine's presence names the version that it supports.
const Version = 1

// frame is the unit of publication: messages, and receipts for messages of the other machine.
type frame struct {
	Version  int              `json:"v"`
	Ledger   string           `json:"ledger"`             // the incarnation of the sender's ledger
	For      string           `json:"for,omitempty"`      // the incarnation of the recipient's ledger, as known to the sender
	Messages []message        `json:"messages,omitempty"` // in order
	Receipts []ledger.Receipt `json:"receipts,omitempty"`
	Query    []string         `json:"query,omitempty"` // ids of messages whose state the sender asks for
}

// Limits of a frame, so that it fits into the largest message of a hub, which is 1 MiB.
const (
	maxMessages = 50
	maxBytes    = 256 << 10 // of texts
)

// message is a message on its way.
type message struct {
	ID     string    `json:"id"`     // of the delivery
	Name   string    `json:"name"`   // its id, as its sender knows it
	Team   string    `json:"team"`   // of the recipient, there
	Member string    `json:"member"` // the recipient
	From   string    `json:"from"`
	Text   string    `json:"text"`
	About  string    `json:"summary,omitempty"`
	Ask    bool      `json:"ask,omitempty"` // it waits for an answer
	Sent   time.Time `json:"sent"`
}

// Question is the kind of a message that waits for an answer, which is a message too.
const Question = "question"

// digest distinguishes messages with the same id.
func (m *message) digest() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %q", m.Name, m.Team, m.Member, m.From, m.Text, m.About))
}

func messageOf(o ledger.Outgoing) (message, error) {
	m := message{ID: o.UUID, Name: o.ID, Team: o.At, Member: o.There, From: o.From, About: o.Summary, Ask: o.Kind == Question, Sent: o.Since}
	if o.Person {
		m.Text = string(o.Raw)
		if !strings.Contains(m.From, "@") {
			m.From += "@" + o.Team // the address for answers: the sender's team, by its local name
		}
		return m, nil
	}
	var row struct{ Text, Summary string }
	err := json.Unmarshal(o.Raw, &row)
	m.Text, m.About = row.Text, row.Summary
	return m, err
}

// A Message is a message from another machine.
type Message struct {
	ledger.Incoming
	Name    string // its id at its sender
	Text    string
	Summary string
}

// MessageOf returns an incoming message whose text is still kept.
func MessageOf(in ledger.Incoming) (Message, error) {
	var c content
	err := json.Unmarshal(in.Raw, &c)
	return Message{in, c.Name, c.Text, c.Summary}, err
}

// Presence is a machine's report on itself, sent every 15 seconds and after each change.
type Presence struct {
	Version  int    `json:"v"` // of frames
	Instance string `json:"instance"`
	Ledger   string `json:"ledger"`
	Program  string `json:"program,omitempty"` // its version
	Empty    bool   `json:"empty"`             // its queue is empty, and it has sent receipts for everything that came from the reader
	Teams    []Team `json:"teams,omitempty"`   // that the reader may write to
}

// Team is a team of another machine.
type Team struct {
	Team    string   `json:"team"`
	Members []Member `json:"members,omitempty"`
}

// Member is a member of one, with what it does.
type Member struct {
	Member string    `json:"member"`
	Word   string    `json:"word,omitempty"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Lead   bool      `json:"lead,omitempty"`

	// Waits is the kind of attention item that it causes, such as "silent", without the text.
	Waits      string    `json:"waits,omitempty"`
	WaitsSince time.Time `json:"waitsSince,omitzero"`
}

// PresenceOf decodes the last presence of a machine; ok is false if there is none. It decodes all of it, so
// call it once per machine, not once per team.
func PresenceOf(m ledger.Machine) (p Presence, ok bool) {
	if len(m.Presence) == 0 {
		return p, false
	}
	p, _, err := openPresence(m.Presence)
	return p, err == nil
}

// Away is how long a machine is silent, by our own clock, before it counts as away.
const Away = 45 * time.Second
