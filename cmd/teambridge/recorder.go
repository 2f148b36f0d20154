package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/replicate"
	"teambridge/inbox/sqlite"
	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

func (a *app) journal(ctx context.Context) (*journal.Journal, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, sqlite.Patience))
	defer cancel()
	j, err := journal.Open(ctx, filepath.Join(a.state, "journal.db"))
	if err == nil {
		a.opened = append(a.opened, j.Close)
	}
	return j, err
}

// journalWait is how long a command that can do without the journal waits for its lock.
const journalWait = 2 * time.Second

// journalOrNot opens the journal. If that fails it warns and opens an empty, temporary
// one, since only the history depends on the journal. Call done at the end.
func (a *app) journalOrNot(ctx context.Context) (j *journal.Journal, done func() error, err error) {
	opening, cancel := context.WithTimeout(ctx, cmp.Or(a.wait, journalWait))
	j, err = a.journal(opening)
	cancel()
	if err == nil {
		return j, j.Close, nil
	}
	if ctx.Err() != nil {
		return nil, nil, err
	}
	a.warn("%s; there is no history, and nothing is recorded", view.Describe(err))
	return spareJournal(ctx)
}

// spareJournal makes a temporary journal, which done removes.
func spareJournal(ctx context.Context) (j *journal.Journal, done func() error, err error) {
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

// recorder is a journal that is filled from the inboxes while a command runs.
type recorder struct {
	app     *app
	root    *teams.Root
	team    string // empty: of all teams
	journal *journal.Journal
	done    func() error   // closes the journal
	after   int64          // number of the last change that was returned
	look    chan struct{}  // there may be more in the journal
	failed  chan error     // the journal can no longer be written
	known   map[string]int // rows of an abandoned journal, which are not new
	warned  bool           // that the ledger could not be opened
	silent  error          // why the last statuses lack what only the service knows; nil if they do not

	// The running tap.
	ended chan error
	stop  context.CancelFunc

	// Sent messages are copied from the ledger, since an agent may take one before the
	// tap sees it.
	copying  sync.WaitGroup
	stopCopy context.CancelFunc
}

// startRecorder records the messages of one team, or of all if team is empty, until the
// recorder is closed. When it returns, the present content is recorded.
func (a *app) startRecorder(ctx context.Context, root *teams.Root, team string) (*recorder, error) {
	t := &recorder{app: a, root: root, team: team, look: make(chan struct{}, 1), failed: make(chan error, 1)}
	var err error
	if t.journal, t.done, err = a.journalOrNot(ctx); err != nil {
		return nil, err
	}
	t.replicate(ctx)
	if err := t.begin(ctx); err != nil {
		return nil, err
	}
	if t.after, err = t.journal.Last(ctx); err != nil {
		return nil, errors.Join(err, t.close())
	}
	select {
	case err := <-t.failed:
		if err := t.spare(ctx, err); err != nil {
			return nil, err
		}
		// All of that was there before, even if it could not be recorded.
		if t.after, err = t.journal.Last(ctx); err != nil {
			return nil, errors.Join(err, t.close())
		}
	default:
	}
	a.debug("watching")
	a.recording = t
	return t, nil
}

// replicate copies the ledger's messages into t.journal, and then those that follow in the
// background.
func (t *recorder) replicate(ctx context.Context) {
	running, stop := context.WithCancel(ctx)
	t.stopCopy = stop
	l := t.sends(ctx)
	if l == nil {
		return
	}
	warn := func(err error) {
		if ctx.Err() == nil {
			t.app.warn("%s", view.Describe(err))
		}
	}
	if _, err := replicate.Copy(ctx, l, t.journal); err != nil {
		warn(fmt.Errorf("what was sent is not recorded: %w", err))
	}
	r := replicate.New(replicate.Options{Ledger: l, Journal: t.journal, Warn: warn})
	t.copying.Go(func() { _ = r.Run(running) }) // it has no error
}

// begin starts a tap that fills t.journal, and returns when the present content is
// recorded. If it fails, t is closed.
func (t *recorder) begin(ctx context.Context) error {
	opts := journal.TapOptions{
		Root: t.root, Journal: t.journal,
		Report: func() {
			select {
			case t.look <- struct{}{}:
			default: // already pending
			}
		},
		Warn: func(err error) {
			if ctx.Err() == nil {
				t.warn(err)
			}
		},
	}
	if t.team != "" {
		opts.Only = func(name string) bool { return name == t.team }
	}
	tap := journal.NewTap(opts)
	running, stop := context.WithCancel(ctx)
	t.stop, t.ended = stop, make(chan error, 1)
	go func(ended chan<- error) { ended <- tap.Run(running) }(t.ended)
	select {
	case <-tap.Ready():
		return nil
	case err := <-t.ended:
		t.ended <- nil
		return errors.Join(err, ctx.Err(), t.close())
	}
}

// warn gets the tap's errors.
func (t *recorder) warn(err error) {
	broken, ok := errors.AsType[*journal.Error](err)
	if !ok || errors.Is(broken, journal.ErrBusy) {
		t.app.warn("%s", view.Describe(err))
		return
	}
	select {
	case t.failed <- err:
	default: // already pending
	}
}

// spare goes on with an empty journal when the journal can no longer be written, because
// the disk is full or the file is damaged. If it fails, t is closed.
func (t *recorder) spare(ctx context.Context, failure error) error {
	t.app.warn("%s; nothing more is recorded", view.Describe(failure))
	t.stopCopy()
	t.copying.Wait()
	t.stop()
	err := <-t.ended
	t.known = map[string]int{}
	for m, err := range t.journal.Messages(ctx, journal.Query{Root: t.root.Path(), Team: t.team}) {
		if err != nil {
			break // then some messages are shown again
		}
		t.known[rowKey(m)]++
	}
	err = errors.Join(err, t.done())
	t.ended <- nil
	t.done = func() error { return nil }
	if err == nil || errors.As(err, new(*journal.Error)) {
		t.journal, t.done, err = spareJournal(ctx)
	}
	if err != nil {
		return err
	}
	t.after = 0
	if err := t.begin(ctx); err != nil {
		return err
	}
	select { // drop an error of the old tap
	case <-t.failed:
	default:
	}
	return nil
}

func rowKey(m journal.Message) string {
	return m.Team.String() + "/" + m.Inbox + "/" + m.Key()
}

// news drops the changes that were returned before.
func (t *recorder) news(list []journal.Change) []journal.Change {
	if len(t.known) == 0 {
		return list
	}
	return slices.DeleteFunc(list, func(c journal.Change) bool {
		key := rowKey(c.Message)
		if c.Kind != journal.Appeared || t.known[key] == 0 {
			return false
		}
		t.known[key]--
		return true
	})
}

// sends returns the ledger; nil if it cannot be opened.
func (t *recorder) sends(ctx context.Context) *ledger.Ledger {
	l, err := t.app.ledger(ctx)
	if err != nil && !t.warned && ctx.Err() == nil {
		t.app.warn("%s; sent messages are not known", view.Describe(err))
		t.warned = true
	}
	return l
}

func (t *recorder) close() error {
	t.app.recording = nil
	t.stopCopy()
	t.copying.Wait()
	t.stop()
	return errors.Join(<-t.ended, t.done())
}

// recheck is how often the journal is read without a report: another process may record
// faster than this one.
const recheck = time.Second

// changes waits for changes in the journal and returns each once; none if there are none
// within wait.
func (t *recorder) changes(ctx context.Context, wait time.Duration) ([]journal.Change, error) {
	over := time.NewTimer(wait)
	defer over.Stop()
	again := time.NewTicker(recheck)
	defer again.Stop()
	for {
		list, err := t.journal.Changes(ctx, t.after, 1000)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, journal.ErrPruned):
			t.app.warn("\"teambridge gc\" removed some messages before they were shown")
			if t.after, err = t.journal.Last(ctx); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case len(list) > 0:
			t.after = list[len(list)-1].Seq
			if list = t.news(list); len(list) == 0 {
				continue
			}
			return list, nil
		}
		select {
		case <-t.look:
		case <-again.C:
		case <-over.C:
			return nil, nil
		case err := <-t.failed:
			if err := t.spare(ctx, err); err != nil {
				return nil, err
			}
		case err := <-t.ended:
			t.ended <- err
			if err == nil && ctx.Err() == nil {
				err = errors.New("watching ended")
			}
			return nil, errors.Join(err, context.Cause(ctx))
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// statuses returns the status of each member of team. The service is asked if it knows more.
func (t *recorder) statuses(ctx context.Context, team *teams.Team) (all []api.Status, err error) {
	t.silent = nil
	if l := t.sends(ctx); l != nil && hasRelays(ctx, l, t.root, team.Name()) {
		answered, err := t.app.askService(ctx, t.root, func(ctx context.Context, c *client.Client) (err error) {
			all, err = c.Status(ctx, team.Name())
			return err
		})
		if answered || isGone(err) {
			return all, err
		}
		t.silent = err
	}
	return t.app.local().StatusOf(ctx, &bridge.Target{Team: team})
}

// within bounds a wait; 0 is no bound. what says what has not happened at the timeout.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, api.Decide(api.CodeTimeout, "", "timed out after %s: %s", d, what))
}

// ended is the cause of ctx if it has ended and there is an error, else err.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
