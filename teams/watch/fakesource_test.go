package watch

import (
	"errors"
	"sync"
	"testing"

	"github.com/fsnotify/fsnotify"
)

// fakeSource is the source of the kernel with faults.
type fakeSource struct {
	source
	add  func(dir string) error // nil: the kernel's result
	deaf func(name string) bool // names whose events are dropped; nil: none
	errs chan error             // used instead of the kernel's errors; nil: those of the kernel

	evs chan fsnotify.Event
	end chan struct{}
	run sync.WaitGroup
}

func (s *fakeSource) open() (source, error) {
	var err error
	if s.source, err = openKernel(); err != nil || s.deaf == nil {
		return s, err
	}
	s.evs, s.end = make(chan fsnotify.Event), make(chan struct{})
	from := s.source.events()
	s.run.Go(func() {
		for e := range from {
			if s.deaf(e.Name) {
				continue
			}
			select {
			case s.evs <- e:
			case <-s.end:
			}
		}
	})
	return s, nil
}

func (s *fakeSource) Add(dir string) error {
	if s.add != nil {
		if err := s.add(dir); err != nil {
			return err
		}
	}
	return s.source.Add(dir)
}

func (s *fakeSource) events() <-chan fsnotify.Event {
	if s.evs != nil {
		return s.evs
	}
	return s.source.events()
}

func (s *fakeSource) errors() <-chan error {
	if s.errs != nil {
		return s.errs
	}
	return s.source.errors()
}

func (s *fakeSource) Close() error {
	err := s.source.Close()
	if s.end != nil {
		close(s.end)
		s.run.Wait()
	}
	if s.errs != nil {
		close(s.errs)
	}
	return err
}

// silent is a source that accepts every directory and has no events. It needs no kernel, so the test can control the
// clock.
type silent struct {
	evs  chan fsnotify.Event
	errs chan error
}

func newSilent() *silent { return &silent{make(chan fsnotify.Event), make(chan error)} }

func (s *silent) open() (source, error)         { return s, nil }
func (s *silent) Add(string) error              { return nil }
func (s *silent) Remove(string) error           { return nil }
func (s *silent) Close() error                  { close(s.evs); close(s.errs); return nil }
func (s *silent) events() <-chan fsnotify.Event { return s.evs }
func (s *silent) errors() <-chan error          { return s.errs }

// warnings collects the warnings of a watcher.
type warnings struct {
	mu  sync.Mutex
	all []error
}

func (w *warnings) add(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, err)
}

// only fails unless there was exactly one warning, of this kind.
func (w *warnings) only(t *testing.T, kind error) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) != 1 || !errors.Is(w.all[0], kind) {
		t.Errorf("warnings %q, want one of %v", w.all, kind)
	}
}
