package journal

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// Pruned is the result of Prune.
type Pruned struct {
	Messages    int64 // deleted
	Receipts    int64 // deleted
	RelayEvents int64 // deleted events of relays
	Bytes       int64 // size of the journal afterwards
	Freed       int64 // by how much it became smaller
}

// pruneStep limits the messages deleted in one transaction, so that others wait for tens of milliseconds.
const pruneStep = 500

// Prune deletes the messages that were gone from their inboxes before the given time, and
// the receipts and relay events before it. Then, while the journal is larger than maxBytes,
// if that is not 0, it deletes the messages that have been gone for longest and the oldest
// events. It keeps messages that are in an inbox: the next look would record them again.
//
// It works in steps, between which others get their turn, and gives the space back to the
// disk. With an error, what was done until then stays done and is reported.
func (j *Journal) Prune(ctx context.Context, before time.Time, maxBytes int64) (p Pruned, err error) {
	start, _, err := j.size(ctx)
	if err != nil {
		return p, err
	}
	defer func() {
		if now, _, e := j.size(context.WithoutCancel(ctx)); e == nil {
			p.Bytes, p.Freed = now, start-now
		}
	}()

	err = j.db.Transaction(ctx, "prune", "IMMEDIATE", func(c *sqlite.Conn) error {
		if err := watermark(c, "SELECT max(seq) FROM receipts WHERE at<?", before.UnixMicro()); err != nil {
			return err
		}
		n, err := c.Exec("DELETE FROM receipts WHERE at<?", before.UnixMicro())
		p.Receipts = n
		return err
	})
	if err != nil {
		return p, err
	}
	for n := int64(pruneStep); n == pruneStep; p.RelayEvents += n {
		if n, err = j.dropRelayed(ctx, before.UnixMicro(), pruneStep); err != nil {
			return p, err
		}
	}
	for n := int64(pruneStep); n == pruneStep; p.Messages += n {
		if n, err = j.drop(ctx, before.UnixMicro(), pruneStep); err != nil {
			return p, err
		}
	}
	if p.Messages > 0 || p.Receipts > 0 || p.RelayEvents > 0 {
		if err := j.shrink(ctx); err != nil {
			return p, err
		}
	}
	for maxBytes > 0 {
		bytes, messages, err := j.size(ctx)
		if err != nil {
			return p, err
		}
		if bytes <= maxBytes || messages == 0 {
			break
		}
		var dropped int64
		// As many as have the excess size, if all are alike; at least 5% of them.
		many := max(messages/20+1, messages*(bytes-maxBytes)/bytes)
		for dropped < many {
			step := min(pruneStep, many-dropped)
			n, err := j.drop(ctx, 1<<62, step)
			if p.Messages += n; err != nil {
				return p, err
			}
			events, err := j.dropRelayed(ctx, 1<<62, step)
			if p.RelayEvents += events; err != nil {
				return p, err
			}
			if n+events == 0 {
				break
			}
			dropped += n + events
		}
		if err := j.shrink(ctx); err != nil || dropped == 0 {
			return p, err
		}
	}
	return p, nil
}

// size returns the size of the journal, and how many messages and relay events it has.
func (j *Journal) size(ctx context.Context) (bytes, messages int64, err error) {
	err = j.db.Do(ctx, "prune", func(c *sqlite.Conn) error {
		return c.Query(func(v sqlite.Row) { bytes, messages = v.Int(0), v.Int(1) }, `SELECT page_size*page_count,
			(SELECT count(*) FROM messages) + (SELECT count(*) FROM relay_events) FROM pragma_page_size, pragma_page_count`)
	})
	return bytes, messages, err
}

// watermark records that what query finds is about to be deleted.
func watermark(c *sqlite.Conn, query string, args ...sqlite.Value) error {
	seq, err := c.Number(query, args...)
	if err != nil {
		return err
	}
	if _, err := c.Exec("UPDATE counter SET pruned=max(pruned, ?)", seq); err != nil {
		return err
	}
	_, err = c.Exec("DELETE FROM epochs WHERE first < (SELECT max(first) FROM epochs WHERE first <= (SELECT pruned FROM counter))")
	return err
}

