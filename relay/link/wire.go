// Package link carries messages between members of teams on different machines, each of them
// once.
//
// The ledger of the sender is the outbox: a message leaves it only when the ledger of the
// recipient says that it has the message. Between them is a [Wire], on which nothing rests: it
// may lose, repeat, reorder and delay what it carries.
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

	// Next returns what comes next. The error is that of ctx.
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
