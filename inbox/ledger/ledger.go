// Package ledger records in one SQLite database, which outlives every team, which messages
// were sent, what a relay has taken out of an inbox and how far it came, which relays a
// service is to run, and under which names teams were joined. Sending and relaying exactly
// once rest on it.
//
// # How a send uses it
//
// All of this happens under the locks of the inbox:
//
//  1. [Ledger.Recall] looks the id up. State [Written]: the message was sent
//     before, nothing is to be done. Another digest: the id is taken by another
//     message. State [Intent]: a sender died between 2 and 4, and
//     [inbox.Send.Before] says whether the file has changed since.
//  2. [Ledger.Intend] records id, digest and the state of the file. When it
//     returns the record is on the disk.
//  3. The inbox file is replaced and read back.
//  4. [Ledger.Written] closes the record; [Ledger.Withdraw] takes it back if the
//     file was certainly not replaced.
//
// The record also has the row. [Ledger.Announce] makes an event of it once it was
// written, so the history has every message that was sent, whoever sent it.
//
// # How a relay uses it
//
// A relay serves one inbox, and no other relay does. The ledger is its queue:
//
//  1. [Ledger.Claim] records user prompts, and rows under the locks of the inbox before
//     they are marked in the file. [Ledger.Mark] records that the marks were read back.
//     After a restart [Ledger.Unmarked] lists the claims that may be unfinished;
//     [Ledger.EndDeliveries] ends those that the agent took itself.
//  2. [Ledger.Commit] makes a [Frame] of what is [Ledger.Waiting], while none is in
//     flight. Its bytes never change. A delivery is in one frame at most, and only
//     Retry takes it out again.
//  3. [Ledger.Tried] counts each writing of the frame and [Ledger.Died] each process that
//     died with it. [Ledger.Advance] follows the agent's acknowledgements, for the frame
//     and its deliveries at once, and [Ledger.Finish] ends it with the agent's answer.
//  4. After a restart [Ledger.InFlight] returns the frame to continue with, and
//     [Ledger.Session] its session and process. A nudge, a frame about a frame, continues a
//     turn that was cut.
//  5. A person decides about failed deliveries: [Ledger.Retry] or [Ledger.Drop].
//
// Other processes see the state of a relay with [Ledger.RelayInfo]. [Ledger.Events] has
// each step, once and in order. A reader that remembers how far it has read must remember
// the [Epoch] too.
//
// Frames and deliveries share their states, in the order of [DeliveryState]:
//
//	claimed -> written -> accepted -> done, cancelled, failed
//	                   -> cut ------> done, cancelled, failed
//	claimed -> dropped, taken_by_agent, or any other end by EndDeliveries
//	failed  -> claimed (Retry), dropped (Drop)
//
// Accepted and cut may be left out, and may come again until the end: an agent that lost
// its memory accepts what was cut. What has ended does not change, and a step that does not
// fit is refused with *[StateError].
//
// # What is promised
//
// What Intend, Withdraw, Joined, Left, Prune, Claim, Commit, EndDeliveries, Retry, Drop,
// AddRelay, RemoveRelay and SetSession acknowledged, and Advance to cancelled or failed,
// survives a kill at any instant and a power cut (write-ahead log, synchronous=EXTRA: one
// fsync each). What Written acknowledged survives a kill; a power cut can turn it back into
// an intent, never into nothing. That saves a second fsync, which was 0.3 ms of a 2.9 ms
// process on an idle disk and 5 ms on a busy one. The same holds for Mark, Tried, Died and
// the other steps of Advance: a power cut takes back the last of them, in order, and the
// relay repeats them.
//
// Any number of goroutines and processes may use one ledger at once. Package sqlite
// documents how they wait for each other, which files are refused and where the file may
// be.
package ledger

import (
	"context"
	_ "embed"

	"teambridge/inbox/sqlite"
)

// A Ledger is an open ledger file. Its methods may be called from several
// goroutines; they take turns on one connection.
type Ledger struct {
	db *sqlite.DB

	inEpoch bool // its events have an [Epoch]; used within db.Do, which lets in one at a time
}

//go:embed schema.sql
var schema string

func format() sqlite.Format {
	return sqlite.Format{
		Name:        "ledger",
		Application: 0x74624c65, // "tbLe"
		Retired:     0x74624c47, // "tbLG"
		Schema:      []string{schema},
		// A process that ends without Close leaves its log, and the next
		// one has to read it: 64 pages take 0.1 ms, the default of 1000
		// takes 1.5 ms.
		Setup: "PRAGMA wal_autocheckpoint=64",
	}
}

// Open opens the ledger at path, and creates it if there is none. The file has mode 0600,
// and directories that are missing get mode 0700. It brings a ledger of an earlier version
// up to date.
//
// Errors are those of [sqlite.Open].
func Open(ctx context.Context, path string) (*Ledger, error) {
	db, err := sqlite.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	return &Ledger{db: db}, nil
}

// Close closes the ledger after the call that is running. Closing twice is no error; every
// other call after Close fails with [ErrClosed].
//
// If no other process has the ledger open, Close folds the log into the file: two fsyncs,
// and one more for the next process, which has to start a new log; together 1 ms of a
// process of 4.6 ms. A process about to exit need not call Close. Nothing acknowledged is
// lost, and the commit that makes the log longer than 64 pages folds it in.
func (l *Ledger) Close() error { return l.db.Close() }
