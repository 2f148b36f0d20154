package inbox

import (
	"context"
	"fmt"
	"time"
)

// SendKey is the key of a message to send: its id in one inbox.
type SendKey struct {
	InboxKey
	ID string // kept to the byte
}

// String names the message, for errors.
func (k SendKey) String() string {
	return fmt.Sprintf("message %q to %s@%s", k.ID, k.Inbox, k.Team)
}

// SendState is how far a message to send has come.
type SendState string

const (
	// SendIntent means that it was about to be written.
	SendIntent SendState = "intent"
	// SendWritten means that it was read back from the inbox.
	SendWritten SendState = "written"
)

// Send is a message to send, as it is remembered.
type Send struct {
	SendKey
	Digest [32]byte // Message.Digest
	Before string   // the state of the inbox file before it was written; only ever compared
	State  SendState
	At     time.Time // of the last change of State

	// Row is the row that is about to be written, for a memory that shows what was sent.
	// It is nil from Recall, and in an intent that is restored.
	Row []byte
}

// Memory remembers messages for longer than the inbox holds them. Without it, an id whose row
// the agent has removed would be sent again. Package teambridge/inbox/ledger implements it.
type Memory interface {
	// Recall returns what is known of key; ok is false where that is nothing.
	Recall(ctx context.Context, key SendKey) (s Send, ok bool, err error)

	// Intend remembers that s is about to be written, on disk when it returns. It replaces
	// what was known. No method is called while Claude's lock on the inbox is held.
	Intend(ctx context.Context, s Send) error

	// Written remembers that the message is in the inbox, where it was read back at
	// the given time, under the lock.
	Written(ctx context.Context, key SendKey, at time.Time) error

	// Withdraw forgets an intent: the message was certainly not written.
	Withdraw(ctx context.Context, key SendKey) error
}
