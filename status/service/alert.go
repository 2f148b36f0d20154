package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"teambridge/status/alert"
	"teambridge/status/api"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams/lockedfile"
)

// Alerts configures the alerts of a [Service] about things that need the person.
type Alerts struct {
	To        []alert.Destination
	LookupEnv func(string) (string, bool) // for addresses in the environment
	Gather    time.Duration               // as of [alert.Options]
	// Text returns the text of an alert besides the kind of thing; nil: none.
	Text func(context.Context, api.Bridge, api.Attention) string
}

// alert sends alerts to one destination until ctx ends. A failure does not affect the service: it is reported in
// the log and by doctor.
func (s *Service) alert(ctx context.Context, to alert.Destination) {
	warn := s.warn("alerting")
	opts := alert.Options{
		To: to, State: s.opts.State, Root: s.opts.Root.Path(), LookupEnv: s.opts.Alerts.LookupEnv, Gather: s.opts.Alerts.Gather,
		Warn: warn, Note: func(text string) { s.log.Info(text) },
	}
	if text := s.opts.Alerts.Text; text != nil {
		opts.Text = func(ctx context.Context, w api.Attention) string { return text(ctx, s.Local, w) }
	}
	if err := to.Check(opts.LookupEnv); err != nil {
		warn(err) // a failure may be repaired before the first alert
	}
	a, err := alert.Open(opts)
	for told := false; err != nil; a, err = alert.Open(opts) {
		if !told {
			if told = true; errors.Is(err, lockedfile.ErrLocked) {
				s.log.Warn("another process sends alerts; they are sent from here once it has ended", "to", to)
			} else {
				warn(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.opts.Tick):
		}
	}
	shown, done := s.watchStates()
	defer done()
	first := make(chan struct{}, 1)
	signals.Send(first)
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			warn(err)
		}
	})
	_ = signals.Loop(ctx, shown, first, time.Minute, func() { // it has no error
		shot, err := s.states.Snapshot(ctx, "", s.opts.Gather)
		switch {
		case err == nil:
			a.Update(shot.Attention)
		case ctx.Err() == nil:
			s.log.Warn("what waits is not known, and not alerted", "err", view.Describe(err))
		}
	})
	running.Wait()
}
