package journal

import (
	"context"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/teams"
)

// thisInbox is the condition that a record is of one inbox, with the arguments of args.
const thisInbox = "root=? AND team=? AND created_at=? AND inbox=?"

func inboxArgs(k inbox.InboxKey, before ...sqlite.Value) []sqlite.Value {
	return append(before, k.Root, k.Team, k.CreatedAt, k.Inbox)
}

// scanKey reads root, team, created_at and inbox from column i on.
func scanKey(v sqlite.Row, i int) inbox.InboxKey {
	return inbox.InboxKey{Root: v.Text(i), Team: v.Text(i + 1), CreatedAt: v.Int(i + 2), Inbox: v.Text(i + 3)}
}

// Inboxes lists the inboxes in the journal that q selects by root, team and inbox, sorted by root, team, creation
// time of the team and inbox.
func (j Messages) Inboxes(ctx context.Context, q Query) ([]inbox.InboxKey, error) {
	return j.inboxes(ctx, q, "TRUE ORDER BY root, team, created_at, inbox")
}

// Occupied lists the inboxes that q selects by root, team and inbox, and that have messages as far as the journal
// knows.
func (j Messages) Occupied(ctx context.Context, q Query) ([]inbox.InboxKey, error) {
	return j.inboxes(ctx, q, `EXISTS (
		SELECT 1 FROM messages m INDEXED BY messages_present WHERE m.inbox=inboxes.id AND gone_at IS NULL) ORDER BY id`)
}

func (j Messages) inboxes(ctx context.Context, q Query, rest string) ([]inbox.InboxKey, error) {
	where := q.inboxes()
	return sqlite.Select(ctx, j.db, "inboxes", func(v sqlite.Row) inbox.InboxKey { return scanKey(v, 0) },
		"SELECT root, team, created_at, inbox FROM inboxes WHERE "+where.String()+" AND "+rest, where.args...)
}

// Adopt gives the records of a team without a creation time to team, whose creation time has since been read. If team
// already has a record of an inbox, the inbox is not moved, and its messages are recorded as gone.
func (j Messages) Adopt(ctx context.Context, root string, team teams.Instance) error {
	if err := names("root", root, "team", team.Team); err != nil {
		return err
	}
	if team.CreatedAt == 0 {
		return invalid("creation time", "is missing")
	}
	err := j.db.Do(ctx, "adopt", func(c *sqlite.Conn) error {
		n, err := c.Exec("UPDATE OR IGNORE inboxes SET created_at=? WHERE root=? AND team=? AND created_at=0", team.CreatedAt, root, team.Team)
		if n > 0 {
			clear(j.views)
			j.held = 0
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = j.Observe(ctx, Snapshot{InboxKey: inbox.InboxKey{Root: root, Team: team.Team}, Gone: true, At: j.now()})
	return err
}
