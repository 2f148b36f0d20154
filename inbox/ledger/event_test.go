package ledger

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told returns a line for each event, such as "d1 done" or "relay running 7 s", with the reason at its end.
func told(t *testing.T, l *Ledger, after int64) []string {
	t.Helper()
	list, err := l.Events.After(t.Context(), after, 1000)
	must(t, err)
	lines := []string{}
	for i, e := range list {
		if i > 0 && e.N <= list[i-1].N {
			t.Errorf("event %d after %d", e.N, list[i-1].N)
		}
		line := e.Delivery + " " + string(e.State)
		if e.Delivery == "" {
			line = fmt.Sprintf("relay %s %d %s", e.Relay, e.PID, e.Session)
		}
		if e.Reason != "" {
			line += ": " + e.Reason
		}
		lines = append(lines, line)
	}
	return lines
}

// Every step of a delivery has one event. A step that changes nothing, or is refused, has none.
func TestEventForEachStep(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	claimRows(t, l, "a", "b", "c", "d")
	must(t, l.Deliveries.Claim(t.Context(), aRow("a")))
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "a", "b"))
	must(t, l.Frames.Tried(t.Context(), "f", "s"))
	must(t, l.Frames.Advance(t.Context(), "f", Accepted, ""))
	must(t, l.Frames.Advance(t.Context(), "f", Accepted, ""))
	must(t, l.Frames.Commit(t.Context(), aNudge("n", "f")))
	must(t, l.Frames.Advance(t.Context(), "n", Done, ""))
	if err := l.Frames.Advance(t.Context(), "f", Failed, ""); err == nil {
		t.Error("what was done could fail")
	}
	must(t, l.Deliveries.End(t.Context(), TakenByAgent, "gone", "c"))
	must(t, l.Deliveries.Drop(t.Context(), "d"))
	want := []string{
		"a claimed", "b claimed", "c claimed", "d claimed", "a written", "b written", "a accepted", "b accepted",
		"a cut", "b cut", "a done", "b done", "c taken_by_agent: gone", "d dropped",
	}
	if diff := cmp.Diff(want, told(t, l, 0)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[12:], told(t, l, 12)); diff != "" {
		t.Errorf("events after 12 (-want +got):\n%s", diff)
	}
	list, err := l.Events.After(t.Context(), 0, 1)
	must(t, err)
	e := aRow("a")
	if diff := cmp.Diff([]Event{{N: 1, InboxKey: bob, At: e.At, Delivery: "a", ID: e.ID, From: e.From, State: Claimed, Row: e.Raw}}, list); diff != "" {
		t.Errorf("the first event (-want +got):\n%s", diff)
	}
}

// The events of a relay are those that an observer needs: none for a start, and none for a step that changes nothing.
func TestEventsOfARelay(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	for _, s := range []Session{
		{ID: "s", State: RelayStarting},
		{ID: "s", State: RelayRunning, PID: 7},
		{ID: "s", State: RelayRunning, PID: 7, Command: "claude"},
		{ID: "s2", State: RelayRunning, PID: 7},
		{ID: "s2", State: RelayStarting},
		{ID: "s2", State: RelayBackOff, Reason: "it died"},
		{ID: "s2", State: RelayStarting},
		{ID: "s2", State: RelayRunning, PID: 8},
		{ID: "s2", State: RelayEnded},
		{ID: "s2", State: RelayDead, Dead: "5 deaths", Reason: "5 deaths"},
	} {
		s.InboxKey = bob
		must(t, l.Sessions.SetSession(t.Context(), s))
	}
	want := []string{
		"relay running 7 s", "relay running 7 s2", "relay backing off 0 s2: it died", "relay running 8 s2", "relay ended 0 s2",
		"relay dead 0 s2: 5 deaths",
	}
	if diff := cmp.Diff(want, told(t, l, 0)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Events are pruned by age, and later events of an open delivery have nothing of one that was forgotten.
func TestPruneForgetsEvents(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	claimRows(t, l, "old", "open")
	must(t, l.Deliveries.End(t.Context(), Done, "", "old"))
	_, err := l.Prune(t.Context(), time.Now().Add(time.Hour))
	must(t, err)
	if got := told(t, l, 0); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	must(t, l.Deliveries.Drop(t.Context(), "open"))
	if diff := cmp.Diff([]string{"open dropped"}, told(t, l, 0)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// RelayInfo has the relay's session, its open and failed deliveries, and the frame in flight.
func TestStanding(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, filepath.Join(t.TempDir(), "ledger.db"))
	if _, found, err := l.Sessions.RelayInfo(t.Context(), bob); found || err != nil {
		t.Errorf("found %v, %v in an empty ledger", found, err)
	}
	session := Session{InboxKey: bob, ID: "s", At: monday, State: RelayRunning, PID: 7, Relay: 6}
	must(t, l.Sessions.SetSession(t.Context(), session))
	claimRows(t, l, "a", "b", "c")
	must(t, l.Deliveries.End(t.Context(), Failed, "too large", "c"))
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "a"))
	standing := func(want RelayInfo) {
		t.Helper()
		got, found, err := l.Sessions.RelayInfo(t.Context(), bob)
		must(t, err)
		if diff := cmp.Diff(want, got); !found || diff != "" {
			t.Errorf("found %v (-want +got):\n%s", found, diff)
		}
		all, err := l.Sessions.RelayInfos(t.Context(), bob.Root)
		must(t, err)
		if diff := cmp.Diff([]RelayInfo{want}, all); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
	}
	want := RelayInfo{Session: session, Open: 2, Failed: 1, InFlight: "f"}
	standing(want)
	must(t, l.Frames.Advance(t.Context(), "f", Accepted, ""))
	must(t, l.Sessions.SetSession(t.Context(), session)) // keeps the time of the agent's acknowledgment
	want.Acked = mustFrame(t, l, "f").At
	standing(want)
	must(t, l.Frames.Advance(t.Context(), "f", Done, ""))
	want.Acked, want.Open, want.InFlight = mustFrame(t, l, "f").At, 1, ""
	standing(want)
	if list, err := l.Sessions.RelayInfos(t.Context(), "/elsewhere"); err != nil || len(list) != 0 {
		t.Errorf("elsewhere: %v, %v", list, err)
	}

	d := aRow("a")
	if got, found, err := l.Deliveries.Of(t.Context(), bob, d.Key, d.Occurrence); err != nil || !found || got.UUID != "a" || got.State != Done {
		t.Errorf("the fate of a row: %+v, %v, %v", got, found, err)
	}
	if _, found, err := l.Deliveries.Of(t.Context(), bob, d.Key, d.Occurrence+1); err != nil || found {
		t.Errorf("the fate of another row: %v, %v", found, err)
	}
}
