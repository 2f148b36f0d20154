// Package journal keeps every row that was ever seen in an inbox longer than the inbox
// does: a newer Claude Code removes a row when the agent takes it, and the whole team when
// its lead's session ends.
//
// # How it is filled
//
// Whoever reads an inbox file passes the rows to [Messages.Observe], which records what
// appeared, what was read and what is gone. Any number of processes may watch one inbox: a
// row is recorded once.
//
// # Which row is which
//
// A row is identified by its team instance (name and creation time, under one Claude
// root), its inbox, and a digest over from, text, timestamp, summary, color, msg_id and
// messageId. It stays the same row when it is marked as read or claimed by a relay. Rows
// that are equal in all this are counted: the first is occurrence 1. Rows that have left
// the file count too, so a row that was gone and comes again is a new occurrence and a new
// [Record]. When the file has fewer of them than before, the oldest are gone.
//
// # Order
//
// Two readers of one file can pass on what they read in the wrong order. The times of a
// snapshot tell the order: reading began at [Snapshot.At] and had ended at [Snapshot.Done].
//
//   - A snapshot that began after the newest one was done is the newest: rows that it
//     lacks are gone.
//   - One that was done before the newest one began is old: it ends nothing, and a row in
//     it that was never seen is recorded as gone already.
//   - One that overlaps the newest may be older or newer. It ends nothing, rows that were
//     never seen are recorded, and if it differs from what is known, Observe asks for
//     another look ([Observation.Again]).
//
// If the newest snapshot is from the future the clock was set back, and the next one counts
// as the newest. An unchanged snapshot is not recorded, so an old one can pass for new if
// all later ones showed no change. Its rows can then count as present until the next look.
//
// # Sequence
//
// Each record has a number from one counter, in the order of their commits: a reader that
// has seen all up to N finds the rest with [Messages.Changes]. A number is used again only if
// its record is lost, by a power cut or a restored copy: see [Position].
//
// # Sent messages and relays
//
// Watching files does not find everything. So [Journal.Copy] copies the events of a ledger: user prompts, which are in no file; sent
// and claimed rows, which an agent may take before anybody sees them, as one message with what was seen; a headless agent's answers,
// in its own inbox; and what happened to relays and deliveries. They are in one order with everything else.
//
// The ledger records an event in the commit that causes it, and the journal how far it has copied in the commit that copies. So no
// event is missed or copied twice, no matter who copies, how many processes copy at once, or when one of them is killed. This holds
// even after a power cut that took back the ledger's last commits but not the journal's, and after an older copy of the ledger was
// restored. The journal then keeps the lost events, reads all that the ledger has, and passes over what it knows.
//
// # What agents say and do
//
// [Envelopes.Record] takes envelopes of the session protocol, each once by its id, in
// one order with everything else.
//
// # Tasks
//
// [Tasks.Observe] compares a list of tasks with what was seen of it last, and records how it
// differs. These changes have numbers of their own, and no part in the order of the others.
//
// # Search
//
// The words are in a file of their own, index.db, which has nothing that the journal does not have. Whoever searches brings
// it up to date first; whoever records does not wait for it. If it is missing, damaged, or of another journal, it is made
// again: see [Journal.Index].
//
// # What is promised
//
// What a method acknowledged survives a kill at any instant (write-ahead log,
// synchronous=NORMAL: no fsync). A power cut can take back the last commits, in order, and
// never damages the file. Raw bytes are kept as they were first seen.
//
// Nothing depends on the journal: callers can tell by the type of an error what the history
// will lack, and go on. Any number of processes may use it at once: see package sqlite.
//
// # What it costs
//
// On a small virtual machine with two busy cores: 20,000 new rows a second in batches of
// 500, with the full-text index; 0.02 ms for a snapshot of 100 rows without a change; 3 ms
// for one new row among 10,000, and 20 ms at a process's first look; 0.9 KB of disk for a
// row of 350 bytes. A page of 50 messages or 20 hits among 50,000 takes under 1 ms; a search
// for terms that the index does not have, 0.3 s. Envelopes: 5,000 a second one by one, 18,000
// in batches of 100, 150,000 that are there already; 0.9 KB of disk each. A page of 50 among
// 50,000 takes 0.3 ms. go test -bench . measures it.
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

// A Journal is an open journal file, with a part for each noun. The methods of all of them may be called from several
// goroutines, and inside the loops over [Messages.All] and its like; they
// take turns on one connection.
type Journal struct {
	*database

	Messages    Messages
	Receipts    Receipts
	RelayEvents RelayEvents
	Envelopes   Envelopes
	Tasks       Tasks
}

// database is what they share.
type database struct {
	db    *sqlite.DB
	index *index
	seed  maphash.Seed
	now   func() time.Time

	// Used in db.Do alone, which lets one in at a time.
	views   map[inbox.InboxKey]*view
	held    int  // rows in views
	inEpoch bool // it has assigned numbers, so it has begun an epoch
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
		// The cache is nearly all that a service's memory grows by, once for each of its
		// two journals: with 8 MiB, 60,000 messages later, they had 34 MiB, with 2 MiB
		// they have 16. The system has the file in its memory, too.
		// Secure_delete overwrites what is deleted.
		Setup: "PRAGMA synchronous=NORMAL; PRAGMA cache_size=-2048; PRAGMA secure_delete=ON",
		Lost:  "lost is then the history up to now; messages in inboxes and the ids that were sent stay",
	}
}

// micros is a time as it is in the database; NULL for none.
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
