package service

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/killtest"
	"teambridge/teams"
	"teambridge/teams/teamstest"
)

func TestMain(m *testing.M) { os.Exit(killtest.Tests(m)) }

// bubble calls do with a service of which no part runs, and with the clock of the test.
func bubble(t *testing.T, do func(*testing.T, *Service)) {
	t.Helper()
	f := teamstest.New(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(t.Context(), Options{Root: f.Root, State: f.State, KeepWork: time.Hour, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		do(t, s)
	})
}

// signalled reports an error unless there is a signal in time.
func signalled(t *testing.T, d time.Duration, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(d + time.Millisecond): // a tick can be at the same instant
		t.Errorf("%s: no signal within %v", what, d)
	}
}

// Records of another process are noticed within a second, even after a long idle time, and panes are looked at
// every 2 s.
func TestPumpNoticesOtherProcesses(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *Service) {
		l, err := ledger.Open(t.Context(), filepath.Join(s.opts.State, "ledger.db"))
		must(t, err)
		defer l.Close()
		j, err := journal.Open(t.Context(), filepath.Join(s.opts.State, "journal.db"))
		must(t, err)
		defer j.Close()
		news, done := s.news.Subscribe()
		defer done()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.pump(ctx, nil) }()
		// In a bubble the system reports nothing.
		go func() {
			ended <- s.watchFiles(ctx, func(context.Context, func(string)) error { return errors.ErrUnsupported })
		}()
		time.Sleep(time.Minute)
		for _, c := range []<-chan struct{}{news, s.rejoiner.dirty, s.paneNews} {
			select {
			case <-c:
			default:
			}
		}

		must(t, l.Links.SetLink(t.Context(), ledger.Link{Name: "laptop"}))
		signalled(t, time.Second, "the ledger", s.rejoiner.dirty)
		time.Sleep(time.Minute)
		rows, err := inbox.Parse([]byte(`[{"from":"alice","text":"hello"}]`))
		must(t, err)
		if _, err := j.Messages.Observe(t.Context(), journal.Snapshot{InboxKey: inbox.Key(s.opts.Root.Path(), teams.Instance{Team: "team"}, "bob"), Rows: rows, At: time.Now(), Done: time.Now()}); err != nil {
			t.Fatal(err)
		}
		signalled(t, time.Second, "the journal", news)

		signalled(t, 2*time.Second, "panes", s.paneNews)
		signalled(t, 2*time.Second, "panes", s.paneNews)
		stop()
		must(t, errors.Join(<-ended, <-ended))
	})
}

// While the system reports changes, the files are read only after one, except for a sweep now and then. After a
// change, they are read for as long as a commit may need.
func TestFilesAreWatched(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *Service) {
		told, done := s.FilesChanged()
		defer done()
		ctx, stop := context.WithCancel(t.Context())
		ended, changes := make(chan error), make(chan string)
		go func() {
			ended <- s.watchFiles(ctx, func(ctx context.Context, changed func(string)) error {
				for dir := range changes {
					changed(dir)
				}
				return nil
			})
		}()
		count := func(d time.Duration) (n int) {
			for end := time.After(d); ; {
				select {
				case <-told:
					n++
				case <-end:
					return n
				}
			}
		}
		count(time.Minute) // reads because of the start
		if n := count(10 * filesSweep); n != 10 {
			t.Errorf("%d signals in the time of 10 sweeps, without a change", n)
		}
		changes <- s.opts.State
		signalled(t, filesGather, "a change in the state directory", told)
		if n := count(filesAgain); n < 9 {
			t.Errorf("%d signals in %v after a change, want one each second", n, filesAgain)
		}
		count(time.Minute)
		for len(s.paneNews) > 0 {
			<-s.paneNews
		}
		changes <- s.sessions()
		signalled(t, 0, "a change of a session", s.paneNews)
		close(changes) // no more is reported
		count(time.Second)
		if n := count(time.Minute); n < 59 {
			t.Errorf("%d signals in a minute without events, want one each second", n)
		}
		stop()
		must(t, <-ended)
	})
}

// States can change by time alone. They are refreshed from the first watcher on, even if nothing else happens.
func TestStatesAreRefreshedForAStream(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *Service) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.refreshStates(ctx) }()
		time.Sleep(time.Minute)
		shown, done := s.watchStates()
		defer done()
		signalled(t, 3*time.Second, "the states", shown)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
