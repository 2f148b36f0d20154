package journal

import (
	"context"

	"teambridge/inbox/sqlite"
	"teambridge/teams"
)

// A InboxKey is one inbox of one team instance.
type InboxKey struct {
	Root  string // real path of the Claude root
	Team  teams.Instance
	Inbox string // name
}

// Occupied lists the inboxes that messages are taken to be in, of those that q asks
// for by root, team and inbox.
func (j *Journal) Occupied(ctx context.Context, q Query) (list []InboxKey, err error) {
	where, args := q.inboxes()
	if where == "" {
		where = "TRUE"
	}
	err = j.db.Do(ctx, "occupied", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		return c.Query(func(v []sqlite.Value) error {
			var b InboxKey
			b.Root, _ = v[0].(string)
			b.Team.Team, _ = v[1].(string)
			b.Team.CreatedAt, _ = v[2].(int64)
			b.Inbox, _ = v[3].(string)
			list = append(list, b)
			return nil
		}, `SELECT root, team, created_at, inbox FROM inboxes WHERE `+where+`
			AND EXISTS (SELECT 1 FROM messages m INDEXED BY messages_present WHERE m.inbox=inboxes.id AND gone_at IS NULL) ORDER BY id`, args...)
	})
	return list, err
}
