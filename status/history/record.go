package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
)

// A Recorder records inbox messages during an operation, and returns new records. A service records all the
// time; there, a Recorder only reads.
type Recorder struct {
	l       *Archive
	root    *teams.Root
	team    string // empty: all teams
	keeps   bool   // it records for others, and nothing reads its changes
	counts  bool   // it counts in Archive.recorders
	journal *journal.Journal
	close   func() error    // releases other resources
	page    int             // number of changes per read
	after   int64           // number of the last change returned
	look    <-chan struct{} // signals that the journal may have more
	failed  chan error      // signals that the journal is not writable any more
	warned  bool            // about a ledger that could not be opened
	ended   chan error      // the result of the tap; nil in a service

	// replicator copies sent messages from the ledger, since an agent may take one before the tap sees it.
	replicator *journal.Replicator
	stop       context.CancelFunc // stops the tap and the replicator
	copying    sync.WaitGroup
}

// Record records the messages of one team, or of all if team is empty, until the recorder is closed. When it
// returns, the present content is recorded. If the journal cannot be used, Record warns and creates a temporary
// one, since only the history depends on the journal.
func (l *Archive) Record(ctx context.Context, team string) (*Recorder, error) {
	r := &Recorder{l: l, team: team, page: 1000, close: func() error { return nil }}
	var err error
	if r.root, err = l.Opts.Root(); err != nil {
		return nil, err
	}
	if l.always {
		news, done := l.rec.News()
		r.journal, r.page, r.look, r.close = l.rec.Journal, pageOfStream, news, func() error { done(); return nil }
		r.after, err = r.journal.Last(ctx)
		if err != nil {
			done()
			return nil, err
		}
		return r, nil
	}
	if err = r.open(ctx); err == nil {
		if err = r.begin(ctx); err != nil {
			return nil, err
		}
		select {
		case err = <-r.failed:
			if closing := errors.Join(r.halt(), r.close()); closing != nil && !errors.As(closing, new(*journal.Error)) {
				return nil, closing
			}
		default:
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		l.Opts.Warn(fmt.Errorf("%s; there is no history, and nothing is recorded", view.Describe(err)))
		if _, err := r.useTemporary(ctx, true); err != nil {
			return nil, err
		}
		if err := r.begin(ctx); err != nil {
			return nil, err
		}
	}
	r.counts = true
	l.recording(1)
	if r.after, err = r.journal.Last(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	l.Opts.Debug("watching")
	return r, nil
}

// Keep records the messages of a team, as [Archive.Record] does, for a command that records its agent's events
// in [Recorder.Journal]. If the journal breaks, it warns and stops recording.
func (l *Archive) Keep(ctx context.Context, team string) (*Recorder, error) {
	r := &Recorder{l: l, team: team, keeps: true, close: func() error { return nil }}
	var err error
	if r.root, err = l.Opts.Root(); err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := r.begin(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return r, nil
}

// recording adds n to the number of recorders that run.
func (l *Archive) recording(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recorders += n
}

// records reports whether a recorder runs.
func (l *Archive) records() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recorders > 0
}

// OpenJournal opens the journal for writing, once: recorders and other operations share it.
func (l *Archive) OpenJournal(ctx context.Context) (_ *journal.Journal, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.temporary != nil {
		return l.temporary.Journal, nil
	}
	if l.journal == nil {
		l.journal, err = l.Opts.Journal(ctx)
	}
	return l.journal, err
}

// Journal returns the journal to record into.
func (r *Recorder) Journal() *journal.Journal { return r.journal }

// After is the number of the last change that was returned or existed before.
func (r *Recorder) After() int64 { return r.after }

// Poke makes the recorder read the ledger now.
func (r *Recorder) Poke() {
	if r.replicator != nil {
		r.replicator.Poke()
	}
}

func (r *Recorder) open(ctx context.Context) (err error) {
	opening, cancel := ctx, context.CancelFunc(func() {})
	if wait := r.l.Opts.RecordWithin; wait > 0 {
		opening, cancel = context.WithTimeout(ctx, wait)
	}
	defer cancel()
	if used, err := r.useTemporary(ctx, false); used || err != nil {
		return err
	}
	if r.journal, err = r.l.OpenJournal(opening); err != nil {
		return err
	}
	if wait := 5 * r.l.Opts.RecordWithin; wait > 0 && !r.keeps { // otherwise recording would wait for as long as another process is stopped
		writing, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		err = r.journal.Writable(writing)
	}
	return err
}

// temporary is a journal that is removed when the last recorder that uses it is closed.
type temporary struct {
	*journal.Journal
	dir   string
	users int
}

// useTemporary makes r, and all operations meanwhile, use the temporary journal. With make, it creates one if
// there is none.
func (r *Recorder) useTemporary(ctx context.Context, make bool) (used bool, err error) {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.temporary == nil && !make {
		return false, nil
	}
	if l.temporary == nil {
		dir, err := os.MkdirTemp("", "teambridge-journal-")
		if err != nil {
			return false, err
		}
		j, err := journal.Open(ctx, filepath.Join(dir, "journal.db"))
		if err != nil {
			return false, errors.Join(err, os.RemoveAll(dir))
		}
		l.temporary = &temporary{Journal: j, dir: dir}
	}
	t := l.temporary
	t.users++
	r.journal, r.close = t.Journal, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.users--; t.users > 0 {
			return nil
		}
		l.temporary = nil
		return errors.Join(t.Close(), os.RemoveAll(t.dir))
	}
	return true, nil
}

// begin starts to copy the ledger's messages and to tap the inboxes, in the background. It returns when the
// present content is recorded. If it fails, r is closed.
func (r *Recorder) begin(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	look := make(chan struct{}, 1)
	r.stop, r.look, r.failed, r.ended = stop, look, make(chan error, 1), make(chan error, 1)
	if l := r.Ledger(ctx); l != nil {
		warn := func(err error) {
			if running.Err() == nil {
				r.l.Opts.Warn(err)
			}
		}
		if !r.keeps { // otherwise earlier messages can wait
			if _, err := r.journal.Copy(ctx, l); err != nil {
				warn(fmt.Errorf("sent messages are not recorded: %w", err))
			}
		}
		r.replicator = journal.NewReplicator(journal.ReplicatorOptions{Ledger: l, Journal: r.journal, Warn: warn})
		r.copying.Go(func() { _ = r.replicator.Run(running) }) // it returns no error
	}
	opts := journal.TapOptions{
		Root: r.root, Journal: r.journal,
		Report: func() { signals.Send(look) },
		Warn: func(err error) {
			if running.Err() == nil {
				r.warn(err)
			}
		},
	}
	if r.team != "" {
		opts.Only = func(name string) bool { return name == r.team }
	}
	tap := journal.NewTap(opts)
	go func(ended chan<- error) { ended <- tap.Run(running) }(r.ended)
	select {
	case <-tap.Ready():
		return nil
	case err := <-r.ended:
		r.ended <- nil
		return errors.Join(err, ctx.Err(), r.halt(), r.close())
	}
}

// warn handles the tap's errors.
func (r *Recorder) warn(err error) {
	if broken, ok := errors.AsType[*journal.Error](err); !ok || errors.Is(broken, journal.ErrBusy) {
		r.l.Opts.Warn(err)
		return
	}
	select {
	case r.failed <- err:
		if r.keeps { // the channel has no receiver, so this happens once
			r.l.Opts.Warn(fmt.Errorf("%s; messages are no longer recorded", view.Describe(err)))
		}
	default: // already pending
	}
}

// broken wraps the error of a journal that is not writable any more, because the disk is full or the file is damaged.
func broken(failure error) error {
	return fmt.Errorf("new messages are no longer recorded: %w", failure)
}

// Ledger returns the ledger. It is nil if it cannot be opened; Ledger warns of that once.
func (r *Recorder) Ledger(ctx context.Context) *ledger.Ledger {
	l, err := r.l.Opts.Ledger(ctx)
	if err != nil && !r.warned && ctx.Err() == nil {
		r.l.Opts.Warn(fmt.Errorf("%w; sent messages are not known", err))
		r.warned = true
	}
	return l
}

// halt stops the recording, and waits for its end.
func (r *Recorder) halt() error {
	if r.ended == nil {
		return nil
	}
	r.stop()
	r.copying.Wait()
	err := <-r.ended
	r.ended <- nil
	return err
}

// Close stops recording.
func (r *Recorder) Close() error {
	err := r.halt()
	if r.counts {
		r.l.recording(-1)
	}
	if !r.keeps {
		return errors.Join(err, r.close())
	}
	if err != nil {
		r.l.Opts.Warn(fmt.Errorf("%s; messages are no longer recorded", view.Describe(err)))
	}
	if err := r.lastLook(); err != nil && len(r.failed) == 0 {
		r.l.Opts.Warn(fmt.Errorf("%s; the latest messages may not be recorded", view.Describe(err)))
	}
	return r.close()
}

// lastLook records the inboxes of the team. The tap may not have seen the latest messages, and the team may be
// removed next.
func (r *Recorder) lastLook() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastLookWithin)
	defer cancel()
	boxes, err := r.l.inboxes(ctx, r.team) // none if the team is gone
	if err != nil {
		return err
	}
	return r.journal.Look(ctx, boxes...)
}

