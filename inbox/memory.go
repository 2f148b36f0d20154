package inbox

import (
	"context"
	"fmt"
	"time"
)

// SendKey identifies a sent message: its id in one inbox.
type SendKey struct {
	InboxKey
	ID string // compared byte for byte
}

// String names the message, for errors.
func (k SendKey) String() string {
	return fmt.Sprintf("message %q to %s@%s", k.ID, k.Inbox, k.Team)
}

// SendState is the progress of a sent message.
type SendState string

const (
	// SendIntent means that the message was about to be written.
	SendIntent SendState = "intent"
	// SendWritten means that the message was read back from the inbox.
	SendWritten SendState = "written"
)

// Send is the memory's record of a sent message.
type Send struct {
	SendKey
	Digest [32]byte // the result of Message.Digest
	Before string   // the state of the inbox file before the write; it is only compared
	State  SendState
	At     time.Time // the time of the last change of State

	// Row is the row that is about to be written, for a memory that shows sent messages. It is nil in the
	// result of Recall, and in an intent that is restored.
	Row []byte
}

// Memory remembers sent messages after they have left the inbox. Without it, a message would be sent again if
// the agent has removed its row. Package teambridge/inbox/ledger implements it.
type Memory interface {
	// Recall returns the record for key; ok is false if there is none.
	Recall(ctx context.Context, key SendKey) (s Send, ok bool, err error)

	// Intend records that s is about to be written. The record must be on disk before Intend returns. It
	// replaces an earlier record. No method is called while Claude's lock on the inbox is held.
	Intend(ctx context.Context, s Send) error

	// Written records that the message is in the inbox. It was read back there, under the lock, at the given
	// time.
	Written(ctx context.Context, key SendKey, at time.Time) error

	// Withdraw removes an intent, because the message was certainly not written.
	Withdraw(ctx context.Context, key SendKey) error
}
