package lockedfile

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

func TestHoldName(t *testing.T) {
	t.Parallel()
	key := t.TempDir() // used by no other process
	release, err := HoldName(t.Context(), time.Minute, key)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	must(t, err)
	for range 3 {
		_, err = HoldName(t.Context(), 0, key)
		if locked, ok := errors.AsType[*LockedError](err); !ok || locked.PID != os.Getpid() {
			t.Errorf("held by us: %+v (%v)", locked, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := HoldName(ended, time.Hour, key); !errors.Is(err, ErrLocked) {
		t.Errorf("with a context that has ended: %v", err)
	}
	other, err := HoldName(t.Context(), 0, key+"x")
	if err != nil {
		t.Errorf("another name: %v", err)
	} else if err := other(); err != nil {
		t.Error(err)
	}
	type held struct {
		release func() error
		err     error
	}
	next := make(chan held)
	go func() {
		release, err := HoldName(t.Context(), time.Minute, key)
		next <- held{release, err}
	}()
	if err := release(); err != nil {
		t.Error(err)
	}
	if h := <-next; h.err != nil {
		t.Error(h.err)
	} else if err := h.release(); err != nil {
		t.Error(err)
	}
}
