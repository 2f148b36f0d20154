package journal

import (
	"context"
	"fmt"

	"teambridge/inbox/sqlite"
)

// Last returns the highest number that was given, 0 if none was.
func (j *Journal) Last(ctx context.Context) (seq int64, err error) {
	err = j.db.Do(ctx, "last", func(c *sqlite.Conn) (err error) {
		seq, err = c.Number("SELECT seq FROM counter")
		return err
	})
	return seq, err
}

// Changes returns what changed after the number after, at most limit of it, in
// the order of the numbers, with the epoch of each. A receipt is there once, with its last number.
// It fails with [ErrPruned] if some of it was pruned.
func (j *Journal) Changes(ctx context.Context, after int64, limit int) (list []Change, err error) {
	if limit <= 0 {
		return nil, &ValueError{"limit", "is not positive"}
	}
	err = j.db.Do(ctx, "changes", func(c *sqlite.Conn) error {
		return c.Transaction("DEFERRED", func() error {
			list = nil // f runs again when the file was busy
			pruned, err := c.Number("SELECT pruned FROM counter")
			if err != nil {
				return err
			}
			if after < pruned {
				return fmt.Errorf("journal: changes after %d, up to %d: %w", after, pruned, ErrPruned)
			}
			type ref struct{ message, receipt, relayed int64 }
			var refs []ref
			err = c.Query(func(v []sqlite.Value) error {
				seq, _ := v[0].(int64)
				kind, _ := v[1].(string)
				var r ref
				r.message, _ = v[2].(int64)
				r.receipt, _ = v[3].(int64)
				r.relayed, _ = v[4].(int64)
				refs = append(refs, r)
				epoch, _ := v[5].(string)
				list = append(list, Change{Seq: seq, Epoch: epoch, Kind: Kind(kind)})
				return nil
			}, `SELECT *, (SELECT id FROM epochs WHERE first<=n ORDER BY first DESC LIMIT 1) FROM (
				SELECT seq AS n, 'appeared', seq, NULL, NULL FROM messages WHERE seq>?1
				UNION ALL SELECT seq, kind, message, NULL, NULL FROM changes WHERE seq>?1
				UNION ALL SELECT seq, 'receipt', NULL, seq, NULL FROM receipts WHERE seq>?1
				UNION ALL SELECT seq, 'relay', NULL, NULL, seq FROM relay_events WHERE seq>?1
				ORDER BY 1 LIMIT ?2) ORDER BY n`, after, int64(limit))
			if err != nil {
				return err
			}
			message, err := c.Statement("SELECT " + columns + " WHERE m.seq=?")
			if err != nil {
				return err
			}
			receipt, err := c.Statement("SELECT " + receiptColumns + " WHERE seq=?")
			if err != nil {
				return err
			}
			relayed, err := c.Statement("SELECT " + relayedColumns + " WHERE seq=?")
			if err != nil {
				return err
			}
			for i, r := range refs {
				switch {
				case r.message != 0:
					err = message.Query(func(v []sqlite.Value) error {
						list[i].Message = scan(v)
						return nil
					}, r.message)
				case r.receipt != 0:
					err = receipt.Query(func(v []sqlite.Value) error {
						list[i].Receipt = scanReceipt(v)
						return nil
					}, r.receipt)
				default:
					err = relayed.Query(func(v []sqlite.Value) error {
						list[i].Relayed = scanRelayed(v)
						return nil
					}, r.relayed)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	return list, err
}
