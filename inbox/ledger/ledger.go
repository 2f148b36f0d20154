// Package ledger remembers which messages were sent, what a relay has taken out
// of an inbox and how far it came, which relays a service is to run, and under
// which names teams were joined, in one SQLite database that outlives every
// team. It is what sending and relaying exactly once rest on.
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
// The record has the row, too. [Ledger.Announce] makes an event of it once it was
// written, so that the history has each message that was sent, whoever sent it.
//
// # How a relay uses it
//
// A relay has a [InboxKey], one inbox, and is the only one there. The ledger is its
// queue:
//
//  1. [Ledger.Claim] records rows under the locks of the inbox, before they are
//     marked in the file, and what persons typed. [Ledger.Mark] says that the
//     marks were read back. After a restart [Ledger.Unmarked] lists the claims
//     that may not have been finished; [Ledger.EndDeliveries] ends those that the agent
//     took itself.
//  2. [Ledger.Commit] makes a [Frame] of what is [Ledger.Waiting], while none is in
//     flight. Its bytes never change, a delivery is in one frame at most, and only
//     Retry takes it out again.
//  3. [Ledger.Tried] counts each writing of the frame, [Ledger.Advance] follows what
//     the agent says of it, for the frame and its deliveries at once, [Ledger.Finish]
//     ends it with the agent's answer, and
//     [Ledger.Died] counts the processes that it was in flight in when they died.
//  4. After any restart [Ledger.InFlight] gives the frame to go on with, and
//     [Ledger.Session] the session and the process it went to. A turn that was
//     broken off is gone on with by a nudge: a frame about a frame.
//  5. Of what failed a person decides: [Ledger.Retry] or [Ledger.Drop].
//
// Other processes see how a relay stands with [Ledger.RelayInfo]. What happened,
// each step once and in order, is in [Ledger.Events]. A reader that remembers how far
// it has read must remember the [Epoch] too.
//
// Frames and deliveries share their states, in the order of [DeliveryState]:
//
//	claimed -> written -> accepted -> done, cancelled, failed
//	                   -> cut ------> done, cancelled, failed
//	claimed -> dropped, taken_by_agent, or any other end by EndDeliveries
//	failed  -> claimed (Retry), dropped (Drop)
//
// Accepted and cut may be left out, and come again until the end: an agent whose
// memory was lost accepts what was cut. What has ended stays as it is, and a step
// that does not fit is refused with *[StateError].
//
// # What is promised
//
// What Intend, Withdraw, Joined, Left, Prune, Claim, Commit, EndDeliveries, Retry, Drop,
// AddRelay, RemoveRelay and SetSession acknowledged, and Advance to cancelled or failed, survives a kill
// at any instant and a power cut (write-ahead log, synchronous=EXTRA: one fsync each).
// What Written acknowledged survives a kill; a power cut can turn it back into
// an intent, never into nothing. That saves a second fsync, which was 0.3 ms
// of a 2.9 ms process on an idle disk and 5 ms on a busy one. So it is with Mark,
// Tried, Died and the other steps of Advance: a power cut takes the last of them
// back, in the order they came, and the relay repeats them.
//
// Any number of goroutines and processes may use one ledger at once. What
// package sqlite says of waiting for each other, of files that are refused and
// of where the file may be, holds for it.
package ledger

import (
	"context"

	"teambridge/inbox/sqlite"
)

// A Ledger is an open ledger file. Its methods may be called from several
// goroutines; they take turns on one connection.
type Ledger struct {
	db *sqlite.DB

	inEpoch bool // its events have an [Epoch]; used within db.Do, which lets in one at a time
}

// Open opens the ledger at path, and makes it if there is none: its directory
// with mode 0700, and each missing one above it, the file with mode 0600. A
// ledger of an earlier version is brought up to date.
//
// Errors are those of [sqlite.Open].
func Open(ctx context.Context, path string) (*Ledger, error) {
	db, err := sqlite.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	return &Ledger{db: db}, nil
}

// Close ends the use of the ledger, after the call that is running. Closing
// twice is no error; every other call after Close fails with [ErrClosed].
//
// Close folds the log into the file, if no other process has it open: two
// fsyncs, and one more for the next process, which has to begin a new log;
// together 1 ms of a process of 4.6 ms. A process about to exit may leave Close
// out. Nothing acknowledged is lost, and the log is folded in by the commit that
// makes it longer than 64 pages.
func (l *Ledger) Close() error { return l.db.Close() }
