package journal

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
	"teambridge/teams"
)

// An Instance is one team, as far as the journal has seen it.
type Instance struct {
	Root    string
	Team    teams.Instance
	Inboxes []string // of which the journal holds something, in byte order

	// When its first row was seen, and the snapshot in which its last change was.
	FirstSeen, LastSeen time.Time
}

// Instances lists the teams whose inboxes are in the journal, by name and then
// by creation time: those under one Claude root, or all if root is empty.
func (j *Journal) Instances(ctx context.Context, root string) (list []Instance, err error) {
	q := Query{Root: root}
	where, args := q.inboxes()
	if where == "" {
		where = "TRUE"
	}
	err = j.db.Do(ctx, "instances", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		return c.Query(func(v []sqlite.Value) error {
			var i Instance
			i.Root, _ = v[0].(string)
			i.Team.Team, _ = v[1].(string)
			i.Team.CreatedAt, _ = v[2].(int64)
			name, _ := v[3].(string)
			first, last := moment(v[4]), moment(v[5])
			if n := len(list); n == 0 || list[n-1].Root != i.Root || list[n-1].Team != i.Team {
				i.FirstSeen, i.LastSeen = first, last
				list = append(list, i)
			}
			at := &list[len(list)-1]
			at.Inboxes = append(at.Inboxes, name)
			if first.Before(at.FirstSeen) {
				at.FirstSeen = first
			}
			if last.After(at.LastSeen) {
				at.LastSeen = last
			}
			return nil
		}, "SELECT root, team, created_at, inbox, first_seen, began FROM inboxes WHERE "+where+
			" ORDER BY root, team, created_at, inbox", args...)
	})
	return list, err
}

// Adopt makes what was recorded of a team without a creation time that of i,
// whose creation time was read since. An inbox of which i has a record of its own
// stays what it is, and what is in it is recorded as gone.
func (j *Journal) Adopt(ctx context.Context, root string, i teams.Instance) error {
	if err := names(field{"root", root}, field{"team", i.Team}); err != nil {
		return err
	}
	if i.CreatedAt == 0 {
		return &ValueError{"creation time", "is missing"}
	}
	err := j.db.Do(ctx, "adopt", func(c *sqlite.Conn) error {
		n, err := c.Exec(`UPDATE OR IGNORE inboxes SET created_at=? WHERE root=? AND team=? AND created_at=0`, i.CreatedAt, root, i.Team)
		if n > 0 {
			clear(j.views)
			j.held = 0
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = j.Observe(ctx, Snapshot{Root: root, Team: teams.Instance{Team: i.Team}, Gone: true, At: j.now()})
	return err
}
