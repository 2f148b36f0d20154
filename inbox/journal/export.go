package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"
)

// line is one message as it is exported.
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
	Row        json.RawMessage `json:"row,omitempty"`
	RowBase64  []byte          `json:"rowBase64,omitempty"`
}

// Export writes the messages that q asks for, one JSON object a line: seq,
// root, team, createdAt (milliseconds), inbox, id, kind, occurrence, firstSeen,
// readAt and goneAt (if it was), and the row as it stood in the file.
//
// row is that object without the white space between its parts; the order of
// its keys, keys that are there twice, the spelling of numbers and the escapes
// in strings stay. A row that JSON text cannot hold, because it is not valid
// UTF-8, is in rowBase64, to the byte.
func (j *Journal) Export(ctx context.Context, w io.Writer, q Query) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // which would change rows too
	for m, err := range j.Messages(ctx, q) {
		if err != nil {
			return err
		}
		l := line{
			Seq: m.Seq, Root: m.Root, Team: m.Team.Team, CreatedAt: m.Team.CreatedAt, Inbox: m.Inbox,
			ID: m.ID(), Kind: m.Row.Kind(), Occurrence: m.Occurrence, FirstSeen: m.FirstSeen,
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
	return nil
}
