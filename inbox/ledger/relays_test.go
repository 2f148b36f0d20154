package ledger

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"time"
)

// Relays that are to be run are there for the next process; a member has one.
func TestRelaysToBeRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	wantRelays(t, l)
	first := aRelay()
	_, err := l.AddRelay(t.Context(), first)
	must(t, err)
	second := Relay{Root: "/r", Team: "blue", Member: "alice", Command: []string{"claude"}, Dir: "/"}
	second, err = l.AddRelay(t.Context(), second)
	must(t, err)
	if second.ID == "" || time.Since(second.Created) > time.Minute {
		t.Errorf("added %+v", second)
	}
	elsewhere := aRelay()
	elsewhere.ID, elsewhere.Root = "", "/elsewhere"
	_, err = l.AddRelay(t.Context(), elsewhere)
	must(t, err)

	again := aRelay()
	again.ID = ""
	if _, err := l.AddRelay(t.Context(), again); !errors.Is(err, ErrConflict) {
		t.Errorf("a second one for a member: %v", err)
	}
	again.ID, again.Member = first.ID, "carol"
	if _, err := l.AddRelay(t.Context(), again); !errors.Is(err, ErrConflict) {
		t.Errorf("a second one of an id: %v", err)
	}
	for _, bad := range []func(*Relay){
		func(r *Relay) { r.Team = "" },
		func(r *Relay) { r.Dir = "" },
		func(r *Relay) { r.Command = nil },
		func(r *Relay) { r.Command = []string{strings.Repeat("x", maxCommand)} },
	} {
		r := aRelay()
		r.ID, r.Member = "", "dave"
		bad(&r)
		if _, err := l.AddRelay(t.Context(), r); !errors.As(err, new(*ValueError)) {
			t.Errorf("%+v: %v", r, err)
		}
	}

	other := mustOpen(t, path)
	wantRelays(t, other, first, second)
	must(t, other.RemoveRelay(t.Context(), first.ID))
	if err := l.RemoveRelay(t.Context(), first.ID); !errors.Is(err, ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	wantRelays(t, l, second)
}

// A relay that gave up is tried again when that is said, by whoever.
func TestRevive(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	must(t, l.Revive(t.Context(), bob)) // of whom nothing is known
	must(t, l.SetSession(t.Context(), aSession()))
	must(t, l.Revive(t.Context(), bob))
	s, _, err := l.Session(t.Context(), bob)
	must(t, err)
	want := aSession()
	want.Dead = ""
	if !cmp.Equal(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}
