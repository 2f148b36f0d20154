package ledger

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The members that this program added are kept by team and name. Removing a relay marks its member in the same
// commit, and a member that has been marked since is not forgotten.
func TestOwnedMembers(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	ctx := t.Context()
	bob := OwnedMember{Root: "/r", Team: "ours", CreatedAt: 7, Member: "bob", AgentID: "bob@ours", JoinedAt: monday}
	eve := OwnedMember{Root: "/r", Team: "ours", CreatedAt: 7, Member: "eve", AgentID: "eve@ours", JoinedAt: tuesday}
	elsewhere := bob
	elsewhere.Root = "/q"
	for _, m := range []OwnedMember{eve, bob, elsewhere} {
		must(t, l.Teams.AddMember(ctx, m))
	}
	want := func(want ...OwnedMember) {
		t.Helper()
		got, err := l.Teams.Members(ctx, "/r", "ours")
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("members (-want +got):\n%s", diff)
		}
	}
	want(bob, eve)
	bob.JoinedAt = tuesday // added again
	must(t, l.Teams.AddMember(ctx, bob))
	want(bob, eve)

	r, err := l.Relays.Add(ctx, aRelay())
	must(t, err)
	must(t, l.Relays.Remove(ctx, r.ID, nil, bob))
	must(t, l.Teams.RemoveMember(ctx, bob)) // has no effect: bob has been marked since
	bob.PendingDelete = true
	want(bob, eve)
	must(t, l.Teams.RemoveMember(ctx, bob))
	must(t, l.Teams.RemoveMember(ctx, bob))
	want(eve)
	if none, err := l.Teams.Members(ctx, "/r", "another"); err != nil || len(none) > 0 {
		t.Errorf("of another team %v, %v", none, err)
	}
	if err := l.Teams.AddMember(ctx, OwnedMember{Root: "/r", Team: "ours"}); err == nil {
		t.Error("a member without a name was added")
	}
}
