package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/teams/lockedfile"
)

// AppendOptions configure [Inbox.Append]. The zero value works for messages without an explicit id.
type AppendOptions struct {
	// Memory makes an explicit id idempotent even after the row has left the file. It is required for an
	// explicit id, unless Force is set.
	Memory Memory

	// Force sends a message even if it may have been sent before ([ErrUnknown], [ErrNoMemory]), at the risk
	// of a duplicate. A message that was certainly sent is never sent again.
	Force bool

	// Track fills in Receipt.Tracked and Receipt.Seen. It parses the whole inbox after the lock is released.
	Track bool
}

// Receipt is the result of sending a message.
type Receipt struct {
	ID           string
	Deduplicated bool // the message was sent before, and was not written again

	// Unrecorded is the memory's error if it could not record that the message was written. The message is in
	// the inbox anyway.
	Unrecorded error

	// Tracked is the message as it is in the file. It is nil unless requested, and if the message was sent
	// before and an agent has taken it.
	Tracked *Tracked

	// Seen is the whole inbox, including the message, as read under the lock: right after that, an agent can
	// take the message. It is nil unless requested.
	Seen *Seen
}

// memoryTimeout limits the memory's calls before a message is written, while other senders to this inbox
// wait, and its calls after that.
const memoryTimeout = 10 * time.Second

// Append adds m to the inbox as its last row, under Claude Code's lock. It returns once the row was read back
// under the same lock. It creates the file if it is missing, and the inboxes directory of an existing team.
//
// The errors about the message are [*InvalidError], [*ProtocolError], [ErrIDTaken], [ErrUnknown] and
// [ErrNoMemory]. The errors about the file are [teams.ErrTeamGone], [*CorruptError] and those of
// [lockedfile.Locker.Transform]. With [lockedfile.ErrReplaced] the message may be in the inbox, and the
// memory keeps the intent; with other errors it is not. Receipt.ID is always set.
func (b *Inbox) Append(ctx context.Context, m Message, opts AppendOptions) (Receipt, error) {
	if err := m.Check(); err != nil {
		return Receipt{ID: m.ID}, err
	}
	if ProtocolType(m.Text) != "" {
		config, err := b.team.Config(ctx)
		if err != nil {
			return Receipt{ID: m.ID}, err
		}
		if err := m.CheckProtocol(config); err != nil {
			return Receipt{ID: m.ID}, fmt.Errorf("send to %s: %w", b.name, err)
		}
	}
	explicit := m.ID != ""
	if !explicit {
		m.ID = uuid.NewString()
	}
	if m.Time.IsZero() {
		m.Time = time.Now()
	}
	if opts.Memory == nil && explicit && !opts.Force {
		return Receipt{ID: m.ID}, fmt.Errorf("send %q to %s: %w", m.ID, b.name, ErrNoMemory)
	}
	row, err := m.row()
	if err != nil {
		return Receipt{ID: m.ID}, fmt.Errorf("send to %s: %w", b.name, err)
	}
	key, err := b.key(ctx, m.ID)
	if err != nil {
		return Receipt{ID: m.ID}, err
	}
	a := appending{inbox: b, ctx: ctx, message: &m, row: row, key: key, opts: opts, explicit: explicit}
	err = a.run()
	if err == nil && opts.Track {
		if a.receipt.Seen = a.read.seen(b.Path()); a.receipt.Seen != nil {
			a.receipt.Tracked = trackSent(a.receipt.Seen.Rows, &m, a.wrote)
		}
	}
	a.receipt.ID = m.ID
	return a.receipt, err
}

// key returns the key of an id in this inbox.
func (b *Inbox) key(ctx context.Context, id string) (SendKey, error) {
	config, err := b.team.Config(ctx)
	if err != nil {
		return SendKey{}, err
	}
	instance := config.Instance()
	return SendKey{InboxKey: Key(b.team.Root().Path(), instance, b.name), ID: id}, nil
}

// appending is one Append in progress. It uses the memory before it takes the lock of the inbox, and after it
// has released the lock, because another process may keep the memory locked for seconds.
type appending struct {
	inbox    *Inbox
	ctx      context.Context
	message  *Message
	row      []byte
	key      SendKey
	opts     AppendOptions
	explicit bool

	found    bool  // the message is in the file
	wrote    bool  // the row was added to a draft of the file
	parsed   bool  // the file could be parsed
	sent     bool  // the memory has recorded that the message was written
	intended bool  // the memory has recorded the intent
	prior    *Send // an earlier intent, whose sender died
	read     lockedRead
	receipt  Receipt
}

