package inbox

import (
	"context"
	"errors"
	"time"
)

// Seen is the content of an inbox at one time. It is not safe for concurrent use.
type Seen struct {
	Rows []Row // in the order of the file; nil if there is a Fault

	// Fault is why no rows can be read: [ErrMissing], [ErrEmpty], a [*CorruptError] or [teams.ErrTeamGone].
	// Claude Code deletes no inbox before its team ends, and writes "[]" when all rows were taken, so such a
	// file reveals nothing about the fate of a message.
	Fault error

	// At and Done are the times between which the file was read; in a result of [Inbox.Append], under the
	// lock.
	At, Done time.Time

	keys map[string]bool // keys of unread rows; nil until needed
}

// Unread reports whether the inbox has an unread row with a key.
func (s *Seen) Unread(key string) bool { return s.unread()[key] }

// unread returns the keys of the unread rows.
func (s *Seen) unread() map[string]bool {
	if s.keys == nil {
		s.keys = make(map[string]bool, len(s.Rows))
		for i := range s.Rows {
			if !s.Rows[i].Read {
				s.keys[s.Rows[i].Key()] = true
			}
		}
	}
	return s.keys
}

// See reads the inbox as [Inbox.Read] does, and records the time. If the team exists, a missing, empty or
// corrupt file is a Fault and not an error.
func (b *Inbox) See(ctx context.Context) (*Seen, error) {
	s := &Seen{At: time.Now()}
	rows, err := b.Read(ctx)
	_, corrupt := errors.AsType[*CorruptError](err)
	switch {
	case err == nil, errors.Is(err, ErrBusy):
	case corrupt, errors.Is(err, ErrMissing), errors.Is(err, ErrEmpty):
		s.Fault, err = err, nil
	}
	if err != nil {
		return nil, err
	}
	s.Rows, s.Done = rows, time.Now()
	return s, nil
}

// lockedRead is the content of the file as read under the lock, to be parsed once the lock is released.
type lockedRead struct {
	content     []byte
	began, done time.Time
}

func (g *lockedRead) take(content []byte, began, done time.Time) {
	g.content, g.began, g.done = content, began, done
}

// seen parses the content of the file at a path; nil if it is not an array.
func (g *lockedRead) seen(path string) *Seen {
	rows, err := ParseFile(path, g.content)
	if err != nil {
		return nil // a successful edit has parsed any other content, so the file was empty
	}
	return &Seen{Rows: rows, At: g.began, Done: g.done}
}
