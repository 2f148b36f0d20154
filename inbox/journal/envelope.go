package journal

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Envelopes are the texts, tool calls and other events of agents. The tables are envelopes and pruned_sessions.
type Envelopes struct{ *database }

// An Envelope is an envelope of the session protocol: one event of an agent, or a message to it in its session.
// Package teambridge/relay/wire describes its JSON. The journal searches by the other fields.
type Envelope struct {
	inbox.InboxKey        // the agent's own inbox
	Seq            int64  // its number in the journal
	ID             string // recorded once for each inbox

	Session  string
	Turn     string // "" outside a turn
	Call     string // the tool call that it starts or ends
	Subagent string // the subagent that it comes from
	Kind     string // of its event, such as text or tool-call-start
	Role     string // the author of the event: agent or user

	At  time.Time // in UTC, to the microsecond
	Raw []byte    // the envelope as JSON
}

// Text returns the searchable text: an agent's text, the title of a tool call, or the name of a file; else "".
func (e *Envelope) Text() string {
	var event struct {
		Ev struct{ T, Text, Title, Name string }
	}
	if e.Role == "user" || json.Unmarshal(e.Raw, &event) != nil { // only texts of agents are searchable
		return ""
	}
	switch event.Ev.T {
	case "text", "service":
		return event.Ev.Text
	case "tool-call-start":
		return event.Ev.Title
	case "file":
		return event.Ev.Name
	}
	return ""
}

func (e *Envelope) check() error {
	if err := names("root", e.Root, "team", e.Team, "inbox", e.Inbox, "id", e.ID, "session", e.Session, "kind", e.Kind, "role", e.Role); err != nil {
		return err
	}
	switch {
	case e.At.IsZero():
		return invalid("time", "of an envelope is missing")
	case !json.Valid(e.Raw):
		return invalid("envelope "+e.ID, "is not JSON")
	}
	return nil
}

// Record records envelopes in the given order, and reports which of them are new. It skips an envelope whose id is in
// the journal, and one that is no newer than an envelope of its session that [Journal.Prune] has deleted. So a
// transcript can be read again after a crash. If there is an error (*[Error], *[ValueError]), none is recorded.
func (j Envelopes) Record(ctx context.Context, list ...Envelope) (recorded []bool, err error) {
	for i := range list {
		if err := list[i].check(); err != nil {
			return nil, err
		}
	}
	err = j.db.Do(ctx, "record envelopes", func(c *sqlite.Conn) error {
		recorded = make([]bool, len(list)) // this function runs again if the file was busy
		return j.number(c, func(n *numbers) (err error) {
			boxes := map[inbox.InboxKey]int64{}
			for i := range list {
				e := &list[i]
				box, ok := boxes[e.InboxKey]
				if !ok {
					if box, _, _, err = boxOf(c, e.InboxKey, e.At); err != nil {
						return err
					}
					boxes[e.InboxKey] = box
				}
				if recorded[i], err = e.insert(c, n, box); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return recorded, nil
}

// insert records an envelope of an inbox, if it is new.
func (e *Envelope) insert(c *sqlite.Conn, n *numbers, box int64) (recorded bool, err error) {
	changed, err := c.Exec(`INSERT INTO envelopes (seq, inbox, id, at, session, turn, call, subagent, kind, role, raw)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11
		WHERE NOT EXISTS (SELECT 1 FROM envelopes WHERE inbox=?2 AND id=?3)
		AND NOT EXISTS (SELECT 1 FROM pruned_sessions WHERE inbox=?2 AND session=?5 AND at>=?4)`,
		n.last+1, box, e.ID, e.At.UnixMicro(), e.Session, e.Turn, e.Call, e.Subagent, e.Kind, e.Role, e.Raw)
	if err != nil || changed == 0 {
		return false, err
	}
	n.next()
	return true, nil
}

const (
	envelopeScanned = "e.seq, i.root, i.team, i.created_at, i.inbox, e.id, e.at, e.session, e.turn, e.call, e.subagent, e.kind, e.role, e.raw"
	envelopeColumns = envelopeScanned + " FROM envelopes e CROSS JOIN inboxes i ON i.id = e.inbox"
)

func scanEnvelope(v sqlite.Row) Envelope {
	return Envelope{
		Seq: v.Int(0), InboxKey: scanKey(v, 1), ID: v.Text(5), At: v.Time(6), Session: v.Text(7), Turn: v.Text(8), Call: v.Text(9),
		Subagent: v.Text(10), Kind: v.Text(11), Role: v.Text(12), Raw: v.Blob(13),
	}
}

// An EnvelopeQuery selects the envelopes that match all of its fields. Since and Until refer
// to At, and From is the agent.
type EnvelopeQuery struct {
	Query
	Session, Turn, Call, Role string
	Kinds                     []string // any of these; nil for all
}

// envelopes is the condition on envelopes e. The sender of an envelope is its agent.
func (q *EnvelopeQuery) envelopes() (c conditions) {
	in := q.inboxes()
	in.add(q.From != "", "inbox=?", q.From)
	if len(in.terms) > 0 {
		column := "e.inbox"
		if q.Turn != "" || q.Call != "" {
			column = "+e.inbox" // so that SQLite uses their indexes
		}
		c = conditions{[]string{column + " IN (SELECT id FROM inboxes WHERE " + in.String() + ")"}, in.args}
	}
	own := q.Query
	own.From = ""
	own.records(&c, "e.", "at")
	c.add(q.Session != "", "e.session=?", q.Session)
	c.add(q.Turn != "", "e.turn=? AND e.turn<>''", q.Turn)
	c.add(q.Call != "", "e.call=? AND e.call<>''", q.Call)
	c.add(q.Role != "", "e.role=?", q.Role)
	if len(q.Kinds) > 0 {
		kinds, _ := json.Marshal(q.Kinds) // of strings
		c.add(true, "e.kind IN (SELECT value FROM json_each(?))", string(kinds))
	}
	return c
}

// All yields the envelopes that q selects, as [Messages.All] yields messages.
func (j Envelopes) All(ctx context.Context, q EnvelopeQuery) iter.Seq2[Envelope, error] {
	return pages(q.Query, func(e *Envelope) int64 { return e.Seq }, func(e *Envelope) int { return len(e.Raw) }, func(part Query, limit int) ([]Envelope, error) {
		q.Query = part
		where := q.envelopes()
		return sqlite.Select(ctx, j.db, "envelopes", scanEnvelope, "SELECT "+envelopeColumns+" WHERE e.seq IN (SELECT e.seq FROM envelopes e WHERE "+
			where.String()+" ORDER BY e.seq "+q.order()+" LIMIT ?+0) ORDER BY e.seq "+q.order(), where.limited(limit)...)
	})
}

// Last returns the time of the newest envelope ever recorded of a session, including pruned ones, or zero.
func (j Envelopes) Last(ctx context.Context, key inbox.InboxKey, session string) (at time.Time, err error) {
	err = j.db.Do(ctx, "last envelope", func(c *sqlite.Conn) error {
		return c.Query(func(v sqlite.Row) { at = v.Time(0) }, "WITH box AS (SELECT id FROM inboxes WHERE "+thisInbox+`)
			SELECT max(at) FROM (SELECT max(at) AS at FROM envelopes WHERE inbox=(SELECT id FROM box) AND session=?5
			UNION ALL SELECT at FROM pruned_sessions WHERE inbox=(SELECT id FROM box) AND session=?5)`, append(inboxArgs(key), session)...)
	})
	return at, err
}
