package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// Prune forgets what came to its end before the given time, in all teams:
// messages that were written, deliveries and frames that ended. It tells how
// many. Intents, what is open, and a frame as long as a delivery in it is kept,
// stay; so do joins and sessions. Events go by their age.
//
// A message that is forgotten and sent again under its id is a new message.
// Of a delivery it stays known that there was one: [Ledger.Occurrences].
func (l *Ledger) Prune(ctx context.Context, before time.Time) (n int64, err error) {
	at := before.UnixMicro()
	err = l.write(ctx, "prune", durable, func(c *sqlite.Conn) error {
		n = 0 // f runs again when the file was busy
		for _, step := range []struct {
			counts bool
			query  string
			args   []sqlite.Value
		}{
			{true, "DELETE FROM sends WHERE state='written' AND at<?", []sqlite.Value{at}},
			{false, `INSERT INTO pruned (post, key, occurrence)
				SELECT post, key, max(occurrence) FROM deliveries
				WHERE key<>'' AND at<? AND NOT ` + unended + ` GROUP BY post, key
				ON CONFLICT DO UPDATE SET occurrence=max(occurrence, excluded.occurrence)`, []sqlite.Value{at}},
			{false, `DELETE FROM contents WHERE seq IN (SELECT seq FROM deliveries WHERE at<? AND NOT ` + unended + `)`, []sqlite.Value{at}},
			{true, "DELETE FROM deliveries WHERE at<? AND NOT " + unended, []sqlite.Value{at}},
			// A nudge stays with the frame it is about.
			{true, `DELETE FROM frames WHERE at<? AND NOT ` + unended + `
				AND uuid NOT IN (SELECT frame FROM deliveries)
				AND parent NOT IN (SELECT uuid FROM frames WHERE ` + unended + `)`, []sqlite.Value{at}},
			{false, "DELETE FROM events WHERE at<?", []sqlite.Value{at}},
			{false, `DELETE FROM epochs WHERE first < (SELECT max(first) FROM epochs WHERE first <= coalesce(
				(SELECT min(n) FROM events), (SELECT seq+1 FROM sqlite_sequence WHERE name='events')))`, nil},
			{false, "DELETE FROM lines WHERE uuid NOT IN (SELECT uuid FROM frames)", nil},
		} {
			gone, err := c.Exec(step.query, step.args...)
			if err != nil {
				return err
			}
			if step.counts {
				n += gone
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
