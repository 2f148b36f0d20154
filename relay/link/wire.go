// Package link carries messages between members of teams on different machines, each of them
// once.
//
// The ledger of the sender is the outbox: a message leaves it only when the ledger of the
// recipient says that it has the message. Between them is a [Wire], on which nothing rests: it
// may lose, repeat, reorder and delay what it carries.
//
// A [Link] has a writer for each machine, with one frame in flight: up to 50 messages, and receipts of messages that came.
// It publishes a frame under one id until the wire has it; then its messages are stored. On the other side they are
// committed by machine, recipient and id, and then the frame is acknowledged. What is there already is a duplicate.
// Messages are handed over in order for each recipient, under ids that are derived from machine, recipient and id, so a
// crash repeats nothing.
//
// Receipts say what became of a message there. The first one takes it out of the outbox. They are never tried again: a
// repeated message, or a question after each connect, brings them once more.
//
// Presence says every 15 s what a machine shares, what the members do, and that its queue is empty. Only the last decides
// something: what is stored for a machine with an empty queue was lost, and is sent again, as is everything unconfirmed if
// the queue has another name than before, since then its hub has lost its data. A ledger has an incarnation, which frames
// and presence carry: of what was given for an earlier one, it is unknown whether that had it.
package link

import (
	"context"
	"errors"
	"time"
)

// A Wire carries frames between this machine and its peers. Its methods may be called from
// several goroutines, but for Next.
type Wire interface {
	// Publish has a frame stored for a peer, and returns nil once it is. A frame that was stored
	// under the same id in the last two minutes is not stored again. The error is [ErrFull] if
	// too much waits for the peer, [ErrPeer] if there is no such peer, and else tells why it is
	// not known whether the frame is stored.
	Publish(ctx context.Context, peer, id string, frame []byte) error

	// Tell tells a peer, or this machine itself, something at once. If it cannot, or if nobody
	// listens there, it is lost.
	Tell(ctx context.Context, peer string, text []byte) error

	// Next returns what comes next. The error is ctx's.
	Next(ctx context.Context) (Arrival, error)

	// State says how the wire is now.
	State() State
}

// An Arrival is a frame, something that was told, or, if it has neither, says that [Wire.State]
// has changed.
type Arrival struct {
	From  string // the machine; its key says so, not the frame
	Frame []byte
	Told  []byte

	// Ack says that the frame need not come again. Until then the next one does not come. It is
	// nil if there is no frame.
	Ack func(context.Context) error
}

// State is how a wire is.
type State struct {
	Connected bool
	Since     time.Time // when it was connected, or ceased to be
	Err       string    // the last error, in words; "" for none

	// Queue names what is stored for this machine. It has another name after what was stored was
	// lost; "" if it is not known yet.
	Queue string
	// Waiting is how many frames are stored for this machine; -1 if it is not known.
	Waiting int
	// Unreadable counts the frames that were thrown away because they could not be opened.
	Unreadable int
}

var (
	// ErrFull means that too many frames wait for a peer.
	ErrFull = errors.New("too much waits for this machine")
	// ErrPeer means that there is no peer of that name.
	ErrPeer = errors.New("no such machine is linked")
	// ErrTwin means that another process uses the identity of this machine.
	ErrTwin = errors.New("another service has the identity of this machine")
)
