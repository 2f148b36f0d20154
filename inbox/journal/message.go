package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Messages are the rows that were seen in inboxes or sent, user prompts and answers, with their changes. The tables
// are inboxes, messages, changes and, for the search index, stale.
type Messages struct{ *database }

// A Record is one row of one inbox. Raw and the other fields of Row are those of the first look at the row, except
// Read, which is true once the row was seen read, and From, which is the author's present name.
type Record struct {
	inbox.Row
	inbox.InboxKey
	Seq int64 // the number of the change with which it appeared

	// Occurrence counts the equal rows of the inbox from 1, including those that are gone. It
	// starts again when all of them were pruned.
	Occurrence int

	// Prompt is the delivery of a user prompt to a headless agent, and Answer the frame that
	// one answered, in its own inbox. Both are "" for a row, whatever its content. They were
	// never in the inbox file and count as gone at once.
	Prompt, Answer string

	// When the row was first in the inbox, was seen read and was seen to be gone, in UTC, to the microsecond.
	// FirstSeen is the row's own time if that is between the last two looks, and not before that of a new row ahead of
	// it, and else the time of the look that found it. ReadAt and GoneAt are zero if it was not read or is not gone.
	FirstSeen, ReadAt, GoneAt time.Time
}

// set sets Row from its bytes, which it copies.
func (m *Record) set(raw []byte) {
	row, err := inbox.ParseRow(raw)
	if err != nil { // not from an inbox file: only its bytes are known
		row = inbox.Row{Raw: bytes.Clone(raw)}
	}
	m.Row = row
}

// scanned are the columns that scan reads, and columns also names their tables.
const scanned = `m.seq, i.root, i.team, i.created_at, i.inbox, m.occurrence, m.first_seen, m.read_at, m.gone_at, m.raw, m.prompt, m.answer, m.sender`

const columns = scanned + ` FROM messages m CROSS JOIN inboxes i ON i.id = m.inbox`

func scan(v sqlite.Row) (m Record) {
	m.set(v.Blob(9))
	m.Seq, m.InboxKey, m.Occurrence = v.Int(0), scanKey(v, 1), int(v.Int(5))
	m.FirstSeen, m.ReadAt, m.GoneAt = v.Time(6), v.Time(7), v.Time(8)
	m.Prompt, m.Answer = v.Text(10), v.Text(11)
	m.Row.Read, m.From = !m.ReadAt.IsZero(), v.Text(12) // the author's present name: see [Messages.Rename]
	return m
}

// A Query selects the records that match all of its fields. The zero value selects all.
type Query struct {
	Root      string // real path of the Claude root
	Team      string // name; without CreatedAt, all instances of that name
	CreatedAt int64  // of the team, in milliseconds; 0 for any
	Inbox     string // name
	From      string // name of the author
	ID        string // [inbox.Row.ID]

	After, Before int64     // exclusive limits of the numbers; 0 for none
	Since, Until  time.Time // of FirstSeen: from Since on, before Until

	Limit  int  // the largest number of records; 0 for all
	Newest bool // highest number first, else lowest first
}

// conditions returns the conditions of a query, and their arguments.
type conditions struct {
	terms []string
	args  []sqlite.Value
}

func (c *conditions) String() string {
	return strings.Join(append([]string{"TRUE"}, c.terms...), " AND ")
}

func (c *conditions) add(given bool, term string, value sqlite.Value) {
	if given {
		c.terms, c.args = append(c.terms, term), append(c.args, value)
	}
}

// limited returns the arguments and one more, for LIMIT.
func (c *conditions) limited(n int) []sqlite.Value { return append(slices.Clip(c.args), n) }

// inboxes is the condition on columns that name an inbox.
func (q *Query) inboxes() (c conditions) {
	c.add(q.Root != "", "root=?", q.Root)
	c.add(q.Team != "", "team=?", q.Team)
	c.add(q.Inbox != "", "inbox=?", q.Inbox)
	c.add(q.CreatedAt != 0, "created_at=?", q.CreatedAt)
	return c
}

// records adds the conditions on a record. at is the column with its time, and prefix is put before each column.
func (q *Query) records(c *conditions, prefix, at string) {
	c.add(q.From != "", prefix+"sender=?", q.From)
	c.add(q.ID != "", prefix+"id=?", q.ID)
	c.add(q.After != 0, prefix+"seq>?", q.After)
	c.add(q.Before != 0, prefix+"seq<?", q.Before)
	c.add(!q.Since.IsZero(), prefix+at+">=?", q.Since.UnixMicro())
	c.add(!q.Until.IsZero(), prefix+at+"<?", q.Until.UnixMicro())
}

// messages is the condition on messages m.
func (q *Query) messages() (c conditions) {
	if in := q.inboxes(); len(in.terms) > 0 {
		c = conditions{[]string{"m.inbox IN (SELECT id FROM inboxes WHERE " + in.String() + ")"}, in.args}
	}
	q.records(&c, "m.", "first_seen")
	return c
}

