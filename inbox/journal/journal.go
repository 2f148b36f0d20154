// Package journal remembers every row that was ever seen in an inbox, for
// longer than the inbox holds it: a newer Claude Code removes a row with taking
// it, and the whole team with the end of its lead's session.
//
// # How it is filled
//
// Whoever reads an inbox file hands the rows to [Journal.Observe], which
// compares them with those it takes to be in the file, and records what
// appeared, what was read and what is gone. Any number of processes may watch
// one inbox: a row is recorded once.
//
// # Which row is which
//
// A row is known by its team instance (name and creation time, under one Claude
// root), its inbox, and a digest over from, text, timestamp, summary, color,
// msg_id and messageId. What becomes of a row in the file, read or claimed by a
// relay, does not make it another. Rows that are equal in all this are counted:
// the first is occurrence 1, and those that have left the file count, so a
// row that was gone and comes again is a new occurrence and a new [Message]. When the file
// has fewer of them than before, the oldest are gone.
//
// # Order
//
// Two readers of one file can hand over what they read in the wrong order, and
// the times of a snapshot say which is right: from [Snapshot.At], when reading
// began, to [Snapshot.Done], when it had ended.
//
//   - A snapshot that began when the newest one was done is the newest: what it
//     lacks is gone.
//   - One that was done when the newest one began is old: it ends nothing, and
//     what it has that was never seen is recorded as gone already.
//   - One that overlaps the newest may be older or newer. It ends nothing, what
//     it has that was never seen is recorded, and if it differs from what is
//     known, Observe asks for another look ([Observation.Again]).
//
// If the newest snapshot is from the future the clock was set back, and the
// next one is taken for the newest. What is seen unchanged is not written down,
// so an old snapshot can be taken for new if all that came after it showed
// no change: then a row it has can stand as present until the next look.
//
// # Sequence
//
// Each record has a number from one counter, in the order of their commits: a reader
// that has seen all up to a number N finds the rest with [Journal.Changes] after N. A
// number is used again only if its record is lost, by a power cut or because an older
// copy was restored. A reader that remembers a [Position] notices that.
//
// # What was sent
//
// An agent can take a row before anybody sees it in the file. What we send is in a
// ledger first, and [Journal.CopyEvents] copies it here. That, and a row that somebody saw,
// is one message.
//
// # Relays
//
// What happens to relays and to what they bring to their agents is kept in
// ledgers, which are the truth of it; [Journal.CopyEvents] copies it here, so that it
// is in one order with all else and stays when a ledger has forgotten it.
//
// # What is promised
//
// What a method acknowledged survives a kill at any instant (write-ahead log,
// synchronous=NORMAL: no fsync). A power cut can take back the last of it, in
// the order of the commits, and never damages the file. Raw bytes are kept as
// they were first seen.
//
// Nothing rests on the journal: every error is typed, so that callers can say
// what will be missing from the history and go on. What package sqlite says of
// waiting for other processes, of files that are refused and of where the file
// may be, holds for it.
//
// # What it costs
//
// On a small virtual machine with two busy cores: 20,000 new rows a second in
// batches of 500, full-text index included; 0.02 ms for a snapshot of 100 rows
// without a change; 3 ms for one new row among 10,000, and 20 ms when a process
// looks there for the first time; 0.9 KB of disk for a row of 350 bytes. A page
// of 50 messages or 20 hits among 50,000 takes under 1 ms; a search for what
// the index does not know, 0.3 s. go test -bench . measures it.
package journal

import (
	"context"
	"hash/maphash"
	"time"

	"teambridge/inbox/sqlite"
)

// A Journal is an open journal file. Its methods may be called from several
// goroutines, and inside the loops over [Journal.Messages] and its like; they
// take turns on one connection.
type Journal struct {
	db   *sqlite.DB
	seed maphash.Seed
	now  func() time.Time

	// Used in db.Do alone, which lets one in at a time.
	views   map[InboxKey]*view
	held    int  // rows in views
	inEpoch bool // it has assigned numbers, so it has begun an epoch
}

// Open opens the journal at path, and makes it if there is none: its directory
// with mode 0700, and each missing one above it, the file with mode 0600. A
// journal of an earlier version is brought up to date.
//
// Errors are those of [sqlite.Open].
// The file is then left as it is.
func Open(ctx context.Context, path string) (*Journal, error) {
	db, err := sqlite.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	return &Journal{db: db, seed: maphash.MakeSeed(), now: time.Now, views: map[InboxKey]*view{}}, nil
}

// Close ends the use of the journal, after the call that is running. Closing
// twice is no error; every other call after Close fails with [ErrClosed].
func (j *Journal) Close() error { return j.db.Close() }
