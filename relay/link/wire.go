// Package link carries messages between members of teams on different machines, each exactly once.
//
// The ledger of the sender is the outbox: a message leaves it only when the recipient's ledger confirms that
// it has the message. The [Wire] between them is not trusted to be reliable: it may lose, repeat, reorder and
// delay frames.
//
// A [Link] has a writer for each machine, with one frame in flight: up to 50 messages, and receipts for
// messages that arrived. The writer publishes a frame under one id until the wire confirms it; the messages
// then count as stored. The other side commits them by machine, recipient and id, ignores duplicates, and
// then acknowledges the frame. It delivers the messages in order for each recipient, under ids derived from
// machine, recipient and id, so a crash repeats nothing.
//
// A receipt reports the state of a message on the other side. The first receipt removes the message from the
// outbox. Receipts are not resent on their own: a repeated message requests them again, and so does the query
// after each connect.
//
// A presence, sent every 15 s, reports which teams a machine shares, the status of their members, and whether
// its queue is empty. Only the queue decides anything. If it is empty, stored messages without a receipt were
// lost, and are sent again. If it has a new name, the hub has lost its data, and all unconfirmed messages are
// sent again. Frames and presences name the incarnation of a ledger: whether an earlier incarnation had a
// message is unknown.
package link

import (
	"context"
	"errors"
	"time"
)

// A Wire carries frames between this machine and its peers. All methods except Next are safe for concurrent
// use.
type Wire interface {
	// Publish stores a frame for a peer, and returns nil once it is stored. A frame with an id of the last
	// two minutes is not stored again. The error is [ErrFull] if too many frames wait for the peer, and
	// [ErrPeer] if there is no such peer; after any other error it is unknown whether the frame is stored.
	Publish(ctx context.Context, peer, id string, frame []byte) error

	// Tell sends a text to a peer, or to this machine itself, without storing it. The text is lost if sending
	// fails or the peer is not listening.
	Tell(ctx context.Context, peer string, text []byte) error

	// Next returns the next arrival, or ctx's error.
	Next(ctx context.Context) (Arrival, error)

	// State returns the state of the wire.
	State() State
}

// An Arrival is a frame or a text from Tell. With neither, it means that [Wire.State] has changed.
type Arrival struct {
	From  string // the sending machine, as proved by its key
	Frame []byte
	Text  []byte

	// Ack confirms the frame. The next frame does not arrive before that. Ack is nil if there is no frame.
	Ack func(context.Context) error
}

// State is the state of a wire.
type State struct {
	Connected bool
	Since     time.Time // the time of the last connect or disconnect
	Err       string    // the last error; "" for none

	// Queue identifies the queue of this machine. It changes when the queue's content is lost; "" means
	// unknown.
	Queue string
	// Waiting is the number of frames in this machine's queue; -1 if unknown.
	Waiting int
	// Unreadable counts the frames that were dropped because they could not be opened.
	Unreadable int
}

var (
	// ErrFull means that too many frames wait for a peer.
	ErrFull = errors.New("too many frames wait for this machine")
	// ErrPeer means that there is no peer of that name.
	ErrPeer = errors.New("no such machine is linked")
	// ErrTwin means that another process uses the identity of this machine.
	ErrTwin = errors.New("another service has the identity of this machine")
)
