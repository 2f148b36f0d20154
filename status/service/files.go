package service

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"teambridge/status/history"
	"teambridge/status/signals"
	"teambridge/teams/watch"
)

const (
	// filesGather is how long changes of files are gathered before they are signaled.
	filesGather = 100 * time.Millisecond
	// filesAgain is how long after a change the files are looked at again every second: what a process has written to
	// the log of a database is visible only after its fsync, of which there is no event.
	filesAgain = 10 * time.Second
	// filesSweep is how often the files are looked at without a change, in case an event is lost.
	filesSweep = 30 * time.Second
)

// FilesChanged returns a channel that signals when a file in the state directory may have changed, be it by another
// process. Call done at the end.
func (s *Service) FilesChanged() (changed <-chan struct{}, done func()) { return s.files.Subscribe() }

// watchFiles signals what other processes write into the state directory, and what Claude Code writes about its
// sessions. Where the system does not report changes, it signals every second. report is reportFiles, but in tests.
func (s *Service) watchFiles(ctx context.Context, report func(ctx context.Context, changed func(dir string)) error) error {
	watching, stop := context.WithCancel(ctx)
	changed, ended := make(chan struct{}, 1), make(chan error)
	var reporting sync.WaitGroup
	defer reporting.Wait()
	defer stop()
	reporting.Go(func() {
		err := report(watching, func(dir string) {
			switch dir {
			case s.opts.State:
				signals.Send(changed)
			case s.sessions():
				signals.Send(s.paneNews)
			}
		})
		select {
		case ended <- err:
		case <-watching.Done():
		}
	})
	every := min(history.Recheck, s.opts.Tick/2)
	next := time.NewTimer(every)
	defer next.Stop()
	gathering, polling, again := false, false, time.Now().Add(filesAgain)
	var looked time.Time // when the panes were, on this timer
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended:
			s.log.Debug("files are looked at every second", "err", err)
			polling = true
			next.Reset(every)
		case <-changed:
			again = time.Now().Add(filesAgain)
			if !gathering {
				gathering = true
				next.Reset(min(filesGather, every))
			}
		case <-next.C:
			gathering = false
			s.files.Tell()
			if polling || time.Now().Before(again) {
				next.Reset(every)
			} else {
				next.Reset(filesSweep)
			}
			if now := time.Now(); now.Sub(looked) > s.opts.Tick-every/2 {
				looked = now
				signals.Send(s.paneNews)
			}
		}
	}
}

// sessions is the directory of the files of Claude Code's processes.
func (s *Service) sessions() string { return filepath.Join(s.opts.Root.Path(), "sessions") }

// reportFiles calls changed with the state directory or that of the sessions after a file in it has changed.
func (s *Service) reportFiles(ctx context.Context, changed func(dir string)) error {
	// The directory of the sessions may not exist yet.
	dirs, err := watch.OpenDirs(s.opts.State, s.opts.Root.Path(), s.sessions())
	if err != nil {
		return err
	}
	return dirs.Run(ctx, changed)
}
