package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"teambridge/inbox"
	"teambridge/teams/rawjson"
)

// line is one exported record.
type line struct {
	Seq       int64  `json:"seq"`
	Root      string `json:"root"`
	Team      string `json:"team"`
	CreatedAt int64  `json:"createdAt"` // milliseconds
	Inbox     string `json:"inbox"`
	ID        string `json:"id,omitempty"`

	// Of a message.
	Kind       string          `json:"kind,omitempty"`
	Occurrence int             `json:"occurrence,omitempty"`
	FirstSeen  time.Time       `json:"firstSeen,omitzero"`
	ReadAt     time.Time       `json:"readAt,omitzero"`
	GoneAt     time.Time       `json:"goneAt,omitzero"`
	Said       string          `json:"said,omitempty"`
	Answer     string          `json:"answer,omitempty"`
	Row        json.RawMessage `json:"row,omitempty"`
	RowBase64  []byte          `json:"rowBase64,omitempty"`

	Relay *relayLine `json:"relay,omitempty"`

	// Of an envelope.
	Session  string          `json:"session,omitempty"`
	Envelope json.RawMessage `json:"envelope,omitempty"`
}

// relayLine has the further fields of a relay event.
type relayLine struct {
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
	Delivery string    `json:"delivery,omitempty"`
	From     string    `json:"from,omitempty"`
	Person   bool      `json:"person,omitempty"`
	PID      int       `json:"pid,omitempty"`
	Session  string    `json:"session,omitempty"`
}

// Export writes the messages that q selects, one JSON object a line: seq, root, team, createdAt (milliseconds),
// inbox, id, kind, occurrence, firstSeen, readAt and goneAt (if it was read or is gone), said (the delivery of a user
// prompt), answer (the frame that an agent answered) and the row of the file, without the white space between its
// parts. A row that is not valid UTF-8 is in rowBase64, with its exact bytes.
//
// Relay events and envelopes that q selects are among them, in the order of the numbers, with seq, root, team,
// createdAt and inbox. An event has the id of the message, and an object relay with state, reason, at, and either
// delivery, from and person, or pid and session. An envelope has its id, the session and the envelope itself. A Limit
// applies to messages, events and envelopes separately.
func (j *Journal) Export(ctx context.Context, w io.Writer, q Query) error {
	lines := Merge(q.Newest, func(l line) int64 { return l.Seq },
		Map(j.Messages.All(ctx, q), messageLine), Map(j.RelayEvents.All(ctx, q), eventLine), Map(j.Envelopes.All(ctx, EnvelopeQuery{Query: q}), envelopeLine))
	for l, err := range lines {
		if err != nil {
			return err
		}
		text, err := rawjson.Encode(l) // without escapes, which would change rows
		if err == nil {
			_, err = w.Write(append(text, '\n'))
		}
		if err != nil {
			return fmt.Errorf("journal: export record %d: %w", l.Seq, err)
		}
	}
	return nil
}

func lineOf(seq int64, k inbox.InboxKey, id string) *line {
	return &line{Seq: seq, Root: k.Root, Team: k.Team, CreatedAt: k.CreatedAt, Inbox: k.Inbox, ID: id}
}

func envelopeLine(e Envelope) (*line, error) {
	l := lineOf(e.Seq, e.InboxKey, e.ID)
	l.Session, l.Envelope = e.Session, e.Raw
	return l, nil
}

func eventLine(e RelayEvent) (*line, error) {
	l := lineOf(e.Seq, e.InboxKey, e.ID)
	l.Relay = &relayLine{e.State, e.Reason, e.At, e.Delivery, e.From, e.Person, e.PID, e.Session}
	return l, nil
}

func messageLine(m Record) (*line, error) {
	l := lineOf(m.Seq, m.InboxKey, m.ID())
	l.Kind, l.Occurrence, l.FirstSeen, l.ReadAt, l.GoneAt, l.Said, l.Answer = m.Kind(), m.Occurrence, m.FirstSeen, m.ReadAt, m.GoneAt, m.Prompt, m.Answer
	var row bytes.Buffer
	if utf8.Valid(m.Raw) && json.Compact(&row, m.Raw) == nil {
		l.Row = row.Bytes()
	} else {
		l.RowBase64 = m.Raw
	}
	return l, nil
}
