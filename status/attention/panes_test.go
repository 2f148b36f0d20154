package attention

import (
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/teams/teamstest"
)

// If a person's draft holds a message for two minutes, the pane needs the person.
func TestDraftNeedsThePerson(t *testing.T) {
	t.Parallel()
	w := open(t, teamstest.New(t))
	c, e := New(w.Options), &cachedTeam{}
	held := ledger.PaneMessage{Delivery: ledger.Delivery{State: ledger.Claimed, ID: "held"}, Held: "draft", HeldSince: time.Now().Add(-pane.LongHeld)}
	v := pane.View{Pane: pane.Pane{InboxKey: inbox.InboxKey{Root: w.Fixture.Root.Path(), Team: "tmux", CreatedAt: 1, Inbox: "build"}}, Messages: []ledger.PaneMessage{held}}
	list, err := c.paneWaits(t.Context(), e, []pane.View{v}, time.Now())
	i := slices.IndexFunc(list, func(a api.Attention) bool { return a.Kind == api.WaitsDraft })
	if err != nil || i < 0 || list[i].Message != "held" || list[i].Count != 1 {
		t.Errorf("after two minutes: %+v, %v", list, err)
	}
	list, err = c.paneWaits(t.Context(), e, []pane.View{v}, held.HeldSince)
	if err != nil || len(list) != 0 || !e.due.Equal(held.HeldSince.Add(pane.LongHeld)) {
		t.Errorf("before: %+v, %v; it is read again at %v", list, err, e.due)
	}
}
