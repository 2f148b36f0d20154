package fleet

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/runtimes"
	"teambridge/teams"
)

// A member has one relay, whichever of its names is used, and the same relay is added once.
func TestAddIsForAMember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := teams.Open(dir)
	must(t, err)
	defer root.Close()
	l, err := ledger.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	must(t, err)
	defer l.Close()
	admin := Admin{Root: root, Ledger: l}
	of := func(member, mode string) ledger.Relay {
		return ledger.Relay{Team: "later", Member: member, Command: []string{"agent"}, Dir: dir, OnCut: "nudge", Permissions: "deny", Mode: []byte(mode)}
	}
	first, added, err := admin.Add(t.Context(), of("lead", `{"model":"a","permissionMode":"plan"}`))
	if err != nil || !added {
		t.Fatalf("added %t, %v", added, err)
	}
	again, added, err := admin.Add(t.Context(), of("team-lead", `{"permissionMode":"plan", "model":"a"}`))
	if err != nil || added || again.ID != first.ID {
		t.Errorf("the same one by another name: %+v, added %t, %v; want %s", again, added, err, first.ID)
	}
	other := of("team-lead", "")
	other.Command = []string{"agent", "--verbose"}
	_, _, err = admin.Add(t.Context(), other)
	exists, ok := errors.AsType[*ExistsError](err)
	if !ok || !errors.Is(err, ledger.ErrConflict) || exists.Relay.ID != first.ID || !slices.Equal(exists.Differ, []string{"command", "mode"}) {
		t.Errorf("another one: %v, want one that differs in command and mode", err)
	}
	other.Command = []string{"agent", "caf\xe9"} // JSON would change it
	if _, _, err := admin.Add(t.Context(), other); !errors.As(err, new(*runtimes.SettingError)) {
		t.Errorf("a command that is not UTF-8: %v", err)
	}
	if _, added, err := admin.Add(t.Context(), of("worker", "")); err != nil || !added {
		t.Errorf("another member: added %t, %v", added, err)
	}
}