// errSent ends an edit for a message that was written before and has been taken since.
var errSent = errors.New("sent before")

func (a *appending) run() error {
	err := a.inbox.edit(a.ctx, a.edit, lockedfile.File{Commit: a.intend, Seen: a.read.take})
	// Record the result even if the caller has given up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), memoryTimeout)
	defer cancel()
	if err != nil && !errors.Is(err, errSent) {
		if a.intended && !errors.Is(err, lockedfile.ErrReplaced) {
			err = errors.Join(err, a.withdraw(ctx))
		}
		return err
	}
	a.receipt.Deduplicated = a.sent || a.found && !a.wrote
	if a.opts.Memory != nil && !a.sent {
		a.receipt.Unrecorded = a.record(ctx)
	}
	return nil
}

// edit adds the row to the inbox, unless it is there already. It may run several times.
func (a *appending) edit(d *Draft) error {
	var row Row
	a.found, a.parsed = false, true
	if a.explicit || a.wrote { // a new UUID cannot be in the file
		_, row, a.found = d.Find(a.message.ID)
	}
	if !a.found {
		if a.sent {
			return errSent
		}
		a.wrote = true
		d.append(a.row)
		return nil
	}
	if !a.wrote {
		a.row = slices.Clone(row.Raw) // keeps the time of the first write
	}
	if !a.message.IsRow(&row) {
		return fmt.Errorf("send %q to %s: %w (from %s)", a.message.ID, a.inbox.name, ErrIDTaken, row.From)
	}
	return nil
}

// intend asks the memory whether the message was sent before. If not, it records the intent to write the
// message.
func (a *appending) intend() error {
	if a.opts.Memory == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(a.ctx, memoryTimeout)
	defer cancel()
	before, err := a.inbox.state()
	if err != nil {
		return err
	}
	send := a.send(before)
	if a.explicit { // a new UUID cannot be in the memory
		known, ok, err := a.opts.Memory.Recall(ctx, a.key)
		switch {
		case err != nil:
			return err
		case !ok:
		case known.Digest != send.Digest:
			return fmt.Errorf("send %q to %s: %w", a.message.ID, a.inbox.name, ErrIDTaken)
		case known.State == SendWritten:
			a.sent = true
			if a.parsed {
				return errSent
			}
			return nil // the file is being written or corrupt; the edit under the lock will show which
		case known.Before != before && !a.opts.Force:
			return fmt.Errorf("send %q to %s: %w", a.message.ID, a.inbox.name, ErrUnknown)
		default:
			a.prior = &known
		}
	}
	if err := a.opts.Memory.Intend(ctx, send); err != nil {
		// Without a state directory, two senders of one message can be here at the same time. The other one
		// has recorded its write since Recall above.
		if known, ok, recall := a.opts.Memory.Recall(ctx, a.key); a.explicit && recall == nil && ok && known.State == SendWritten && known.Digest == send.Digest {
			a.sent = true
			return errSent
		}
		return err
	}
	a.intended = true
	return nil
}

// record records that the message is in the inbox. It also records a message that was sent before without a
// memory: otherwise the message would be sent again once an agent has taken the row.
func (a *appending) record(ctx context.Context) error {
	if !a.intended {
		known, ok, err := a.opts.Memory.Recall(ctx, a.key)
		if err != nil || ok && known.State == SendWritten {
			return err
		}
		if !ok {
			before, err := a.inbox.state()
			if err != nil {
				return err
			}
			if err := a.opts.Memory.Intend(ctx, a.send(before)); err != nil {
				return err
			}
		}
	}
	return a.opts.Memory.Written(ctx, a.key, a.read.done)
}

// withdraw restores the memory to its state before intend.
func (a *appending) withdraw(ctx context.Context) error {
	if a.prior != nil {
		return a.opts.Memory.Intend(ctx, *a.prior)
	}
	return a.opts.Memory.Withdraw(ctx, a.key)
}

func (a *appending) send(before string) Send {
	return Send{SendKey: a.key, Digest: a.message.Digest(), Before: before, State: SendIntent, At: a.message.Time, Row: a.row}
}
