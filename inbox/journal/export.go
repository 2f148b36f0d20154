package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"time"
	"unicode/utf8"
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

// Export writes the messages that q selects, one JSON object a line: seq, root, team,
// createdAt (milliseconds), inbox, id, kind, occurrence, firstSeen, readAt and goneAt (if
// it was), said (the delivery of a user prompt), answer (the frame that an agent answered)
// and the row as it was in the file, without the white space between its parts. A row that
// is not valid UTF-8 is in rowBase64, to the byte.
//
// Relay events that q selects are among them, in the order of the numbers: seq, root, team,
// createdAt, inbox, the id of the message, and relay, an object with state, reason, at, and
// delivery, from and person or pid and session. A Limit is for each of both.
func (j *Journal) Export(ctx context.Context, w io.Writer, q Query) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // which would change rows too
	next, stop := iter.Pull2(j.RelayEvents(ctx, q))
	defer stop()
	event, err, more := next()
	// relayed writes the events that stand before a message.
	relayed := func(before func(int64) bool) error {
		for ; more && (err != nil || before(event.Seq)); event, err, more = next() {
			if err != nil {
				return err
			}
			l := relayedLine{
				Seq: event.Seq, Root: event.Root, Team: event.Team.Team, CreatedAt: event.Team.CreatedAt, Inbox: event.Inbox, ID: event.ID,
			}
			r := &l.Relay
			r.State, r.Reason, r.At, r.Delivery, r.From, r.Person = event.State, event.Reason, event.At, event.Delivery, event.From, event.Person
			r.PID, r.Session = event.PID, event.Session
			if err := enc.Encode(l); err != nil {
				return fmt.Errorf("journal: export event %d: %w", event.Seq, err)
			}
		}
		return nil
	}
	for m, err := range j.Messages(ctx, q) {
		if err != nil {
			return err
		}
		if err := relayed(func(seq int64) bool { return seq < m.Seq != q.Newest }); err != nil {
			return err
		}
		l := line{
			Seq: m.Seq, Root: m.Root, Team: m.Team.Team, CreatedAt: m.Team.CreatedAt, Inbox: m.Inbox,
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
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("journal: export message %d: %w", m.Seq, err)
		}
	}
	return relayed(func(int64) bool { return true })
}
