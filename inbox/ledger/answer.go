package ledger

import (
	"strings"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/teams/rawjson"
)

// maxAnswer limits the recorded part of an answer, in bytes.
const maxAnswer = 1 << 20

// answer is the last text of an agent in a turn, in the format of an inbox row.
type answer struct {
	From      string   `json:"from"`
	Text      string   `json:"text"`
	Timestamp string   `json:"timestamp"`
	Type      string   `json:"type"`
	ID        string   `json:"messageId"` // the frame's uuid
	InReplyTo []string `json:"inReplyTo,omitzero"`
	Truncated bool     `json:"truncated,omitempty"`
	Summary   string   `json:"summary,omitempty"`
}

func newAnswer(from, id, said string, at int64) answer {
	a := answer{From: from, Text: said, Timestamp: time.UnixMicro(at).UTC().Format("2006-01-02T15:04:05.000Z"), Type: "message", ID: id}
	if a.Truncated = len(said) > maxAnswer; a.Truncated {
		a.Text = strings.ToValidUTF8(said[:maxAnswer], "")
	}
	return a
}

// row returns the answer in its recorded form.
func (a answer) row() ([]byte, error) { return rawjson.Encode(a) }

// addAnswer records the agent's answer to a frame, once, with an event.
func addAnswer(c *sqlite.Conn, f Frame, said string, at int64) error {
	about := f.UUID
	if f.Kind == FrameNudge {
		about = f.Parent
	}
	ids, err := sqlite.All(c, func(v sqlite.Row) string { return v.Text(0) },
		"SELECT CASE id WHEN '' THEN uuid ELSE id END FROM deliveries WHERE frame=? ORDER BY seq", about)
	if err != nil {
		return err
	}
	_, err = addAnswerTo(c, f, ids, said, at)
	return err
}

// addAnswerTo is addAnswer for the messages with these ids, and returns the number of the
// answer.
func addAnswerTo(c *sqlite.Conn, f Frame, ids []string, said string, at int64) (int64, error) {
	a := newAnswer(f.Inbox, f.UUID, said, at)
	a.Type = "answer"
	a.InReplyTo = append([]string{}, ids...)
	raw, err := a.row()
	if err != nil {
		return 0, err
	}
	inboxID, err := inboxNumber(c, f.InboxKey)
	if err != nil {
		return 0, err
	}
	n, err := c.Number("INSERT INTO messages (inbox_id, frame, at, raw) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING message",
		inboxID, f.UUID, at, raw)
	if err != nil || n == 0 {
		return 0, err
	}
	_, err = c.Exec(`INSERT INTO events (inbox_id, delivery, state, reason, pid, session, at, message)
		VALUES (?, 0, 'answer', '', 0, ?, ?, ?)`, inboxID, f.Session, at, n)
	return n, err
}
