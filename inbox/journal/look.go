package journal

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/teams"
)

// Look reads inboxes and records their rows. Until then the journal assumes that a sent message is still in its
// inbox. Look skips inboxes that cannot be read at the moment, and those without files, which [Journal.Copy]
// observes.
func (j *Journal) Look(ctx context.Context, boxes ...inbox.InboxKey) error {
	for _, b := range boxes {
		if b.Instance().Fileless() { // a missing file would end its rows, and each Copy would record them again
			continue
		}
		// If another process reads it at the same time, Observe asks to read it again.
		for range 3 {
			s, ok := lookAt(ctx, b)
			if !ok {
				break
			}
			o, err := j.Messages.Observe(ctx, s)
			if err != nil {
				return err
			}
			if len(o.Again) == 0 {
				break
			}
		}
	}
	return ctx.Err()
}

func lookAt(ctx context.Context, b inbox.InboxKey) (Snapshot, bool) {
	at := time.Now()
	s, err := readInbox(ctx, b)
	s.InboxKey = b
	if errors.Is(err, teams.ErrTeamGone) {
		s.Gone, s.At, s.Done, err = true, at, time.Now(), nil
	}
	return s, err == nil || errors.Is(err, inbox.ErrEmpty)
}

// readInbox reads an inbox once. It fails with [teams.ErrTeamGone] if the name now belongs to
// another team.
func readInbox(ctx context.Context, b inbox.InboxKey) (s Snapshot, err error) {
	root, err := teams.Open(b.Root)
	if err != nil {
		return s, err
	}
	defer root.Close()
	t, err := root.Team(b.Team)
	if err != nil {
		if errors.As(err, new(*teams.NotFoundError)) {
			err = teams.ErrTeamGone
		}
		return s, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return s, err
	}
	if c.Instance() != b.Instance() {
		return s, teams.ErrTeamGone
	}
	box, err := inbox.Open(t, b.Inbox, nil) // reading takes no lock
	if err != nil {
		return s, err
	}
	return readOnce(ctx, box)
}

// readOnce reads an inbox once. If [inbox.Inbox.Read] would have to wait, the error is [context.Canceled].
func readOnce(ctx context.Context, box *inbox.Inbox) (s Snapshot, err error) {
	once, cancel := context.WithCancel(ctx)
	cancel() // Read looks once before it waits
	s.At = time.Now()
	s.Rows, err = box.Read(once)
	s.Done = time.Now()
	if errors.Is(err, inbox.ErrMissing) {
		s.Gone, err = true, nil
	}
	return s, err
}
