package link

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"teambridge/inbox/ledger"
)

// Version is the version of frames and presences. A machine says in its presence which one it knows.
const Version = 1

// frame is what is published: messages, and how far messages of the other machine have come.
type frame struct {
	Version  int              `json:"v"`
	Ledger   string           `json:"ledger"`             // the incarnation of the sender's
	For      string           `json:"for,omitempty"`      // that of the recipient's, as the sender knows it
	Messages []message        `json:"messages,omitempty"` // in order
	Receipts []ledger.Receipt `json:"receipts,omitempty"`
	Query    []string         `json:"query,omitempty"` // ids of messages about which the sender wants to know more
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

// digest tells messages of one id apart.
func (m *message) digest() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %q", m.Name, m.Team, m.Member, m.From, m.Text, m.About))
}

func messageOf(o ledger.Outgoing) (message, error) {
	m := message{ID: o.UUID, Name: o.ID, Team: o.At, Member: o.There, From: o.From, About: o.Summary, Ask: o.Kind == Question, Sent: o.Since}
	if o.Person {
		m.Text = string(o.Raw)
		if !strings.Contains(m.From, "@") {
			m.From += "@" + o.Team // where answers go: what was said in that team, as it is called here
		}
		return m, nil
	}
	var row struct{ Text, Summary string }
	err := json.Unmarshal(o.Raw, &row)
	m.Text, m.About = row.Text, row.Summary
	return m, err
}

// A Message is a message that came from another machine.
type Message struct {
	ledger.Incoming
	Name    string // its id at its sender
	Text    string
	Summary string
}

// MessageOf returns a message that came, whose text was not forgotten.
func MessageOf(in ledger.Incoming) (Message, error) {
	var c content
	err := json.Unmarshal(in.Raw, &c)
	return Message{in, c.Name, c.Text, c.Summary}, err
}

// Presence is what a machine says of itself every 15 seconds, and whenever it changes.
type Presence struct {
	Version  int    `json:"v"` // of frames
	Instance string `json:"instance"`
	Ledger   string `json:"ledger"`
	Program  string `json:"program,omitempty"` // its version
	Empty    bool   `json:"empty"`             // nothing is stored for it, and the reader was told of all that came from it
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

	// Waits is the kind of what waits because of it, such as "silent", without its text.
	Waits      string    `json:"waits,omitempty"`
	WaitsSince time.Time `json:"waitsSince,omitzero"`
}

// PresenceOf reads what a machine said of itself last; ok is false if it never did. It decodes all of
// it, so it is called once for a machine, and not for each of its teams.
func PresenceOf(m ledger.Machine) (p Presence, ok bool) {
	if len(m.Presence) == 0 {
		return p, false
	}
	p, _, err := openPresence(m.Presence)
	return p, err == nil
}

// Away is how long a machine is silent, by our own clock, before it counts as away.
const Away = 45 * time.Second