// drop deletes at most limit messages that were gone before a time, those that have been
// gone for longest first.
func (j *Journal) drop(ctx context.Context, before, limit int64) (n int64, err error) {
	err = j.db.Transaction(ctx, "prune", "IMMEDIATE", func(c *sqlite.Conn) (err error) {
		const which = "(SELECT seq FROM messages WHERE gone_at IS NOT NULL AND gone_at<? ORDER BY gone_at, seq LIMIT ?)"
		// A message's last change is that it is gone. A prompt or an answer only appeared.
		for _, last := range []string{"max(seq) FROM changes", "max(message) FROM prompts", "max(message) FROM answers"} {
			if err := watermark(c, "SELECT "+last+" WHERE message IN "+which, before, limit); err != nil {
				return err
			}
		}
		for _, from := range []string{"changes WHERE message", "words WHERE rowid", "prompts WHERE message", "answers WHERE message", "messages WHERE seq"} {
			if n, err = c.Exec("DELETE FROM "+from+" IN "+which, before, limit); err != nil {
				return err
			}
		}
		_, err = c.Exec(`DELETE FROM inboxes WHERE began<? AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.inbox=inboxes.id)
			AND NOT EXISTS (SELECT 1 FROM envelopes e WHERE e.inbox=inboxes.id)`, before)
		return err
	})
	return n, err
}

// dropRelayed deletes at most limit relay events before a time, the oldest first. The
// position up to which events were copied stays.
func (j *Journal) dropRelayed(ctx context.Context, before, limit int64) (n int64, err error) {
	err = j.db.Transaction(ctx, "prune", "IMMEDIATE", func(c *sqlite.Conn) (err error) {
		const which = "(SELECT seq FROM relay_events WHERE at<? ORDER BY at, seq LIMIT ?)"
		if err := watermark(c, "SELECT max(seq) FROM relay_events WHERE seq IN "+which, before, limit); err != nil {
			return err
		}
		n, err = c.Exec("DELETE FROM relay_events WHERE seq IN "+which, before, limit)
		return err
	})
	return n, err
}

// shrink gives the space of deleted records back to the disk.
func (j *Journal) shrink(ctx context.Context) error {
	step := func(f func(*sqlite.Conn) (more bool, err error)) error {
		for more := true; more; {
			err := j.db.Do(ctx, "prune", func(c *sqlite.Conn) (err error) {
				more, err = f(c)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	// The index only notes what was deleted until its parts are merged: a negative number
	// begins that, positive ones go on (https://sqlite.org/fts5.html#the_merge_command).
	const pages = 500
	size := int64(-pages)
	err := step(func(c *sqlite.Conn) (bool, error) {
		before, err := c.Number("SELECT total_changes()")
		if err != nil {
			return false, err
		}
		if _, err := c.Exec("INSERT INTO words (words, rank) VALUES ('merge', ?)", size); err != nil {
			return false, err
		}
		after, err := c.Number("SELECT total_changes()")
		size = pages
		return after-before >= 2, err
	})
	if err != nil {
		return err
	}
	free := int64(-1)
	err = step(func(c *sqlite.Conn) (bool, error) {
		if err := c.Query(func(sqlite.Row) {}, "PRAGMA incremental_vacuum(1000)"); err != nil {
			return false, err
		}
		before := free
		free, err = c.Number("PRAGMA freelist_count")
		return free > 0 && free != before, err
	})
	if err != nil {
		return err
	}
	return step(func(c *sqlite.Conn) (bool, error) {
		// So that the log does not keep what the file gave back, unless someone reads it.
		return false, c.Query(func(sqlite.Row) {}, "PRAGMA wal_checkpoint(TRUNCATE)")
	})
}
