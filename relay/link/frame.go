package link

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
)

// Version is the version of frames and presences. A machine's presence names the version that it supports.
const Version = 1

// frame is the unit of publication. It holds messages, and receipts for messages of the other machine.
type frame struct {
	Version  int              `json:"v"`
	Ledger   string           `json:"ledger"`             // the incarnation of the sender's ledger
	For      string           `json:"for,omitempty"`      // the incarnation of the recipient's ledger, as known to the sender
	Messages []message        `json:"messages,omitempty"` // in order
	Receipts []ledger.Receipt `json:"receipts,omitempty"`
	Query    []string         `json:"query,omitempty"` // ids of messages whose state the sender wants to know
}

// Limits of a frame.
const (
	maxMessages = 50
	maxBytes    = 256 << 10      // of texts
	maxBody     = 1<<20 - 16<<10 // as JSON, which can need six bytes for one; a hub takes 1 MiB with the seal
)

// encode returns the frame with messages and receipts.
func (f frame) encode(messages []ledger.Outgoing, untold []ledger.Incoming, refused []ledger.Receipt) ([]byte, error) {
	for _, o := range messages {
		m, err := messageOf(o)
		if err != nil {
			return nil, fmt.Errorf("message %s: %w", o.UUID, err)
		}
		f.Messages = append(f.Messages, m)
	}
	f.Receipts = slices.Clone(refused)
	for _, m := range untold {
		f.Receipts = append(f.Receipts, m.Receipt())
	}
	return json.Marshal(f)
}

// message is a message in a frame.
type message struct {
	ID     string    `json:"id"`     // the id of the delivery
	Name   string    `json:"name"`   // the id that the sender of the message knows
	Team   string    `json:"team"`   // the recipient's team, by its name on the recipient's machine
	Member string    `json:"member"` // the recipient
	From   string    `json:"from"`
	Text   string    `json:"text"`
	About  string    `json:"summary,omitempty"`
	Ask    bool      `json:"ask,omitempty"` // the sender waits for an answer
	Sent   time.Time `json:"sent"`
}

// Question is the kind of a message whose sender waits for an answer. The answer is a message too.
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
			m.From += "@" + o.Team // the address for answers needs the sender's team, by its local name
		}
		return m, nil
	}
	row, err := inbox.ParseRow(o.Raw)
	m.Text, m.About = row.Text, row.Summary
	return m, err
}

// A Message is a message from another machine.
type Message struct {
	ledger.Incoming
	Name    string // the message's id on the sender's machine
	Text    string
	Summary string
}

// MessageOf decodes an incoming message. It fails if the ledger no longer keeps the text.
func MessageOf(in ledger.Incoming) (Message, error) {
	var c content
	err := json.Unmarshal(in.Raw, &c)
	return Message{in, c.Name, c.Text, c.Summary}, err
}

// Presence is a machine's report on itself, sent every 15 seconds and after each change.
type Presence struct {
	Version  int    `json:"v"` // the version of frames
	Instance string `json:"instance"`
	Ledger   string `json:"ledger"`
	Program  string `json:"program,omitempty"` // the version of the program
	Empty    bool   `json:"empty"`             // its queue is empty, and it has sent receipts for all messages from the reader
	Teams    []Team `json:"teams,omitempty"`   // the teams that the reader may write to
}

// Team is a team of another machine.
type Team struct {
	Team    string   `json:"team"`
	Members []Member `json:"members,omitempty"`
}

// Member is a member of a [Team], with its status.
type Member struct {
	Member string    `json:"member"`
	Word   string    `json:"word,omitempty"`
	Why    string    `json:"why,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Lead   bool      `json:"lead,omitempty"`

	// Waits is the kind of attention item that the member causes, such as "silent", without the text.
	Waits      string    `json:"waits,omitempty"`
	WaitsSince time.Time `json:"waitsSince,omitzero"`
}

// PresenceOf decodes the last presence of a machine; ok is false if there is none. It decodes the whole
// presence, so call it once per machine, not once per team.
func PresenceOf(m ledger.Machine) (p Presence, ok bool) {
	if len(m.Presence) == 0 {
		return p, false
	}
	p, _, err := openPresence(m.Presence)
	return p, err == nil
}

// Away is how long a machine must be silent, by our own clock, to count as away.
const Away = 45 * time.Second
