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
	Envelopes   int64 // deleted
	TaskChanges int64 // deleted
	Bytes       int64 // size of the journal afterwards
}

// pruneStep limits the messages deleted in one transaction, so that others wait for tens of milliseconds.
const pruneStep = 500

// Prune deletes the messages that were gone from their inboxes before the given time, and
// the receipts and relay events before it. Then, while the journal is larger than maxBytes,
// if that is not 0, it deletes the oldest envelopes, then changes of tasks, and then the messages that have been gone
// for longest and the oldest events. It keeps messages that are in an inbox: the next look
// would record them again.
//
// It works in steps, between which others get their turn, and gives the space back to the
// disk. With an error, what was done until then stays done and is reported.
func (j *Journal) Prune(ctx context.Context, before time.Time, maxBytes int64) (p Pruned, err error) {
	defer j.measure(ctx, &p)
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
	err = j.prune(ctx, &p, maxBytes)
	return p, err
}

// PruneEnvelopes deletes the envelopes and the changes of tasks from before the given time, in steps like Prune.
func (j *Journal) PruneEnvelopes(ctx context.Context, before time.Time) (p Pruned, err error) {
	defer j.measure(ctx, &p)
	for n := int64(pruneStep); n == pruneStep; p.Envelopes += n {
		if n, err = j.dropEnvelopes(ctx, before.UnixMicro(), pruneStep); err != nil {
			return p, err
		}
	}
	for n := int64(pruneStep); n == pruneStep; p.TaskChanges += n {
		if n, err = j.dropTaskChanges(ctx, before.UnixMicro(), pruneStep); err != nil {
			return p, err
		}
	}
	if p.Envelopes > 0 || p.TaskChanges > 0 {
		err = j.shrink(ctx)
	}
	return p, err
}

// measure says in p how large the journal is.
func (j *Journal) measure(ctx context.Context, p *Pruned) {
	if now, _, err := j.size(context.WithoutCancel(ctx)); err == nil {
		p.Bytes = now
	}
}

// prune deletes what is oldest while the journal is larger than maxBytes.
func (j *Journal) prune(ctx context.Context, p *Pruned, maxBytes int64) error {
	for maxBytes > 0 {
		bytes, records, err := j.size(ctx)
		if err != nil || bytes <= maxBytes || records == 0 {
			return err
		}
		var dropped int64
		// As many as have the excess size, if all are alike; at least 5% of them.
		many := max(records/20+1, records*(bytes-maxBytes)/bytes)
		for dropped < many {
			n, err := j.dropOldest(ctx, p, min(pruneStep, many-dropped))
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			dropped += n
		}
		if err := j.shrink(ctx); err != nil || dropped == 0 {
			return err
		}
	}
	return nil
}

// dropOldest deletes at most limit envelopes or, if there are none, changes of tasks, or then messages and relay events.
func (j *Journal) dropOldest(ctx context.Context, p *Pruned, limit int64) (int64, error) {
	const ever = 1 << 62
	said, err := j.dropEnvelopes(ctx, ever, limit)
	if p.Envelopes += said; err != nil || said > 0 {
		return said, err
	}
	changed, err := j.dropTaskChanges(ctx, ever, limit)
	if p.TaskChanges += changed; err != nil || changed > 0 {
		return changed, err
	}
	messages, err := j.drop(ctx, ever, limit)
	if p.Messages += messages; err != nil {
		return messages, err
	}
	events, err := j.dropRelayed(ctx, ever, limit)
	p.RelayEvents += events
	return messages + events, err
}

// size returns the size of the journal, and how many records that can be deleted it has.
func (j *Journal) size(ctx context.Context) (bytes, records int64, err error) {
	err = j.db.Do(ctx, "prune", func(c *sqlite.Conn) error {
		return c.Query(func(v sqlite.Row) { bytes, records = v.Int(0), v.Int(1) }, `SELECT page_size*page_count,
			(SELECT count(*) FROM messages) + (SELECT count(*) FROM relay_events) + (SELECT count(*) FROM envelopes) + (SELECT count(*) FROM task_changes) FROM pragma_page_size, pragma_page_count`)
	})
	return bytes, records, err
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
		for _, last := range []string{"changes WHERE message", "messages WHERE length(prompt||answer)>0 AND seq"} {
			if err := watermark(c, "SELECT max(seq) FROM "+last+" IN "+which, before, limit); err != nil {
				return err
			}
		}
		for _, from := range []string{"changes WHERE message", "words WHERE rowid", "messages WHERE seq"} {
			if n, err = c.Exec("DELETE FROM "+from+" IN "+which, before, limit); err != nil {
				return err
			}
		}
		_, err = c.Exec(`DELETE FROM inboxes WHERE began<? AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.inbox=inboxes.id)
			AND NOT EXISTS (SELECT 1 FROM envelopes e WHERE e.inbox=inboxes.id)
			AND NOT EXISTS (SELECT 1 FROM pruned_sessions p WHERE p.inbox=inboxes.id AND p.at>=?)`, before, j.now().Add(-transcriptAge).UnixMicro())
		if err != nil {
			return err
		}
		_, err = c.Exec("DELETE FROM pruned_sessions WHERE inbox NOT IN (SELECT id FROM inboxes)")
		return err
	})
	return n, err
}

// transcriptAge is how long a transcript may be read again after its envelopes were deleted.
// Claude Code deletes transcripts after 30 days, if it is not told otherwise.
const transcriptAge = 90 * 24 * time.Hour

// dropEnvelopes deletes at most limit envelopes from before a time, the oldest first.
func (j *Journal) dropEnvelopes(ctx context.Context, before, limit int64) (n int64, err error) {
	err = j.db.Transaction(ctx, "prune", "IMMEDIATE", func(c *sqlite.Conn) error {
		const which = "(SELECT seq FROM envelopes WHERE at<? ORDER BY at, seq LIMIT ?)"
		if err := watermark(c, "SELECT max(seq) FROM envelopes WHERE seq IN "+which, before, limit); err != nil {
			return err
		}
		for _, query := range []string{
			"INSERT INTO pruned_sessions SELECT inbox, session, max(at) FROM envelopes WHERE seq IN " + which +
				" GROUP BY inbox, session ON CONFLICT DO UPDATE SET at=max(at, excluded.at)",
			"DELETE FROM words WHERE rowid IN " + which,
			"DELETE FROM envelopes WHERE seq IN " + which,
		} {
			var err error
			if n, err = c.Exec(query, before, limit); err != nil {
				return err
			}
		}
		return nil
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
	_, err = j.db.GiveBack(ctx, "prune")
	return err
}

// Size returns the size of the journal in bytes.
func (j *Journal) Size(ctx context.Context) (int64, error) { return j.db.Size(ctx, "measure") }
