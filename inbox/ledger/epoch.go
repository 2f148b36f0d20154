package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// An Epoch is a run of event numbers that all come from the same history of the
// ledger. It begins with the first event that an opened [Ledger] commits.
//
// A number alone does not say which event it is. A power cut can take back
// commits that did not wait for the disk, and an older copy of the file can be
// put in its place; the numbers of the lost events are then given to others.
// Whoever gives them has opened the ledger since, so they are in a new epoch.
// An epoch and a number together name one event.
type Epoch struct {
	ID    string // random; never used again, also not by another ledger
	First int64  // the number of its first event; the epoch reaches to the next one
}

// Epochs lists the epochs of the events that the ledger has, oldest first. The
// last one may have no event left ([Ledger.Prune]).
func (l *Ledger) Epochs(ctx context.Context) (list []Epoch, err error) {
	err = l.db.Do(ctx, "epochs", func(c *sqlite.Conn) error {
		list = nil // f runs again when the file was busy
		return c.Query(func(v []sqlite.Value) error {
			list = append(list, Epoch{First: integer(v[0]), ID: text(v[1])})
			return nil
		}, "SELECT first, id FROM epochs ORDER BY first")
	})
	return list, err
}

// beginEpoch runs f within a transaction, and begins an epoch if f recorded
// events. It reports whether it did.
func beginEpoch(c *sqlite.Conn, f func(*sqlite.Conn) error) (began bool, err error) {
	before, err := lastEvent(c)
	if err != nil {
		return false, err
	}
	if err := f(c); err != nil {
		return false, err
	}
	after, err := lastEvent(c)
	if err != nil || after == before {
		return false, err
	}
	_, err = c.Exec("INSERT INTO epochs (first, id) VALUES (?, lower(hex(randomblob(16))))", before+1)
	return err == nil, err
}

// lastEvent returns the last number that was given, 0 if none was.
func lastEvent(c *sqlite.Conn) (int64, error) {
	return c.Number("SELECT seq FROM sqlite_sequence WHERE name='events'")
}
