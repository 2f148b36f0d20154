package pane

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/pipe"
)

// Run delivers the messages of all panes, follows their tasks, and notifies senders, until
// ctx ends. It tries failed steps again, and reports each error to [Options.Warn] once. It
// returns when the deliveries in progress are finished: within seconds.
func (p *Panes) Run(ctx context.Context) (err error) {
	var running sync.WaitGroup
	end := p.Incoming.use()
	defer func() {
		running.Wait()
		err = end()
	}()
	r := runner{panes: p, running: &running, busy: map[job]bool{}, begun: map[job]time.Time{}}
	failing := false
	for {
		err := r.step(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			p.opts.Warn(err)
		}
		failing = err != nil
		var rest <-chan time.Time
		if failing || !r.none || r.unlisted || !p.opts.Notified {
			every := p.timing.every
			if r.none {
				every = p.timing.quiet
			}
			rest = time.After(every) // other processes add messages, too
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-rest:
		}
	}
}

// Poke makes Run look at the ledger now. It does not block.
func (s *shared) Poke() { pipe.Poke(s.wake) }

// runner is the state of Run.
type runner struct {
	panes   *Panes
	running *sync.WaitGroup

	none bool // there are no panes, and no notification is left to send

	processes string // the last result of Sessions.Processes; a change means to list us again
	unlisted  bool   // sessions list another process of ours

	mu    sync.Mutex
	busy  map[job]bool
	begun map[job]time.Time // when it last began, if that was within timing.follow
}

// job is one of the two jobs for a pane that run at the same time: its queue, and following its tasks.
type job struct {
	inbox.InboxKey
	follow bool
}

// step starts the jobs that are due, and sends notifications.
func (r *runner) step(ctx context.Context) error {
	p := r.panes
	if now := p.Sessions.Processes(); now != r.processes || r.unlisted {
		r.processes, r.unlisted = now, !p.Incoming.appear()
	}
	messages, err := p.opts.Ledger.PaneMessages.Open(ctx, p.opts.Root.Path())
	if err != nil {
		return err
	}
	r.none = false
	if len(messages) == 0 {
		p.transcripts.forget()
		all, err := p.opts.Ledger.Panes.List(ctx, p.opts.Root.Path())
		if r.none = len(all) == 0; err != nil {
			return err
		}
	}
	queues, follow := map[inbox.InboxKey][]ledger.PaneMessage{}, map[inbox.InboxKey][]ledger.PaneMessage{}
	for _, m := range messages {
		if m.State.Ended() {
			follow[m.InboxKey] = append(follow[m.InboxKey], m) // only its task is open
		} else {
			queues[m.InboxKey] = append(queues[m.InboxKey], m)
		}
	}
	for k, list := range queues {
		_, due := nextOf(list)
		if time.Now().Before(due) && !slices.ContainsFunc(list, p.Queue.expired) {
			continue
		}
		r.start(ctx, job{k, false}, func() error {
			_, err := p.Queue.work(ctx, k, false)
			if errors.Is(err, ErrBusy) {
				err = nil // another process works for the pane
			}
			return err
		})
	}
	for k, list := range follow {
		r.start(ctx, job{k, true}, func() error {
			record, found, err := p.opts.Ledger.Panes.Pane(ctx, k)
			if err != nil || !found {
				return err
			}
			return p.Tasks.follow(ctx, paneOf(record), list)
		})
	}
	left, err := p.Tasks.notifyAll(ctx)
	r.none = r.none && !left
	return err
}

// start starts a job unless it is running. It follows tasks only at the interval timing.follow.
func (r *runner) start(ctx context.Context, j job, do func() error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.begun, func(_ job, at time.Time) bool { return time.Since(at) >= r.panes.timing.follow })
	if _, lately := r.begun[j]; r.busy[j] || j.follow && lately {
		return
	}
	r.busy[j], r.begun[j] = true, time.Now()
	r.running.Go(func() {
		err := do()
		if err != nil && ctx.Err() == nil && r.panes.first(j.Inbox+": "+err.Error()) {
			r.panes.opts.Warn(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, j)
	})
}
