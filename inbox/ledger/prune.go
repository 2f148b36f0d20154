package ledger

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox/sqlite"
)

// A prune deletes pruneRows rows of a table in one transaction, which takes some 40 ms, and then pauses for
// prunePause, longer than a caller waits between two attempts. With 100,000 rows in one transaction, senders waited
// for seconds.
const (
	pruneRows  = 2000
	prunePause = 30 * time.Millisecond
)

// Prune forgets records from before the given time, in all teams: written messages, ended deliveries and frames,
// events, dismissed items, owed replies, and messages from other machines that were put somewhere or refused. It
// returns the number of messages, deliveries and frames, even with an error. It keeps intents, joins, sessions,
// unread messages of the person, open deliveries, and a frame as long as one of its deliveries. A forgotten message
// that is sent again under its id is a new message. A forgotten delivery still counts in [Deliveries.Occurrences].
func (l *Ledger) Prune(ctx context.Context, before time.Time) (n int64, err error) {
	at := before.UnixMicro()
	for _, part := range []struct {
		counts bool // whether Prune's result includes these rows
		delete func(c *sqlite.Conn, before int64) (int64, error)
	}{{false, pruneOwed}, {true, pruneSends}, {true, pruneDeliveries}, {true, pruneFrames}, {false, pruneMessages}, {false, pruneEvents}, {false, pruneDismissed}, {false, prunePaneMessages}, {false, pruneIncoming}} {
		for gone := int64(pruneRows); gone == pruneRows; {
			err := l.write(ctx, "prune", durable, func(c *sqlite.Conn) (err error) {
				gone, err = part.delete(c, at)
				return err
			})
			if err != nil {
				return n, err
			}
			if part.counts {
				n += gone
			}
			if gone == pruneRows {
				select {
				case <-time.After(prunePause):
				case <-ctx.Done(): // the next write returns the error
				}
			}
		}
	}
	return n, nil
}

// PruneTo forgets the oldest records, as [Ledger.Prune] does, while the ledger is larger than maxBytes, and gives the
// space back.
func (l *Ledger) PruneTo(ctx context.Context, maxBytes int64) (n int64, err error) {
	const times = "(SELECT at FROM messages WHERE raw<>x'' UNION ALL SELECT at FROM deliveries WHERE NOT " + unended + ")"
	for {
		if _, err := l.GiveBack(ctx); err != nil {
			return n, err
		}
		bytes, err := l.Size(ctx)
		if err != nil || bytes <= maxBytes {
			return n, err
		}
		records, err := l.db.Number(ctx, "prune", "SELECT count(*) FROM "+times)
		if err != nil || records == 0 {
			return n, err
		}
		// As many records as have the excess size, if all have the same size; at least 5%.
		many := min(max(records/20+1, records*(bytes-maxBytes)/bytes), records)
		at, err := l.db.Number(ctx, "prune", "SELECT at FROM "+times+" ORDER BY at LIMIT 1 OFFSET ?", many-1)
		if err != nil {
			return n, err
		}
		gone, err := l.Prune(ctx, time.UnixMicro(at+1))
		if n += gone; err != nil {
			return n, err
		}
		left, err := l.db.Number(ctx, "prune", "SELECT count(*) FROM "+times)
		if err != nil || left == records {
			_, again := l.GiveBack(ctx)
			return n, errors.Join(err, again) // the remaining records cannot be pruned
		}
	}
}

// GiveBack gives the space of forgotten records back to the disk, in steps: see [sqlite.DB.GiveBack].
func (l *Ledger) GiveBack(ctx context.Context) (emptied bool, err error) {
	return l.db.GiveBack(ctx, "prune")
}

// Size returns the size of the ledger in bytes.
func (l *Ledger) Size(ctx context.Context) (int64, error) { return l.db.Size(ctx, "measure") }

func pruneSends(c *sqlite.Conn, at int64) (int64, error) {
	return c.Exec(`DELETE FROM sends WHERE (root, team, created_at, inbox, id) IN
		(SELECT root, team, created_at, inbox, id FROM sends WHERE state='written' AND at<? LIMIT ?+0)`, at, pruneRows)
}

func pruneDeliveries(c *sqlite.Conn, at int64) (int64, error) {
	const ended = "SELECT seq FROM deliveries WHERE at<?1 AND NOT " + unended + " ORDER BY seq LIMIT ?2+0"
	for _, query := range []string{
		`INSERT INTO pruned (inbox_id, key, occurrence)
			SELECT inbox_id, key, max(occurrence) FROM deliveries WHERE key<>'' AND seq IN (` + ended + `) GROUP BY inbox_id, key
			ON CONFLICT DO UPDATE SET occurrence=max(occurrence, excluded.occurrence)`,
		`DELETE FROM contents WHERE seq IN (` + ended + `)`,
	} {
		if _, err := c.Exec(query, at, pruneRows); err != nil {
			return 0, err
		}
	}
	return c.Exec("DELETE FROM deliveries WHERE seq IN ("+ended+")", at, pruneRows)
}

// pruneFrames comes after the deliveries. A nudge stays as long as its parent is open.
func pruneFrames(c *sqlite.Conn, at int64) (int64, error) {
	const ended = `SELECT uuid FROM frames WHERE at<?1 AND NOT ` + unended + `
		AND uuid NOT IN (SELECT frame FROM deliveries)
		AND parent NOT IN (SELECT uuid FROM frames WHERE ` + unended + `) LIMIT ?2+0`
	return c.Exec("DELETE FROM frames WHERE uuid IN ("+ended+")", at, pruneRows)
}

// pruneMessages forgets texts together with their events. It keeps the last message, without its text, so that its
// number is not reused.
func pruneMessages(c *sqlite.Conn, at int64) (int64, error) {
	// Messages are in the order of their times, unless the clock was set.
	const old = `SELECT message FROM messages WHERE message NOT IN (SELECT message FROM pending) AND message NOT IN (SELECT message FROM said WHERE read_at=0)
		AND message < (SELECT min(coalesce((SELECT message FROM messages WHERE at>=?1 ORDER BY message LIMIT 1), max(message)), max(message)) FROM messages)
		ORDER BY message LIMIT ?2+0`
	const last = `message=(SELECT max(message) FROM messages) AND message NOT IN (SELECT message FROM pending) AND message NOT IN (SELECT message FROM said WHERE read_at=0)`
	for _, query := range []string{
		"DELETE FROM events WHERE message IN (SELECT message FROM messages WHERE " + last + " AND at<?1)",
		"UPDATE messages SET frame='', raw=x'' WHERE " + last + " AND at<?1 AND raw<>x''",
	} {
		if _, err := c.Exec(query, at); err != nil {
			return 0, err
		}
	}
	if _, err := c.Exec("DELETE FROM events WHERE message IN ("+old+")", at, pruneRows); err != nil {
		return 0, err
	}
	return c.Exec("DELETE FROM messages WHERE message IN ("+old+")", at, pruneRows)
}

// pruneEvents comes after the other parts with events, and also forgets the lines of frames that are gone.
func pruneEvents(c *sqlite.Conn, at int64) (int64, error) {
	gone, err := c.Exec("DELETE FROM events WHERE n IN (SELECT n FROM events WHERE at<? ORDER BY at LIMIT ?+0)", at, pruneRows)
	if err != nil || gone == pruneRows {
		return gone, err
	}
	_, err = c.Exec("DELETE FROM lines WHERE uuid NOT IN (SELECT uuid FROM frames)")
	return gone, err
}
