package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

func (h *harbour) own() TeamOwner {
	return TeamOwner{Root: h.Root, Ledger: h.ledger, Locker: h.Locker, State: h.State, Handover: time.Millisecond}
}

func (h *harbour) there(team string) bool {
	h.t.Helper()
	_, err := os.Stat(filepath.Join(h.Root.Path(), "teams", team, "config.json"))
	return err == nil
}

// A team of others is never acquired, whatever the ledger has under its name; nor is one
// that a relay serves, whether its process is known or not. Ours is, even if the process
// died right after it had made the team.
func TestAcquire(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	o := h.own()
	made, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work)
	if err != nil || !ours {
		t.Fatalf("made %v, %v", ours, err)
	}
	again, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work)
	if err != nil || !ours || again.CreatedAt != made.CreatedAt {
		t.Errorf("taken again: %+v, %v, %v", again, ours, err)
	}
	if _, ours, err := o.Acquire(t.Context(), "mine", "another", "", h.work); err != nil || ours {
		t.Errorf("for another lead: %v, %v", ours, err)
	}
	h.remove("mine")
	h.Make("mine", made.CreatedAt+1, "lead")
	if _, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); err != nil || ours {
		t.Errorf("made by somebody else: %v, %v", ours, err)
	}
	if _, _, ok, err := o.Of(t.Context(), "mine"); ok || err != nil {
		t.Errorf("it counts as ours, %v", err)
	}
	h.remove("mine")
	if f, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); err != nil || !ours || f.CreatedAt == made.CreatedAt {
		t.Errorf("made again: %+v, %v, %v", f, ours, err)
	}
	if known, err := h.ledger.Teams.List(t.Context(), h.Root.Path(), "mine"); err != nil || len(known) != 1 {
		t.Errorf("known %+v, %v; want the last alone", known, err)
	}

	// A team whose removal was interrupted is acquired again, but only by its own lead.
	config := filepath.Join(h.Root.Path(), "teams", "mine", "config.json")
	must(t, os.Remove(config))
	if _, ours, err := o.Acquire(t.Context(), "mine", "another", "", h.work); ours || !errors.Is(err, teams.ErrTeamGone) {
		t.Errorf("half removed, for another lead: %v, %v", ours, err)
	}
	must(t, os.MkdirAll(filepath.Join(h.Root.Path(), "teams", "torn"), 0o700))
	if _, ours, err := o.Acquire(t.Context(), "torn", "lead", "", h.work); ours || !errors.Is(err, teams.ErrTeamGone) {
		t.Errorf("never made here: %v, %v", ours, err)
	}
	before, err := h.ledger.Teams.List(t.Context(), h.Root.Path(), "mine")
	must(t, err)
	back, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work)
	if err != nil || !ours || len(before) != 1 || back.CreatedAt != before[0].CreatedAt {
		t.Errorf("half removed: %+v, %v, %v; want that of %+v", back, ours, err, before)
	}
	if _, _, ok, err := o.Of(t.Context(), "mine"); !ok || err != nil {
		t.Errorf("it does not count as ours, %v", err)
	}

	// A team that the ledger no longer has is made again if a relay has run in its name, and
	// it is empty.
	must(t, o.Ledger.Teams.Remove(t.Context(), o.record(back)))
	must(t, os.Remove(config))
	if _, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); ours || !errors.Is(err, teams.ErrTeamGone) {
		t.Errorf("forgotten, and no relay has run: %v, %v", ours, err)
	}
	must(t, h.ledger.Sessions.SetSession(t.Context(), ledger.Session{InboxKey: inbox.InboxKey{Root: h.Root.Path(), Team: "mine", CreatedAt: 1, Inbox: "lead"}, ID: "s"}))
	row := filepath.Join(filepath.Dir(config), "inboxes", "lead.json")
	must(t, os.WriteFile(row, []byte("[]"), 0o600))
	if _, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); ours || !errors.Is(err, teams.ErrTeamGone) {
		t.Errorf("forgotten, with an inbox: %v, %v", ours, err)
	}
	must(t, os.Remove(row))
	if _, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); !ours || err != nil {
		t.Errorf("forgotten and empty: %v, %v", ours, err)
	}

	f, stop := h.sail()
	h.until(f, h.add(f, h.entry("mine", "lead")), "idle", state(relay.Idle))
	if _, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); err != nil || ours {
		t.Errorf("while a relay serves it: %v, %v", ours, err)
	}
	must(t, stop())
}

