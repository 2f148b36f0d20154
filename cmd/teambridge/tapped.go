package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/teams"
)

// journalPath returns where the journal is.
func (a *app) journalPath() (string, error) {
	dir, err := a.state()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "journal.db"), nil
}

// journal opens the journal. Close it.
func (a *app) journal(ctx context.Context) (*journal.Journal, error) {
	path, err := a.journalPath()
	if err != nil {
		return nil, err
	}
	return journal.Open(ctx, path)
}

// journalOrNot opens the journal or, where that fails, says so and opens an
// empty one that goes with the command: nothing rests on the journal but what is
// known of the past. Call done in the end.
func (a *app) journalOrNot(ctx context.Context) (j *journal.Journal, done func() error, err error) {
	j, err = a.journal(ctx)
	if err == nil {
		return j, j.Close, nil
	}
	if ctx.Err() != nil {
		return nil, nil, err
	}
	a.warn("%s; what was before is not known, and nothing is kept", describeError(err))
	dir, err := os.MkdirTemp("", "teambridge-journal-")
	if err != nil {
		return nil, nil, err
	}
	j, err = journal.Open(ctx, filepath.Join(dir, "journal.db"))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return j, func() error { return errors.Join(j.Close(), os.RemoveAll(dir)) }, nil
}

// tapped is a journal that is filled from the files while a command runs.
type tapped struct {
	app     *app
	journal *journal.Journal
	look    chan struct{} // there may be more in the journal
	ended   chan error
	stop    context.CancelFunc
	done    func() error
	after   int64 // number of the last change that was returned
}

// tap records what passes through the inboxes of a Claude directory, or of one
// team in it, until it is closed. What is in the files is recorded when it
// returns; changes come after that.
func (a *app) tap(ctx context.Context, root *teams.Root, team string) (*tapped, error) {
	j, done, err := a.journalOrNot(ctx)
	if err != nil {
		return nil, err
	}
	t := &tapped{app: a, journal: j, look: make(chan struct{}, 1), ended: make(chan error, 1), done: done}
	opts := journal.TapOptions{
		Root: root, Journal: j,
		Report: func() {
			select {
			case t.look <- struct{}{}:
			default: // it was told already, and has not looked yet
			}
		},
		Warn: func(err error) { a.warn("%s", describeError(err)) },
	}
	if team != "" {
		opts.Only = func(name string) bool { return name == team }
	}
	tap := journal.NewTap(opts)
	running, stop := context.WithCancel(ctx)
	t.stop = stop
	go func() { t.ended <- tap.Run(running) }()
	select {
	case <-tap.Ready():
	case err := <-t.ended:
		t.ended <- nil
		return nil, errors.Join(err, ctx.Err(), t.close())
	}
	if t.after, err = j.Last(ctx); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

// close ends the recording.
func (t *tapped) close() error {
	t.stop()
	return errors.Join(<-t.ended, t.done())
}

// recheck is how often the journal is looked at without having been told to:
// another process may record faster than this one.
const recheck = time.Second

// changes waits for changes in the journal and returns them, each once.
func (t *tapped) changes(ctx context.Context) ([]journal.Change, error) {
	for {
		list, err := t.journal.Changes(ctx, t.after, 1000)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			t.after = list[len(list)-1].Seq
			return list, nil
		}
		timer := time.NewTimer(recheck)
		select {
		case <-t.look:
		case <-timer.C:
		case err := <-t.ended:
			t.ended <- err
			if err == nil && ctx.Err() == nil {
				err = errors.New("watching ended")
			}
			return nil, errors.Join(err, ctx.Err())
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// entryOf is a message of the journal as an entry of a feed.
func entryOf(m journal.Message) inbox.Entry {
	return inbox.Entry{Row: m.Row, Inbox: m.Inbox, Index: int(m.Seq)}
}

// asRecorded is a message of the journal as it is shown.
func asRecorded(m journal.Message) message {
	shown := asMessage(m.Team.Team, entryOf(m))
	shown.Read = m.Read || !m.ReadAt.IsZero()
	shown.Gone = !m.GoneAt.IsZero()
	return shown
}

// recent is how many of the last messages of each member are looked through for
// its status. The last one decides; the others are for clocks that disagree.
const recent = 50

// statuses says what is known of the members of t, from the journal.
func statuses(ctx context.Context, j *journal.Journal, t *teams.Team, now time.Time) ([]status.Status, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	instance := c.Instance()
	q := journal.Query{Root: t.Root().Path(), Team: instance.Team, CreatedAt: instance.CreatedAt, Newest: true, Limit: recent}
	authors, err := j.Authors(ctx, q)
	if err != nil {
		return nil, err
	}
	var events []status.Event
	for _, author := range authors {
		q.From = author
		for m, err := range j.Messages(ctx, q) {
			if err != nil {
				return nil, err
			}
			events = append(events, status.Event{Entry: entryOf(m), FirstSeen: m.FirstSeen})
		}
	}
	return status.Of(now, c, events), nil
}

// timeout ends a wait of ours, as opposed to the caller's.
type timeoutError struct{ what string }

func (e *timeoutError) Error() string { return e.what }

// within bounds a wait; 0 is no bound.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, &timeoutError{fmt.Sprintf("%s within %s", what, d)})
}
