package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"teambridge/teams/rawjson"
)

// line is one exported message.
type line struct {
	Seq        int64           `json:"seq"`
	Root       string          `json:"root"`
	Team       string          `json:"team"`
	CreatedAt  int64           `json:"createdAt"` // milliseconds
	Inbox      string          `json:"inbox"`
	ID         string          `json:"id"`
	Kind       string          `json:"kind"`
	Occurrence int             `json:"occurrence"`
	FirstSeen  time.Time       `json:"firstSeen"`
	ReadAt     *time.Time      `json:"readAt,omitempty"`
	GoneAt     *time.Time      `json:"goneAt,omitempty"`
	Said       string          `json:"said,omitempty"`
	Answer     string          `json:"answer,omitempty"`
	Row        json.RawMessage `json:"row,omitempty"`
	RowBase64  []byte          `json:"rowBase64,omitempty"`
}

// relayedLine is one exported relay event.
type relayedLine struct {
	Seq       int64  `json:"seq"`
	Root      string `json:"root"`
	Team      string `json:"team"`
	CreatedAt int64  `json:"createdAt"` // milliseconds
	Inbox     string `json:"inbox"`
	ID        string `json:"id,omitempty"`
	Relay     struct {
		State    string    `json:"state"`
		Reason   string    `json:"reason,omitempty"`
		At       time.Time `json:"at"`
		Delivery string    `json:"delivery,omitempty"`
		From     string    `json:"from,omitempty"`
		Person   bool      `json:"person,omitempty"`
		PID      int       `json:"pid,omitempty"`
		Session  string    `json:"session,omitempty"`
	} `json:"relay"`
}

// saidLine is one exported envelope.
type saidLine struct {
	Seq       int64           `json:"seq"`
	Root      string          `json:"root"`
	Team      string          `json:"team"`
	CreatedAt int64           `json:"createdAt"` // milliseconds
	Inbox     string          `json:"inbox"`
	ID        string          `json:"id"`
	Session   string          `json:"session"`
	Envelope  json.RawMessage `json:"envelope"`
}

// exported is a line with its number.
type exported struct {
	seq  int64
	line any
}

// Export writes the messages that q selects, one JSON object a line: seq, root, team,
// createdAt (milliseconds), inbox, id, kind, occurrence, firstSeen, readAt and goneAt (if
// it was), said (the delivery of a user prompt), answer (the frame that an agent answered)
// and the row as it was in the file, without the white space between its parts. A row that
// is not valid UTF-8 is in rowBase64, to the byte.
//
// Relay events and envelopes that q selects are among them, in the order of the numbers,
// with seq, root, team, createdAt and inbox. An event has the id of the message, and relay,
// an object with state, reason, at, and delivery, from and person or pid and session. An
// envelope has its id, the session and the envelope itself. A Limit is for each of the three.
func (j *Journal) Export(ctx context.Context, w io.Writer, q Query) error {
	lines := Merge(q.Newest, func(e exported) int64 { return e.seq },
		Map(j.Messages.All(ctx, q), messageLine), Map(j.RelayEvents.All(ctx, q), eventLine), Map(j.Envelopes.All(ctx, EnvelopeQuery{Query: q}), envelopeLine))
	for e, err := range lines {
		if err != nil {
			return err
		}
		line, err := rawjson.Encode(e.line) // escapes would change rows, too
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("journal: export record %d: %w", e.seq, err)
		}
	}
	return nil
}

func envelopeLine(e Envelope) (*exported, error) {
	return &exported{e.Seq, saidLine{e.Seq, e.Root, e.Team, e.CreatedAt, e.Inbox, e.ID, e.Session, e.Raw}}, nil
}

func eventLine(e RelayEvent) (*exported, error) {
	l := relayedLine{Seq: e.Seq, Root: e.Root, Team: e.Team, CreatedAt: e.CreatedAt, Inbox: e.Inbox, ID: e.ID}
	r := &l.Relay
	r.State, r.Reason, r.At, r.Delivery, r.From, r.Person = e.State, e.Reason, e.At, e.Delivery, e.From, e.Person
	r.PID, r.Session = e.PID, e.Session
	return &exported{e.Seq, l}, nil
}

func messageLine(m Record) (*exported, error) {
	l := line{
		Seq: m.Seq, Root: m.Root, Team: m.Team, CreatedAt: m.CreatedAt, Inbox: m.Inbox,
		ID: m.ID(), Kind: m.Kind(), Occurrence: m.Occurrence, FirstSeen: m.FirstSeen, Said: m.Prompt, Answer: m.Answer,
	}
	if !m.ReadAt.IsZero() {
		l.ReadAt = &m.ReadAt
	}
	if !m.GoneAt.IsZero() {
		l.GoneAt = &m.GoneAt
	}
	var row bytes.Buffer
	if utf8.Valid(m.Raw) && json.Compact(&row, m.Raw) == nil {
		l.Row = row.Bytes()
	} else {
		l.RowBase64 = m.Raw
	}
	return &exported{m.Seq, l}, nil
}
