package journal

import (
	"context"
	"strings"
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

// pruneStep limits the records deleted in one transaction, so that other processes wait only tens of milliseconds.
const pruneStep = 500

// A pruning deletes records of one kind. In its queries, @ selects the oldest, before a time and up to a limit.
type pruning struct {
	count   func(*Pruned) *int64
	which   string   // the records from before a time, the oldest first
	last    []string // queries for the highest numbers of their changes
	deletes []string // statements, of which the last counts the records
}

var (
	pruneReceipts    = byTime("receipts", func(p *Pruned) *int64 { return &p.Receipts })
	pruneRelayEvents = byTime("relay_events", func(p *Pruned) *int64 { return &p.RelayEvents }) // but not [Copied]
	pruneTaskChanges = pruning{                                                                 // which have numbers of their own
		func(p *Pruned) *int64 { return &p.TaskChanges }, "task_changes WHERE at<? ORDER BY at, seq", nil, []string{"DELETE FROM task_changes WHERE seq @"},
	}
	pruneEnvelopes = byTime("envelopes", func(p *Pruned) *int64 { return &p.Envelopes },
		"INSERT INTO pruned_sessions SELECT inbox, session, max(at) FROM envelopes WHERE seq @ GROUP BY inbox, session ON CONFLICT DO UPDATE SET at=max(at, excluded.at)",
		"INSERT INTO stale (seq) SELECT seq FROM envelopes WHERE seq @")
	pruneMessages = pruning{ // the longest gone first
		func(p *Pruned) *int64 { return &p.Messages }, "messages WHERE gone_at IS NOT NULL AND gone_at<? ORDER BY gone_at, seq",
		// The last change of a message is Gone. A prompt or an answer has only Appeared.
		[]string{"changes WHERE message @", "messages WHERE length(prompt||answer)>0 AND seq @"},
		[]string{"DELETE FROM changes WHERE message @", "INSERT INTO stale (seq) SELECT seq FROM messages WHERE seq @", "DELETE FROM messages WHERE seq @"},
	}
)

// byTime returns the pruning of a table with the column at. The statements of first run before the table's own.
func byTime(table string, count func(*Pruned) *int64, first ...string) pruning {
	return pruning{count, table + " WHERE at<? ORDER BY at, seq", []string{table + " WHERE seq @"}, append(first, "DELETE FROM "+table+" WHERE seq @")}
}

// drop deletes records from before a time, at most limit.
func (j *Journal) drop(ctx context.Context, p *Pruned, of pruning, before, limit int64) (n int64, err error) {
	err = j.db.Transaction(ctx, "prune", "IMMEDIATE", func(c *sqlite.Conn) (err error) {
		which := "IN (SELECT seq FROM " + of.which + " LIMIT ?+0)"
		for _, last := range of.last {
			if err := watermark(c, "SELECT max(seq) FROM "+strings.Replace(last, "@", which, 1), before, limit); err != nil {
				return err
			}
		}
		for _, query := range of.deletes {
			if n, err = c.Exec(strings.Replace(query, "@", which, 1), before, limit); err != nil {
				return err
			}
		}
		return nil
	})
	*of.count(p) += n
	return n, err
}

// dropAll deletes all records of some kinds from before a time, and gives their space back.
func (j *Journal) dropAll(ctx context.Context, p *Pruned, before time.Time, kinds ...pruning) error {
	any := false
	for _, of := range kinds {
		for n := int64(pruneStep); n == pruneStep; any = any || n > 0 {
			var err error
			if n, err = j.drop(ctx, p, of, before.UnixMicro(), pruneStep); err != nil {
				return err
			}
		}
	}
	if !any {
		return nil
	}
	_, err := j.GiveBack(ctx)
	return err
}

// Prune deletes the messages that were gone from their inboxes before the given time, and the receipts and relay
// events from before that time. Then, while the journal is larger than maxBytes (0: no limit), it deletes the oldest
// envelopes, then the oldest changes of tasks, and then the messages that have been gone for longest and the oldest
// events. It keeps messages that are in an inbox: the next look would record them again.
//
// It works in steps, between which other calls get their turn, and gives the space back to the disk. With an error, p
// has the records that were deleted before it.
func (j *Journal) Prune(ctx context.Context, before time.Time, maxBytes int64) (p Pruned, err error) {
	defer j.measure(ctx, &p)
	err = j.dropAll(ctx, &p, before, pruneReceipts, pruneRelayEvents, pruneMessages)
	if err == nil {
		err = j.dropInboxes(ctx, before)
	}
	for maxBytes > 0 && err == nil {
		var bytes, records, dropped int64
		if bytes, records, err = j.size(ctx); err != nil || bytes <= maxBytes || records == 0 {
			return p, err
		}
		// As many records as have the excess size, if all have the same size; at least 5%.
		many := max(records/20+1, records*(bytes-maxBytes)/bytes)
		for n := int64(1); n > 0 && dropped < many; dropped += n {
			if n, err = j.dropOldest(ctx, &p, min(pruneStep, many-dropped)); err != nil {
				return p, err
			}
		}
		if _, err = j.GiveBack(ctx); dropped == 0 {
			break
		}
	}
	return p, err
}

// PruneEnvelopes deletes the envelopes and the changes of tasks from before the given time, in steps like Prune.
func (j *Journal) PruneEnvelopes(ctx context.Context, before time.Time) (p Pruned, err error) {
	defer j.measure(ctx, &p)
	err = j.dropAll(ctx, &p, before, pruneEnvelopes, pruneTaskChanges)
	return p, err
}

// measure sets p.Bytes to the size of the journal.
func (j *Journal) measure(ctx context.Context, p *Pruned) {
	if now, _, err := j.size(context.WithoutCancel(ctx)); err == nil {
		p.Bytes = now
	}
}

// dropOldest deletes at most limit envelopes or else, without any, changes of tasks, or else messages and relay
// events.
func (j *Journal) dropOldest(ctx context.Context, p *Pruned, limit int64) (dropped int64, err error) {
	const ever = 1 << 62
	for _, kinds := range [][]pruning{{pruneEnvelopes}, {pruneTaskChanges}, {pruneMessages, pruneRelayEvents}} {
		for _, of := range kinds {
			n, err := j.drop(ctx, p, of, ever, limit)
			if dropped += n; err != nil {
				return dropped, err
			}
		}
		if dropped > 0 {
			break
		}
	}
	return dropped, j.dropInboxes(ctx, time.UnixMicro(ever))
}

// dropInboxes deletes inboxes that have no records, and that no process has looked at since a time.
func (j *Journal) dropInboxes(ctx context.Context, before time.Time) error {
	return j.db.Transaction(ctx, "prune", "IMMEDIATE", func(c *sqlite.Conn) error {
		_, err := c.Exec(`DELETE FROM inboxes WHERE began<? AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.inbox=inboxes.id)
			AND NOT EXISTS (SELECT 1 FROM envelopes e WHERE e.inbox=inboxes.id)
			AND NOT EXISTS (SELECT 1 FROM pruned_sessions p WHERE p.inbox=inboxes.id AND p.at>=?)`, before.UnixMicro(), j.now().Add(-transcriptAge).UnixMicro())
		if err == nil {
			_, err = c.Exec("DELETE FROM pruned_sessions WHERE inbox NOT IN (SELECT id FROM inboxes)")
		}
		return err
	})
}

// transcriptAge is how long a transcript may be read again after its envelopes were deleted. By default, Claude Code
// deletes transcripts after 30 days.
const transcriptAge = 90 * 24 * time.Hour

// size returns the size of the journal, with its index, and how many records it has of the kinds that can be deleted.
func (j *Journal) size(ctx context.Context) (bytes, records int64, err error) {
	if bytes, err = j.Size(ctx); err == nil {
		records, err = j.db.Number(ctx, "prune",
			"SELECT (SELECT count(*) FROM messages) + (SELECT count(*) FROM relay_events) + (SELECT count(*) FROM envelopes) + (SELECT count(*) FROM task_changes)")
	}
	return bytes, records, err
}

// watermark records the number that query returns as the highest of those about to be deleted.
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

// GiveBack removes deleted records from the index, if one exists, and gives free space of both files back to the disk: see
// [sqlite.DB.GiveBack].
func (j *Journal) GiveBack(ctx context.Context) (emptied bool, err error) {
	indexEmptied := true
	if _, exists := j.index.size(); exists {
		err = j.withIndex(ctx, func(db *sqlite.DB) error {
			if err := mergeWords(ctx, db); err != nil {
				return err
			}
			var err error
			indexEmptied, err = db.GiveBack(ctx, "prune")
			return err
		})
	} else {
		err = j.db.Do(ctx, "prune", func(c *sqlite.Conn) error {
			_, err := c.Exec("DELETE FROM stale")
			return err
		})
	}
	if err == nil {
		emptied, err = j.db.GiveBack(ctx, "prune")
	}
	return emptied && indexEmptied, err
}

// mergeWords erases deleted words: an index only marks them as deleted until its parts are merged.
func mergeWords(ctx context.Context, db *sqlite.DB) error {
	// A negative number begins a merge, positive ones continue it (https://sqlite.org/fts5.html#the_merge_command).
	const pages = 500
	for size, more := -pages, true; more; size = pages {
		err := db.Do(ctx, "prune", func(c *sqlite.Conn) error {
			before, err := c.Number("SELECT total_changes()")
			if err != nil {
				return err
			}
			if _, err := c.Exec("INSERT INTO words (words, rank) VALUES ('merge', ?)", size); err != nil {
				return err
			}
			after, err := c.Number("SELECT total_changes()")
			more = after-before >= 2
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Size returns the size of the journal in bytes, with its search index.
func (j *Journal) Size(ctx context.Context) (int64, error) {
	bytes, err := j.db.Size(ctx, "measure")
	words, _ := j.index.size()
	return bytes + words, err
}
