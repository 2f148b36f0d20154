package journal

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/teams"
)

// A TeamRecord is a team that has records in the journal.
type TeamRecord struct {
	Root      string
	Team      teams.Instance
	LastHeard time.Time // FirstSeen of the newest message, or At of the newest envelope
}

// Teams lists the teams in the journal that q selects by root, team, creation time and inbox, sorted by root, name
// and creation time.
func (j Messages) Teams(ctx context.Context, q Query) ([]TeamRecord, error) {
	where := q.inboxes()
	// The last record of each inbox is found in an index; max(time) would read all rows.
	return sqlite.Select(ctx, j.db, "teams", func(v sqlite.Row) TeamRecord {
		return TeamRecord{Root: v.Text(0), Team: teams.Instance{Team: v.Text(1), CreatedAt: v.Int(2)}, LastHeard: v.Time(3)}
	}, `SELECT root, team, created_at, max(max(
			coalesce((SELECT first_seen FROM messages m WHERE m.inbox=inboxes.id ORDER BY m.seq DESC LIMIT 1), 0),
			coalesce((SELECT at FROM envelopes e WHERE e.inbox=inboxes.id ORDER BY e.seq DESC LIMIT 1), 0))) AS last
		FROM inboxes WHERE `+where.String()+` GROUP BY root, team, created_at HAVING last>0 ORDER BY root, team, created_at`, where.args...)
}
