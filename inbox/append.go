package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"teambridge/teams/lockedfile"
)

// AppendOptions says how [Inbox.Append] sends. The zero value is usable for
// messages without an id of their own.
type AppendOptions struct {
	// Memory makes an explicit id idempotent for longer than the row is in the
	// file. It is needed for one, unless Force is set.
	Memory Memory

	// Force sends although it is not known whether the message was sent before
	// ([ErrUnknown], [ErrNoMemory]). It can make a duplicate, and nothing else:
	// an id that is known to be sent is never sent again.
	Force bool

	// Track makes Receipt.Tracked and Receipt.Seen, which costs parsing the whole
	// inbox, when the lock is released.
	Track bool
}

// Receipt says what became of a message.
type Receipt struct {
	ID           string
	Deduplicated bool // it had been sent before, and was not written again

	// Unrecorded is why the memory could not be told that the message was
	// written; nil where it was told, or there is none. The message is in the
	// inbox all the same.
	Unrecorded error

	// Tracked is the message as it stands in the file, for [Inbox.Look]; nil
	// unless asked for, and where it is not there: an agent has taken one that
	// was sent before.
	Tracked *Tracked

	// Seen is the inbox as it was read under the lock, with the message in it: an
	// agent can take it so quickly that nobody else ever sees it there. nil unless
	// asked for. It holds all of the file: let go of it.
	Seen *Seen
}

// memoryTimeout bounds each question to the memory while the inbox is locked:
// half of what the lock may be held.
const memoryTimeout = lockedfile.MaxHold / 2

// Append adds m to the inbox as its last row, under the lock that Claude Code
// takes, and returns once the row was read back under the same lock. The file,
// and the inboxes directory of an existing team, are created where missing.
//
// The errors: [*InvalidError], [ErrIDTaken], [ErrUnknown] and [ErrNoMemory]
// about the message; [teams.ErrTeamGone], [*CorruptError] and those of
// [lockedfile.Locker.Transform] about the file. After any of them the message
// is not in the inbox, unless it is [lockedfile.ErrReplaced] too: then that is
// not known, and the memory keeps it so. Receipt.ID is set even then, so that
// the message can be sent again under the same id.
func (b *Inbox) Append(ctx context.Context, m Message, opts AppendOptions) (Receipt, error) {
	if err := m.Check(); err != nil {
		return Receipt{ID: m.ID}, err
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
	err = b.edit(ctx, a.edit, a.glance.take)
	if err == nil && opts.Memory != nil && !a.known && a.receipt.Unrecorded == nil {
		// After the lock is released: whoever waits for it need not wait for
		// this, and dying in between costs certainty, never a duplicate.
		a.receipt.Unrecorded = opts.Memory.Written(ctx, key, m.Time)
	}
	if err == nil && opts.Track {
		if a.receipt.Seen = a.glance.seen(); a.receipt.Seen != nil {
			a.receipt.Tracked = trackSent(a.receipt.Seen.Rows, &m, a.wrote)
		}
	}
	if err != nil && a.intended && !(a.wrote && errors.Is(err, lockedfile.ErrReplaced)) {
		err = errors.Join(err, a.withdraw())
	}
	a.receipt.ID = m.ID
	return a.receipt, err
}

// key returns what id is remembered by in this inbox.
func (b *Inbox) key(ctx context.Context, id string) (SendKey, error) {
	config, err := b.team.Config(ctx)
	if err != nil {
		return SendKey{}, err
	}
	instance := config.Instance()
	return SendKey{Root: b.team.Root().Path(), Team: instance.Team, CreatedAt: instance.CreatedAt, Inbox: b.name, ID: id}, nil
}

// appending is one Append at work.
type appending struct {
	inbox    *Inbox
	ctx      context.Context
	message  *Message
	row      []byte
	key      SendKey
	opts     AppendOptions
	explicit bool

	wrote    bool  // the row was in the content that was written before
	intended bool  // the memory was told about the intent
	prior    *Send // the intent that stood there before, of a sender that died
	known    bool  // the memory knows already that it was written
	glance   glance
	receipt  Receipt
}

// edit adds the row to the inbox, unless it was sent before. It runs under the
// lock, and again if another program overwrote the result.
func (a *appending) edit(d *Draft) error {
	var row Row
	var found bool
	if a.explicit || a.wrote { // a new UUID cannot be there
		_, row, found = d.Find(a.message.ID)
	}
	switch {
	case found && row.Digest() != a.message.Digest():
		return fmt.Errorf("send %q to %s: %w (from %s)", a.message.ID, a.inbox.name, ErrIDTaken, row.From)
	case found:
		if !a.wrote {
			a.receipt.Deduplicated = true
			a.receipt.Unrecorded = a.note(d)
		}
		return nil
	}
	if !a.wrote {
		if sent, err := a.recall(d); sent || err != nil {
			return err
		}
	}
	a.wrote = true
	d.append(a.row)
	return nil
}

// recall asks the memory whether the message was sent before, and tells it that
// it is about to be if not.
func (a *appending) recall(d *Draft) (sent bool, err error) {
	if a.opts.Memory == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(a.ctx, memoryTimeout)
	defer cancel()
	before, err := d.state()
	if err != nil {
		return false, err
	}
	var known Send
	var ok bool
	if a.explicit { // a new UUID cannot be known
		if known, ok, err = a.opts.Memory.Recall(ctx, a.key); err != nil {
			return false, err
		}
	}
	if ok {
		switch {
		case known.Digest != a.message.Digest():
			return false, fmt.Errorf("send %q to %s: %w", a.message.ID, a.inbox.name, ErrIDTaken)
		case known.State == SendWritten:
			a.known = true
			a.receipt.Deduplicated = true
			return true, nil
		case known.Before != before && !a.opts.Force:
			return false, fmt.Errorf("send %q to %s: %w", a.message.ID, a.inbox.name, ErrUnknown)
		}
	}
	if err := a.opts.Memory.Intend(ctx, a.send(before)); err != nil {
		return false, err
	}
	a.intended = true
	if ok {
		a.prior = &known
	}
	return false, nil
}

// note tells the memory about a message that stands in the file and that it
// does not know, since it was sent without one: it would be sent again once an
// agent has taken the row.
func (a *appending) note(d *Draft) error {
	if a.opts.Memory == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(a.ctx, memoryTimeout)
	defer cancel()
	known, ok, err := a.opts.Memory.Recall(ctx, a.key)
	if err != nil || ok {
		a.known = known.State == SendWritten
		return err
	}
	before, err := d.state()
	if err != nil {
		return err
	}
	return a.opts.Memory.Intend(ctx, a.send(before))
}

// withdraw makes the memory forget that the message was about to be written,
// and know again what it knew before.
func (a *appending) withdraw() error {
	ctx := context.WithoutCancel(a.ctx)
	if a.prior != nil {
		return a.opts.Memory.Intend(ctx, *a.prior)
	}
	return a.opts.Memory.Withdraw(ctx, a.key)
}

func (a *appending) send(before string) Send {
	return Send{SendKey: a.key, Digest: a.message.Digest(), Before: before, State: SendIntent, At: a.message.Time}
}
