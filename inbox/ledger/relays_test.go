package ledger

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"time"
)

// Recorded relays are there for the next process, and a member has at most one.
func TestRelaysToBeRun(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	wantRelays(t, l)
	first := aRelay()
	_, err := l.Relays.Add(t.Context(), first)
	must(t, err)
	second := Relay{Root: "/r", Team: "blue", Member: "alice", Command: []string{"claude"}, Dir: "/"}
	second, err = l.Relays.Add(t.Context(), second)
	must(t, err)
	if second.ID == "" || time.Since(second.Created) > time.Minute {
		t.Errorf("added %+v", second)
	}
	elsewhere := aRelay()
	elsewhere.ID, elsewhere.Root = "", "/elsewhere"
	_, err = l.Relays.Add(t.Context(), elsewhere)
	must(t, err)

	again := aRelay()
	again.ID = ""
	if _, err := l.Relays.Add(t.Context(), again); !errors.Is(err, ErrConflict) {
		t.Errorf("a second one for a member: %v", err)
	}
	again.ID, again.Member = first.ID, "carol"
	if _, err := l.Relays.Add(t.Context(), again); !errors.Is(err, ErrConflict) {
		t.Errorf("a second one of an id: %v", err)
	}
	for _, bad := range []func(*Relay){
		func(r *Relay) { r.Team = "" },
		func(r *Relay) { r.Dir = "" },
		func(r *Relay) { r.Command = nil },
		func(r *Relay) { r.Runtime, r.Command = "opencode", []string{""} },
		func(r *Relay) { r.Profile = strings.Repeat("x", maxCommand) },
		func(r *Relay) { r.Command = []string{strings.Repeat("x", maxCommand)} },
	} {
		r := aRelay()
		r.ID, r.Member = "", "dave"
		bad(&r)
		if _, err := l.Relays.Add(t.Context(), r); !errors.As(err, new(*ValueError)) {
			t.Errorf("%+v: %v", r, err)
		}
	}

	other := mustOpen(t, path)
	wantRelays(t, other, first, second)
	must(t, other.Relays.Remove(t.Context(), first.ID, nil))
	if err := l.Relays.Remove(t.Context(), first.ID, nil); !errors.Is(err, ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
	wantRelays(t, l, second)
}

// Revive lets a relay that gave up be tried again.
func TestRevive(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	must(t, l.Sessions.Revive(t.Context(), bob)) // no session of bob is recorded
	must(t, l.Sessions.SetSession(t.Context(), aSession()))
	must(t, l.Sessions.Revive(t.Context(), bob))
	s, _, err := l.Sessions.Session(t.Context(), bob)
	must(t, err)
	want := aSession()
	want.Dead = ""
	if !cmp.Equal(s, want) {
		t.Errorf("got %+v, want %+v", s, want)
	}
}

// A team that was made is recorded until it is forgotten. Removing its relay can mark it for deletion, and does both
// or neither.
func TestFoundings(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	f := aFounding()
	must(t, l.Teams.Add(t.Context(), f))
	younger := f
	younger.CreatedAt, younger.Leaders = 8, nil
	must(t, l.Teams.Add(t.Context(), younger))
	f.Leaders = []string{"7 8 9 host"}
	must(t, l.Teams.Add(t.Context(), f)) // acquired again
	elsewhere := f
	elsewhere.Root = "/s"
	must(t, l.Teams.Add(t.Context(), elsewhere))
	wantFoundings(t, l, younger, f)
	if got, err := l.Teams.List(t.Context(), "/r", "another"); err != nil || len(got) > 0 {
		t.Errorf("of another team: %v, %v", got, err)
	}

	r, err := l.Relays.Add(t.Context(), ownRelay())
	must(t, err)
	unknown := f
	unknown.CreatedAt = 9
	if err := l.Relays.Remove(t.Context(), r.ID, &unknown); !errors.Is(err, ErrUnknown) {
		t.Errorf("with a team that we did not make: %v, want ErrUnknown", err)
	}
	wantRelays(t, l, r)
	must(t, l.Relays.Remove(t.Context(), r.ID, &f))
	wantRelays(t, l)
	f.PendingDelete = true
	wantFoundings(t, l, younger, f)
	must(t, l.Teams.Remove(t.Context(), f))
	must(t, l.Teams.Remove(t.Context(), f))
	wantFoundings(t, l, younger)
	if err := l.Teams.Add(t.Context(), OwnedTeam{Root: "/r", Team: "x"}); err == nil {
		t.Error("one without a lead was recorded")
	}
}

func aRelay() Relay {
	return Relay{
		ID: "5f3c6f5e-1111-4222-8333-123456789abc", Root: "/r", Team: "blue", Member: "bob", Command: []string{"claude", "--model", "a b"},
		Plain: true, Dir: "/home/dev", OnCut: "report", Permissions: "allow=Read", Mode: []byte(`{"model":"sonnet"}`), Created: monday,
	}
}

func ownRelay() Relay {
	r := aRelay()
	r.ID, r.Team, r.Member, r.OwnTeam, r.Created = "own", "ours", "boss", true, tuesday
	r.Runtime, r.Command, r.URL, r.PasswordFile, r.Profile = "opencode", nil, "http://127.0.0.1:4096", "/home/dev/password", "reviewer"
	return r
}

func aFounding() OwnedTeam {
	return OwnedTeam{Root: "/r", Team: "ours", CreatedAt: 7, Lead: "boss", Session: "s-1", Leaders: []string{"1 2 3 host", "4 5 6 host"}}
}

func wantRelays(t *testing.T, l *Ledger, want ...Relay) {
	t.Helper()
	got, err := l.Relays.List(t.Context(), "/r")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("relays (-want +got):\n%s", diff)
	}
}

func wantFoundings(t *testing.T, l *Ledger, want ...OwnedTeam) {
	t.Helper()
	got, err := l.Teams.List(t.Context(), "/r", "")
	must(t, err)
	for i := range got {
		got[i].At = time.Time{} // taken from the clock
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owned_teams (-want +got):\n%s", diff)
	}
}