// Authors lists the senders of the messages that q selects, by their present names, in byte order. It ignores Limit
// and Newest.
func (j Messages) Authors(ctx context.Context, q Query) ([]string, error) {
	where := q.messages()
	return sqlite.Select(ctx, j.db, "authors", func(v sqlite.Row) string { return v.Text(0) },
		"SELECT DISTINCT m.sender FROM messages m WHERE "+where.String()+" ORDER BY 1", where.args...)
}

func (q *Query) order() string {
	if q.Newest {
		return "DESC"
	}
	return "ASC"
}

// pageSize is how many records are read at once. Other callers get their turn between two pages.
const pageSize = 200

// pageBytes limits a page of large records, approximately; a single record may be larger. A page has at most four
// times as many records as the page before it.
const pageBytes = 1 << 20

// pages yields the records of one page after another. page returns at most limit records, seq the number of a record,
// and bytes its size. bytes is nil if all records are small.
func pages[T any](q Query, seq func(*T) int64, bytes func(*T) int, page func(q Query, limit int) ([]T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q, left, most := q, q.Limit, pageSize
		if bytes != nil {
			most = 4
		}
		for {
			size := most
			if q.Limit > 0 {
				size = min(size, left)
			}
			list, err := page(q, size)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, record := range list {
				if !yield(record, nil) {
					return
				}
			}
			if bytes != nil {
				total := 1
				for i := range list {
					total += bytes(&list[i])
				}
				most = max(1, min(4*most, pageSize, pageBytes*len(list)/total))
			}
			left -= len(list)
			if len(list) < size || q.Limit > 0 && left <= 0 {
				return
			}
			if last := seq(&list[len(list)-1]); q.Newest {
				q.Before = last
			} else {
				q.After = last
			}
		}
	}
}

// All yields the messages that q selects, in the order of their numbers. It ends with the first error. The loop does
// not lock the journal: messages that are recorded meanwhile may be yielded or not.
func (j Messages) All(ctx context.Context, q Query) iter.Seq2[Record, error] {
	return pages(q, func(m *Record) int64 { return m.Seq }, func(m *Record) int { return len(m.Raw) }, func(q Query, limit int) ([]Record, error) {
		where := q.messages()
		// The numbers first, so that nothing but numbers is sorted.
		return sqlite.Select(ctx, j.db, "messages", scan, "SELECT "+columns+" WHERE m.seq IN (SELECT m.seq FROM messages m WHERE "+where.String()+
			" ORDER BY m.seq "+q.order()+" LIMIT ?+0) ORDER BY m.seq "+q.order(), where.limited(limit)...)
	})
}

// AnswerTo returns an agent's answer to a frame, and whether one is recorded.
func (j Messages) AnswerTo(ctx context.Context, frame string) (m Record, found bool, err error) {
	err = j.db.Do(ctx, "answer", func(c *sqlite.Conn) (err error) {
		m, found, err = sqlite.One(c, scan, "SELECT "+columns+" WHERE m.answer=? AND m.answer<>''", frame) // for the index
		return err
	})
	return m, found, err
}

// AnswersAt returns the answers of an inbox's agent in the millisecond of a time, since transcripts have
// milliseconds.
func (j Messages) AnswersAt(ctx context.Context, k inbox.InboxKey, at time.Time) ([]Record, error) {
	from := at.Truncate(time.Millisecond)
	// An answer counts as gone when it is made, and only gone_at has an index.
	return sqlite.Select(ctx, j.db, "answers", scan, "SELECT "+columns+" WHERE m.seq IN (SELECT seq FROM messages INDEXED BY messages_gone WHERE gone_at>=? AND gone_at<?)"+
		" AND length(m.answer)>0 AND m.inbox=(SELECT id FROM inboxes WHERE "+thisInbox+") ORDER BY m.seq",
		append([]sqlite.Value{from.UnixMicro(), from.Add(time.Millisecond).UnixMicro()}, inboxArgs(k)...)...)
}

// KindAnswer is the kind of a headless agent's answer.
const KindAnswer = "answer"

// Kind is [KindAnswer] for an answer, whatever its text, and else [inbox.Row.Kind].
func (m *Record) Kind() string {
	if m.Answer != "" {
		return KindAnswer
	}
	return m.Row.Kind()
}

// Noise is [inbox.Row.Noise]. An answer never is.
func (m *Record) Noise() bool { return m.Answer == "" && m.Row.Noise() }

// InReplyTo lists the ids of the messages to which an answer replies.
func (m *Record) InReplyTo() (ids []string) {
	if m.Answer != "" {
		_ = json.Unmarshal(m.Extra["inReplyTo"], &ids) // the ledger wrote it
	}
	return ids
}

// Truncated reports whether an answer was shortened.
func (m *Record) Truncated() bool {
	return m.Answer != "" && string(m.Extra["truncated"]) == "true"
}

// Entry is the message as an entry of a feed, with its number as its index.
func (m Record) Entry() inbox.Entry {
	return inbox.Entry{Row: m.Row, Inbox: m.Inbox, Index: int(m.Seq)}
}
