package journal

import (
	"context"

	"teambridge/inbox/sqlite"
)

// IDs lists the ids of messages and envelopes that begin with prefix, in byte order. Of q
// it uses Root, Team, CreatedAt, Inbox and Limit.
func (j Messages) IDs(ctx context.Context, q Query, prefix string) ([]string, error) {
	c := conditions{}
	c.add(true, "id>=?", prefix)
	c.add(true, "id<?", prefix+"\U0010ffff")
	if in := q.inboxes(); len(in.terms) > 0 {
		c.terms, c.args = append(c.terms, "inbox IN (SELECT id FROM inboxes WHERE "+in.String()+")"), append(c.args, in.args...)
	}
	limit := q.Limit
	if limit == 0 {
		limit = -1
	}
	return sqlite.Select(ctx, j.db, "ids", func(v sqlite.Row) string { return v.Text(0) },
		"SELECT id FROM messages WHERE "+c.String()+" UNION SELECT id FROM envelopes WHERE "+c.String()+" ORDER BY 1 LIMIT ?+0",
		append(append(c.args, c.args...), limit)...)
}
