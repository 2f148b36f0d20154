package fleet

import (
	"errors"
	"path/filepath"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simchild"
	"teambridge/relay/runtimes"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// In a team that was made here, an agent becomes a member once, and leaves when no relay
// serves it or is to run for it. In another team, no agent becomes a member, and agents of
// others never leave.
func TestEnlist(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	o := h.own()
	ctx := t.Context()
	h.Make("theirs", 1, "lead", "w")
	if enlisted, err := o.Enlist(ctx, ledger.Relay{Team: "theirs", Member: "bob", Dir: h.work}); enlisted || err != nil {
		t.Errorf("in a team of somebody else: %v, %v", enlisted, err)
	}
	if enlisted, err := o.Enlist(ctx, ledger.Relay{Team: "nowhere", Member: "bob", Dir: h.work}); enlisted || err != nil {
		t.Errorf("in no team: %v, %v", enlisted, err)
	}
	_, ours, err := o.Acquire(ctx, "mine", "team-lead", "", h.work)
	if must(t, err); !ours {
		t.Fatal("not made")
	}
	in := func(name string) bool {
		t.Helper()
		_, c, _, err := o.Of(ctx, "mine")
		must(t, err)
		m, ok := c.Member(name)
		if ok && m.Guest() {
			t.Errorf("%s counts as a person: %+v", name, m)
		}
		return ok
	}
	for range 2 {
		if enlisted, err := o.Enlist(ctx, ledger.Relay{Team: "mine", Member: "bob", Dir: h.work}); !enlisted || err != nil || !in("bob") {
			t.Errorf("enlisted %v, %v", enlisted, err)
		}
	}
	if enlisted, err := o.Enlist(ctx, ledger.Relay{Team: "mine", Member: "lead", Dir: h.work}); enlisted || err != nil {
		t.Errorf("the lead: %v, %v", enlisted, err)
	}
	if _, err := o.Enlist(ctx, ledger.Relay{Team: "mine", Member: "system", Dir: h.work}); !errors.Is(err, teams.ErrNameTaken) {
		t.Errorf("under a reserved name: %v", err)
	}

	// It stays while a relay serves it, or is to run for it.
	release, err := lockedfile.Hold(filepath.Join(h.State, "locks"), "relay\n"+filepath.Join(h.Root.Path(), "teams", "mine", "inboxes", "bob.json"))
	must(t, err)
	if must(t, o.Dismiss(ctx, "mine", "bob")); !in("bob") {
		t.Error("it left while a relay served it")
	}
	must(t, release())
	r := h.entry("mine", "bob")
	r.Root = h.Root.Path()
	r, err = h.ledger.Relays.Add(ctx, r)
	must(t, err)
	if must(t, o.Dismiss(ctx, "mine", "bob")); !in("bob") {
		t.Error("it left, and a relay is to be run for it")
	}
	must(t, h.ledger.Relays.Remove(ctx, r.ID, nil))
	if must(t, o.Dismiss(ctx, "mine", "bob")); in("bob") {
		t.Error("it has not left")
	}
	must(t, o.Dismiss(ctx, "mine", "bob"))
	if known, err := h.ledger.Teams.Members(ctx, h.Root.Path(), ""); err != nil || len(known) > 0 {
		t.Errorf("known are %+v, %v", known, err)
	}
}

// A team that its lead has given up is removed when the last agent of ours has left it, unless
// it is taken back in the meantime.
func TestTeamWaitsForItsMembers(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	o := h.own()
	ctx := t.Context()
	for _, team := range []string{"left", "back"} {
		f, ours, err := o.Acquire(ctx, team, "team-lead", "", h.work)
		if must(t, err); !ours {
			t.Fatal("not made")
		}
		_, err = o.Enlist(ctx, ledger.Relay{Team: team, Member: "bob", Dir: h.work})
		must(t, err)
		if removed, err := o.Discard(ctx, f); removed || err != nil || !h.there(team) {
			t.Errorf("%s: removed %v, %v", team, removed, err)
		}
		must(t, o.Reap(ctx))
		if team == "back" {
			if _, ours, err := o.Acquire(ctx, team, "team-lead", "", h.work); !ours || err != nil {
				t.Errorf("taken back: %v, %v", ours, err)
			}
		}
		must(t, o.Dismiss(ctx, team, "bob"))
	}
	if h.there("left") || !h.there("back") {
		t.Errorf("left %v, back %v; want the second alone", h.there("left"), h.there("back"))
	}
	known, err := h.ledger.Teams.List(ctx, h.Root.Path(), "")
	if must(t, err); len(known) != 1 || known[0].Team != "back" || known[0].PendingDelete {
		t.Errorf("known are %+v", known)
	}
}

// A team is removed with its members that no relay serves; any other agent keeps it.
func TestDeleteTeamWithMembers(t *testing.T) {
	t.Parallel()
	h := newHarbour(t, simchild.Script{})
	o := h.own()
	ctx := t.Context()
	r := h.entry("mine", "lead")
	r.OwnTeam = true
	a := Admin(o)
	r, _, err := a.Add(ctx, r)
	must(t, err)
	_, _, err = o.Acquire(ctx, "mine", "team-lead", "", h.work)
	must(t, err)
	w, added, err := a.Add(ctx, h.entry("mine", "bob"))
	if err != nil || !added {
		t.Fatal(added, err)
	}
	var occupied *teams.OccupiedError
	if _, err := a.Remove(ctx, r, true); !errors.As(err, &occupied) {
		t.Errorf("with bob in it: %v", err)
	}
	bad := h.entry("mine", "eve")
	bad.Command = []string{"x", string(make([]byte, 200<<10))}
	if _, _, err := a.Add(ctx, bad); !errors.As(err, new(*runtimes.SettingError)) {
		t.Errorf("with too long a command: %v", err)
	}
	if _, c, _, err := o.Of(ctx, "mine"); err != nil || len(c.Members) != 2 {
		t.Errorf("members %+v, %v; want the lead and bob", c.Members, err)
	}
	if _, err := o.Enlist(ctx, ledger.Relay{Team: "mine", Member: "killed", Dir: h.work}); err != nil { // by a run
		t.Error(err)
	}
	_, err = a.Remove(ctx, w, false)
	must(t, err)
	if _, err := a.Remove(ctx, r, true); err != nil || h.there("mine") {
		t.Errorf("%v, there %v", err, h.there("mine"))
	}
	var left []ledger.OwnedMember
	if left, err = h.ledger.Teams.Members(ctx, h.Root.Path(), ""); err != nil || len(left) > 0 {
		t.Errorf("left are %+v, %v", left, err)
	}
}
