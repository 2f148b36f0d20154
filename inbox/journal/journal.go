// Package journal keeps every row that was ever seen in an inbox. The inbox does not: a newer Claude Code removes a
// row when the agent takes it, and the whole team when its lead's session ends.
//
// # How it is filled
//
// Each reader of an inbox file passes the rows to [Messages.Observe], which records the rows that appeared, were read
// or are gone. Any number of processes may watch one inbox; a row is recorded once.
//
// # Which row is which
//
// A row is identified by its team instance (name and creation time, under one Claude root), its inbox, and a digest
// over from, text, timestamp, summary, color, msg_id and messageId. It stays the same row when it is marked as read
// or claimed by a relay. Rows that are equal in all this are counted: the first is occurrence 1. Rows that have left
// the file count too, so a row that was gone and comes again is a new occurrence and a new [Record]. When the file
// has fewer equal rows than before, the oldest are gone.
//
// # Order
//
// Two readers of one file can pass on their snapshots in the wrong order. The times of a snapshot show the right one:
// reading began at [Snapshot.At] and had ended at [Snapshot.Done].
//
//   - A snapshot that began after the newest one was done becomes the newest: rows that it lacks are gone.
//   - A snapshot that was done before the newest one began is old: rows that it lacks stay, and a row that it alone
//     has is recorded as gone already.
//   - A snapshot that overlaps the newest may be older or newer. Rows that it lacks stay, rows that were never seen
//     are recorded, and if it differs from the journal, Observe asks for another look ([Observation.Again]).
//
// If the newest snapshot is from the future, the clock was set back, and the next one counts as the newest. A
// snapshot without a change is not recorded, so an old one can pass for new if all later ones showed no change. Its
// rows can then count as present until the next look.
//
// # Sequence
//
// Each record has a number from one counter, in the order of the commits. A reader that has seen all records up to N
// finds the rest with [Messages.Changes]. A number is reused only if its record is lost, by a power cut or a restored
// copy: see [Position].
//
// # Sent messages and relays
//
// Watching files does not find everything, so [Journal.Copy] copies the events of a ledger. These are user prompts,
// which are in no file; sent and claimed rows, which an agent may take before a reader sees them (a row that is seen,
// too, is one message); a headless agent's answers, in its own inbox; and the steps of relays and deliveries. All
// have numbers from the same counter.
//
// The ledger records an event in the commit that causes it. The journal records its position in the ledger in the
// commit that copies. So no event is missed or copied twice, even if several processes copy at once, or one of them
// is killed. This also holds after a power cut that took back the ledger's last commits but not the journal's, and
// after an older copy of the ledger was restored. The journal then keeps the lost events, reads all events of the
// ledger, and skips those that it has.
//
// # Envelopes
//
// [Envelopes.Record] records envelopes of the session protocol, once for each id, with numbers from the same counter.
//
// # Tasks
//
// [Tasks.Observe] compares a list of tasks with its last look at that list, and records the differences. These
// changes have numbers of their own, which do not compare with the others.
//
// # Search
//
// The search index is a file of its own, index.db, made from the journal. A search brings it up to date first;
// recording never waits for it. If it is missing, damaged, or of another journal or version, it is made again: see
// [Journal.Index].
//
// # What is promised
//
// A record that a method acknowledged survives a kill at any instant (write-ahead log, synchronous=NORMAL: no fsync).
// A power cut can take back the last commits, in order, and never damages the file. Raw bytes are kept as they were
// first seen.
//
// No message depends on the journal: the type of an error shows callers what the history will lack, and they
// continue. Any number of processes may use it at once: see package sqlite.
//
// # What it costs
//
// On a small virtual machine with two busy cores: 20,000 new rows a second in batches of 500; 0.02 ms for a snapshot
// of 100 rows without a change; 3 ms for one new row among 10,000, and 20 ms at a process's first look; 0.9 KB of
// disk for a row of 350 bytes. A page of 50 messages or 20 hits among 50,000 takes under 1 ms; a search for terms
// that the index does not have, 0.3 s. Envelopes: 5,000 a second one by one, 18,000 in batches of 100, 150,000 that
// are recorded already; 0.9 KB of disk each. A page of 50 among 50,000 takes 0.3 ms. Run go test -bench . to measure
// these.
package journal

import (
	"context"
	_ "embed"
	"errors"
	"hash/maphash"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// A Journal is an open journal file, with a part for each kind of record. Methods may be called from several
// goroutines, and inside loops over [Messages.All] and the like. They take turns on one connection.
type Journal struct {
	*database

	Messages    Messages
	Receipts    Receipts
	RelayEvents RelayEvents
	Envelopes   Envelopes
	Tasks       Tasks
}

// database is shared by the parts of a Journal.
type database struct {
	db    *sqlite.DB
	index *index
	seed  maphash.Seed
	now   func() time.Time

	// Used only in db.Do, which runs one call at a time.
	views   map[inbox.InboxKey]*view
	held    int  // rows in views
	inEpoch bool // an epoch has begun: numbers were assigned
}

//go:embed schema.sql
var schema string

func format() sqlite.Format {
	return sqlite.Format{
		Name:        "journal",
		Application: 0x74624a33,                                              // "tbJ3"
		Development: []int32{0x74624a4e, 0x74624a6f, 0x74624a31, 0x74624a32}, // "tbJN", "tbJo", "tbJ1", "tbJ2"
		Schema:      []string{schema},
		// So that Prune can give space back without writing the file again.
		Create: "PRAGMA auto_vacuum=INCREMENTAL",
		// The caches of a service's two journals are nearly all of the growth of its memory. After 60,000 messages
		// the journals had 34 MiB with caches of 8 MiB, and 16 MiB with caches of 2 MiB. The system caches the file,
		// too. Secure_delete overwrites deleted data.
		Setup: "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048; PRAGMA secure_delete=ON",
		Lost:  "lost is then the history up to now; messages in inboxes and the ids that were sent stay",
	}
}

// micros is the form of a time in the database; NULL for the zero time.
func micros(t time.Time) sqlite.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// Open opens the journal at path, creates it if there is none, and brings one of an earlier
// version up to date. Modes and errors are those of [sqlite.Open].
func Open(ctx context.Context, path string) (*Journal, error) {
	db, err := sqlite.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	d := &database{db: db, index: &index{journal: db.Path()}, seed: maphash.MakeSeed(), now: time.Now, views: map[inbox.InboxKey]*view{}}
	return &Journal{d, Messages{d}, Receipts{d}, RelayEvents{d}, Envelopes{d}, Tasks{d}}, nil
}

// Close closes the journal after the call that is running. Closing twice is no error; every
// other call after Close fails with [ErrClosed].
func (j *Journal) Close() error { return errors.Join(j.index.close(), j.db.Close()) }
