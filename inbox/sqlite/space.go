package sqlite

import (
	"context"
	"time"
)

// Size returns the size of the database in bytes, without its log.
func (d *DB) Size(ctx context.Context, op string) (int64, error) {
	return d.Number(ctx, op, "SELECT page_count*page_size FROM pragma_page_count, pragma_page_size")
}

// GiveBack gives free space back to the disk, in steps between which other calls get their turn. It also empties the
// log, which still has the deleted data. emptied is false if a process has used the log for two seconds. A database
// that was made without auto_vacuum=INCREMENTAL keeps its free space.
func (d *DB) GiveBack(ctx context.Context, op string) (emptied bool, err error) {
	free := int64(-1)
	for more := true; more; {
		err := d.Do(ctx, op, func(c *Conn) error {
			if err := c.Query(func(Row) {}, "PRAGMA incremental_vacuum(1000)"); err != nil {
				return err
			}
			before := free
			var err error
			free, err = c.Number("PRAGMA freelist_count")
			more = free > 0 && free != before
			return err
		})
		if err != nil {
			return false, err
		}
	}
	// Another process uses the log for milliseconds; one that uses it for longer was stopped, or reads a lot.
	for wait := time.Millisecond; ; wait *= 2 {
		err = d.Do(ctx, op, func(c *Conn) error {
			busy, err := c.Number("PRAGMA main.wal_checkpoint(TRUNCATE)")
			emptied = busy == 0
			return err
		})
		if emptied || err != nil || wait > time.Second {
			return emptied, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}
