package journal

import (
	"context"
	"fmt"

	"teambridge/inbox/sqlite"
)

// Last returns the highest number that was assigned, or 0.
func (j *Journal) Last(ctx context.Context) (seq int64, err error) {
	return j.db.Number(ctx, "last", "SELECT seq FROM counter")
}

// Writable waits until no other process writes, or ctx ends. A process that is suspended while it writes blocks all
// others; the error is then [ErrBusy].
func (j *Journal) Writable(ctx context.Context) error {
	return j.db.Transaction(ctx, "look whether it can be written", "IMMEDIATE", func(*sqlite.Conn) error { return nil })
}

// Poll returns a function that tells a loop whether anything was committed: see [sqlite.DB.Poll].
func (j *Journal) Poll() func(context.Context) (version string, err error) { return j.db.Poll() }

// Changes returns at most limit changes with numbers higher than after, in order, each with its epoch. A receipt
// appears once, with its last number. Changes fails with [ErrPruned] if some of the changes were pruned.
func (j Messages) Changes(ctx context.Context, after int64, limit int) (list []Change, err error) {
	if limit <= 0 {
		return nil, invalid("limit", "is not positive")
	}
	err = j.db.Transaction(ctx, "changes", "DEFERRED", func(c *sqlite.Conn) error {
		list = nil // this function runs again if the file was busy
		pruned, err := c.Number("SELECT pruned FROM counter")
		if err != nil {
			return err
		}
		if after < pruned {
			return fmt.Errorf("journal: changes after %d, up to %d: %w", after, pruned, ErrPruned)
		}
		var refs []int64 // seq of the message, receipt, event or envelope
		err = c.Query(func(v sqlite.Row) {
			refs = append(refs, v.Int(2))
			list = append(list, Change{Seq: v.Int(0), Kind: Kind(v.Text(1)), Epoch: v.Text(3)})
		}, `SELECT *, (SELECT id FROM epochs WHERE first<=n ORDER BY first DESC LIMIT 1) FROM (
			SELECT seq AS n, 'appeared', seq FROM messages WHERE seq>?1
			UNION ALL SELECT seq, kind, message FROM changes WHERE seq>?1
			UNION ALL SELECT seq, 'receipt', seq FROM receipts WHERE seq>?1
			UNION ALL SELECT seq, 'relay', seq FROM relay_events WHERE seq>?1
			UNION ALL SELECT seq, 'envelope', seq FROM envelopes WHERE seq>?1
			ORDER BY 1 LIMIT ?2+0) ORDER BY n`, after, limit)
		if err != nil {
			return err
		}
		for i, seq := range refs {
			switch change := &list[i]; change.Kind {
			case Receipted:
				err = c.Query(func(v sqlite.Row) { change.Receipt = scanReceipt(v) }, "SELECT "+receiptColumns+" WHERE seq=?", seq)
			case Relaying:
				err = c.Query(func(v sqlite.Row) { change.RelayEvent = scanRelayed(v) }, "SELECT "+relayedColumns+" WHERE seq=?", seq)
			case Said:
				err = c.Query(func(v sqlite.Row) { change.Envelope = scanEnvelope(v) }, "SELECT "+envelopeColumns+" WHERE e.seq=?", seq)
			default:
				err = c.Query(func(v sqlite.Row) { change.Message = scan(v) }, "SELECT "+columns+" WHERE m.seq=?", seq)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return list, err
}