// A relay that was killed while it started a process leaves its lock to that process
// briefly. Its team is acquired again anyway.
func TestAcquireAfterAKill(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	o := h.own()
	made, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work)
	if err != nil || !ours {
		t.Fatalf("made %v, %v", ours, err)
	}
	path := filepath.Join(h.Root.Path(), "teams", "mine", "inboxes", made.Lead+".json")
	release, err := lockedfile.Hold(filepath.Join(h.State, "locks"), "relay\n"+path)
	must(t, err)
	if _, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); err != nil || ours {
		t.Errorf("while a relay serves it: %v, %v", ours, err)
	}
	o.Handover = time.Minute
	released := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { released <- release() })
	if _, ours, err := o.Acquire(t.Context(), "mine", "lead", "", h.work); err != nil || !ours {
		t.Errorf("after the kill: %v, %v", ours, err)
	}
	must(t, <-released)
}

// A team to be removed with its relay is removed when no relay serves it, and stays if
// it has another member, or a relay has been added for it again.
func TestReap(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	o := h.own()
	doomed := func(team string) {
		t.Helper()
		r := h.entry(team, "lead")
		r.Root, r.OwnTeam, r.Member = h.Root.Path(), true, "team-lead"
		r, err := h.ledger.Relays.Add(t.Context(), r)
		must(t, err)
		_, ours, err := o.Acquire(t.Context(), team, "team-lead", "", h.work)
		if must(t, err); !ours {
			t.Fatal("not made")
		}
		d, _, err := o.PendingDelete(t.Context(), r)
		must(t, err)
		must(t, h.ledger.Relays.Remove(t.Context(), r.ID, d))
	}
	doomed("free")
	doomed("inhabited")
	config := filepath.Join(h.Root.Path(), "teams", "inhabited", "config.json")
	data, err := os.ReadFile(config)
	must(t, err)
	must(t, os.WriteFile(config, []byte(string(data[:len(data)-4])+`, {"agentId":"w","name":"w","backendType":"tmux"}]}`), 0o600))
	doomed("wanted")
	if _, ours, err := o.Acquire(t.Context(), "wanted", "team-lead", "", h.work); err != nil || !ours {
		t.Fatal(ours, err)
	}
	var occupied *teams.OccupiedError
	if err := o.Reap(t.Context()); !errors.As(err, &occupied) {
		t.Errorf("got %v, want to be told of who is in it", err)
	}
	if h.there("free") || !h.there("inhabited") || !h.there("wanted") {
		t.Errorf("free %v, inhabited %v, wanted %v; want the first gone", h.there("free"), h.there("inhabited"), h.there("wanted"))
	}
	if err := o.Reap(t.Context()); err != nil {
		t.Errorf("told again: %v", err)
	}
	if _, _, err := o.PendingDelete(t.Context(), ledger.Relay{Root: h.Root.Path(), Team: "wanted", Member: "team-lead"}); !errors.As(err, new(*NotOwnerError)) {
		t.Errorf("for a relay that did not make it: %v", err)
	}
}

// A relay that is added again while the removed one still ends starts right after that,
// and gets the messages that were sent meanwhile.
func TestAddedAgainAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	h.Make("red", 1, "lead")
	f, stop := h.sail()
	first := h.add(f, h.entry("red", "lead"))
	h.until(f, first, "idle", state(relay.Idle))
	h.send("red", "lead", "WAIT:go [m-1]")
	h.until(f, first, "at work", state(relay.Working))
	must(t, f.Remove(t.Context(), first, false))
	second := h.add(f, h.entry("red", "lead"))
	team, err := h.Root.Team("red")
	must(t, err)
	defer team.Close()
	if id, ok, err := f.Serving(t.Context(), team, "lead"); err != nil || !ok || id != second {
		t.Errorf("served by %s, %v, %v; want %s", id, ok, err, second)
	}
	if _, err := prompt(context.Background(), f, second, relay.Input{Text: "[m-2]"}); err != nil {
		t.Error(err)
	}
	must(t, os.WriteFile(filepath.Join(h.script.State, "go"), nil, 0o600))
	s := h.until(f, second, "idle", func(s Status) bool {
		// It may wait briefly: a process that another test is starting has a copy of the lock until its exec.
		if s.Now.State == relay.Stopped && strings.Contains(s.Now.Reason, relay.ErrBusy.Error()) {
			t.Error("it was started beside the other, and is put off")
		}
		return s.Now.State == relay.Idle && !s.Now.LastDone.IsZero()
	})
	if a, b := h.worked("[m-1]"), h.worked("[m-2]"); a != 1 || b != 1 || s.Now.Deaths != 0 {
		t.Errorf("worked on %d and %d times, %+v", a, b, s.Now)
	}
	must(t, stop())
	for _, err := range h.warned {
		t.Errorf("it warned: %v", err)
	}
}
