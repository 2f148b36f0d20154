package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// An Epoch is a range of event numbers. Each opened [Ledger] begins one with the
// first event that it commits.
//
// A number alone does not identify an event: numbers of events that a power cut took back,
// or that a restored copy lacks, are used again. Whoever uses them again has opened the
// ledger since, so they are in a new epoch. Epoch and number together identify an event.
type Epoch struct {
	ID    string // random, and so unique among all ledgers
	First int64  // its first event; it ends before the first event of the next epoch
}

// Epochs returns the epochs of the events in the ledger, oldest first. The events of
// the last one may have been pruned.
func (l Events) Epochs(ctx context.Context) ([]Epoch, error) {
	return sqlite.Select(ctx, l.db, "epochs", func(v sqlite.Row) Epoch { return Epoch{First: v.Int(0), ID: v.Text(1)} },
		"SELECT first, id FROM epochs ORDER BY first")
}

// beginEpoch runs f, and begins an epoch if f recorded events. It reports whether it did.
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
	return c.Number("SELECT seq FROM sqlite_sequence WHERE name=?", "events") // with an argument, so that it is kept
}