const lastLookWithin = 2 * time.Second

// Recheck is how often the journal is read without a signal: another process may record faster than this one.
const Recheck = time.Second

// pageOfStream is the number of changes that a service reads at once for one client. A message can have 100
// KiB: 20 streams without a reader took 160 MB with pages of 100, and take 14 MB with pages of 10.
const pageOfStream = 10

// take returns the next changes, and whether there may be more.
func (r *Recorder) take(ctx context.Context) (list []journal.Change, more bool, err error) {
	list, err = r.journal.Messages.Changes(ctx, r.after, r.page)
	if err != nil || len(list) == 0 {
		return nil, false, err
	}
	r.after = list[len(list)-1].Seq
	return list, len(list) == r.page, nil
}

// Changes waits for changes in the journal, and returns each once. It returns none if there are none within wait.
func (r *Recorder) Changes(ctx context.Context, wait time.Duration) ([]journal.Change, error) {
	over := make(chan struct{})
	defer time.AfterFunc(wait, func() { close(over) }).Stop()
	again := time.NewTicker(Recheck)
	defer again.Stop()
	for {
		list, _, err := r.take(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, journal.ErrPruned):
			r.l.Opts.Warn(errors.New("\"teambridge gc\" removed some messages before they were shown"))
			if r.after, err = r.journal.Last(ctx); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case len(list) > 0:
			return list, nil
		}
		if _, ended, err := r.await(ctx, again.C, over); err != nil || ended {
			return nil, err
		}
	}
}

// await waits until the journal may have more, or for tick or other, and reports which of the two came. The
// error says that recording or ctx has ended.
func (r *Recorder) await(ctx context.Context, tick <-chan time.Time, other <-chan struct{}) (ticked, told bool, err error) {
	select {
	case <-r.look:
	case <-tick:
		return true, false, nil
	case <-other:
		return false, true, nil
	case err := <-r.failed:
		return false, false, broken(err)
	case err := <-r.ended:
		r.ended <- err
		if err == nil && ctx.Err() == nil {
			err = errors.New("watching ended")
		}
		return false, false, errors.Join(err, context.Cause(ctx))
	case <-ctx.Done():
		return false, false, context.Cause(ctx)
	}
	return false, false, nil
}
