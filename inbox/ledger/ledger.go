// Package ledger records everything that must not be lost or repeated, in one SQLite database that outlives every
// team: sent messages, the deliveries of relays and panes with their states, the relays of a service, sessions that
// move between a terminal and a relay, links with other machines, and joins of teams. Sending and relaying exactly
// once depend on it.
//
// # How a send uses it
//
// All of this happens under the locks of the inbox:
//
//  1. [Sends.Recall] looks the id up. State [Written]: the message was sent before. Another digest: the id is taken.
//     State [Intent]: a sender died between 2 and 4, and [inbox.Send.Before] shows whether the file has changed
//     since.
//  2. [Sends.Intend] records id, digest, row and the state of the file, on the disk.
//  3. The inbox file is replaced and read back.
//  4. [Sends.Written] closes the record; [Sends.Withdraw] takes it back if the file was certainly not replaced. If
//     neither is done within a minute, [Sends.Announce] records an event.
//
// # How a relay uses it
//
// A relay serves one inbox, and no other relay does. The ledger is its queue:
//
//  1. [Deliveries.Claim] records user prompts, and rows under the locks of the inbox before
//     they are marked in the file. [Deliveries.Mark] records that the marks were read back.
//     After a restart [Deliveries.Unmarked] lists the claims that may be unfinished;
//     [Deliveries.End] ends those that the agent took itself.
//  2. [Frames.Commit] makes a [Frame] of deliveries that are [Deliveries.Waiting], while none is in flight. Its bytes
//     never change. A delivery is in one frame at most.
//  3. [Frames.Tried] counts each writing of the frame and [Frames.Died] each process that
//     died with it. [Frames.Advance] follows the agent's acknowledgements, and
//     [Frames.Finish] ends the frame with the agent's answer.
//  4. After a restart [Frames.InFlight] returns the frame to continue with, and
//     [Sessions.Session] its session and process. A nudge continues a turn that was cut.
//  5. A person decides about failed deliveries: [Deliveries.Retry] or [Deliveries.Drop].
//
// A session that moves between a terminal and a relay has a [Handoff].
//
// [Sessions.RelayInfo] returns the state of a relay, and [Events.After] each step, once and in order. A reader that
// remembers its position must remember the time of its last event, too: see [Event].
//
// Frames and deliveries share their states, in the order of [DeliveryState]:
//
//	claimed -> written -> accepted -> done, cancelled, failed
//	                   -> cut ------> done, cancelled, failed
//	claimed -> dropped, taken_by_agent, or any other end by Deliveries.End
//	failed  -> claimed (Retry), dropped (Drop)
//
// Accepted and cut may be left out, and may come again until the end: an agent that lost its memory accepts a cut
// frame again. Of a relay's deliveries that have ended, only Retry and Drop change the state. A step that does not
// fit is refused with *[StateError].
//
// # What is promised
//
// Durable records survive a kill at any instant and a power cut (write-ahead log, synchronous=EXTRA: one fsync each).
// These are the records of Intend and Withdraw of [Sends], Joined and Left of [Teams], Claim, End, Retry and Drop of
// [Deliveries], Commit of [Frames] and its Advance to cancelled or failed, Add and Remove of [Relays], SetSession,
// SetHandoff and AskPlace of [Sessions], and Prune. The record of Written survives a kill; a power cut can turn it
// back into an intent, never into nothing. That saves a second fsync, which took 0.3 to 5 ms. A power cut also takes
// back the last of Mark, Tried, Died and the other steps of Advance, in order, and the relay repeats them.
//
// Any number of goroutines and processes may use one ledger at once: see package sqlite.
package ledger

import (
	"context"
	_ "embed"

	"teambridge/inbox/sqlite"
)

// A Ledger is an open ledger file, with a part for each kind of record. Methods may be called from several
// goroutines; they take turns on one connection.
type Ledger struct {
	*file

	Sends        Sends
	Events       Events
	Deliveries   Deliveries
	Frames       Frames
	Sessions     Sessions
	Relays       Relays
	Replies      Replies
	Holds        Holds
	Teams        Teams
	Panes        Panes
	PaneMessages PaneMessages
	Links        Links
	Outbox       Outbox
	Arrivals     Arrivals
	Person       Person
}

// file is the database that the parts of a Ledger share.
type file struct{ db *sqlite.DB }

//go:embed schema.sql
var schema string

func format() sqlite.Format {
	return sqlite.Format{
		Name:        "ledger",
		Application: 0x74624c33,                                              // "tbL3"
		Development: []int32{0x74624c47, 0x74624c65, 0x74624c31, 0x74624c32}, // "tbLG", "tbLe", "tbL1", "tbL2"
		Schema:      []string{schema},
		Create:      "PRAGMA auto_vacuum=INCREMENTAL", // so that GiveBack can give space back
		// Secure_delete overwrites deleted data. A process that ends without Close leaves its log, and the next one
		// has to read it: 64 pages take 0.1 ms, the default of 1000 takes 1.5 ms.
		Setup: "PRAGMA wal_autocheckpoint=64; PRAGMA secure_delete=ON",
		Lost: "lost are then the ids that were sent (a message that is sent again under one comes twice), what waits for headless agents, and the " +
			"relays, panes and sessions; messages in inboxes and the history stay",
	}
}

// Open opens the ledger at path, creates it if there is none, and brings one of an earlier
// version up to date. Modes and errors are those of [sqlite.Open].
func Open(ctx context.Context, path string) (*Ledger, error) {
	db, err := sqlite.Open(ctx, path, format())
	if err != nil {
		return nil, err
	}
	f := &file{db: db}
	return &Ledger{
		f, Sends{f}, Events{f}, Deliveries{f}, Frames{f}, Sessions{f}, Relays{f}, Replies{f}, Holds{f}, Teams{f},
		Panes{f}, PaneMessages{f}, Links{f}, Outbox{f}, Arrivals{f}, Person{f},
	}, nil
}

// Close closes the ledger after the call that is running, as [sqlite.DB.Close] does. A process about to exit need not
// call it: that saves 1 ms of a process of 4.6 ms, and loses nothing, since a later commit folds the log into the
// file.
func (l *Ledger) Close() error { return l.db.Close() }

// Version returns an opaque text that changes with every commit, as [sqlite.DB.Version] does.
func (l *Ledger) Version(ctx context.Context) (string, error) { return l.db.Version(ctx) }

// Poll returns a [Ledger.Version] for a loop: see [sqlite.DB.Poll].
func (l *Ledger) Poll() func(context.Context) (string, error) { return l.db.Poll() }
