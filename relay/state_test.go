package relay

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simchild"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

func (s *station) config() *teams.Config {
	s.t.Helper()
	c, err := s.team.Config(s.t.Context())
	must(s.t, err)
	return c
}

// outside returns the state of the lead's relay for another process.
func (s *station) outside() (Info, bool) {
	s.t.Helper()
	o, found, err := Stat(s.t.Context(), s.ledger, s.options().State, s.team, s.config(), "team-lead")
	must(s.t, err)
	return o, found
}

func (s *station) reach(member string) teams.Deliverability {
	s.t.Helper()
	f, err := Facts(s.t.Context(), s.ledger, s.options().State, s.team, s.config(), member)
	must(s.t, err)
	return s.config().Deliverability(member, f)
}

// happened returns the events of the ledger, without pids and sessions.
func (s *station) happened() (list []string) {
	s.t.Helper()
	events, err := s.ledger.Events.After(s.t.Context(), 0, 10000)
	must(s.t, err)
	for _, e := range events {
		list = append(list, string(e.State)+string(e.Relay))
	}
	return list
}

// Other processes see the state of a relay while it works, is idle, has ended, or was
// killed, and whether a message will be read.
func TestSeenFromOutside(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	if o, found := s.outside(); found {
		t.Errorf("before it ever ran: %+v", o)
	}
	if r := s.reach("team-lead"); r != teams.Reachable {
		t.Errorf("before it ever ran: %s", r)
	}
	_, stop := s.relay(s.options())
	s.until("idle", func(st Status) bool { return st.State == Idle })
	o, _ := s.outside()
	if !o.Running || o.State != Idle || o.Relay != os.Getpid() || o.PID == 0 || o.Session == "" || !o.LastAck.IsZero() {
		t.Errorf("idle: %+v", o)
	}
	if r := s.reach("team-lead"); r != teams.Reachable {
		t.Errorf("while it runs: %s", r)
	}
	s.send("WAIT:go [m-1]", "[m-2]")
	s.until("working", func(st Status) bool { return st.State == Working && st.Queue == 2 })
	if o, _ := s.outside(); o.State != Working || o.Queue != 2 {
		t.Errorf("working: %+v", o)
	}
	agent, err := os.FindProcess(o.PID) // it may not have logged anything yet
	must(t, err)
	must(t, agent.Kill())
	s.let("go")
	s.settled(2)
	stop()
	o, _ = s.outside()
	if o.Running || o.State != Stopped || o.Reason != "" || o.PID != 0 || o.LastAck.IsZero() || o.Queue != 0 {
		t.Errorf("ended: %+v", o)
	}
	if r := s.reach("team-lead"); r != teams.NoRelay {
		t.Errorf("ended: %s, want %s", r, teams.NoRelay)
	}
	if r := s.reach("worker"); r != teams.Reachable {
		t.Errorf("a member that was never relayed to: %s", r)
	}
	got := s.happened()
	for _, once := range []string{"backing off", "ended"} {
		if n := strings.Count(strings.Join(got, "\n"), once); n != 1 {
			t.Errorf("%q happened %d times, want once: %q", once, n, got)
		}
	}
	if n := len(got) - len(slices.DeleteFunc(slices.Clone(got), func(e string) bool { return e == "running" })); n != 2 {
		t.Errorf("an agent was started %d times, want 2: %q", n, got)
	}

	// As after kill -9: its end is not recorded.
	session, _, err := s.ledger.Sessions.Session(t.Context(), o.InboxKey)
	must(t, err)
	session.State, session.PID = ledger.RelayRunning, 1
	must(t, s.ledger.Sessions.SetSession(t.Context(), session))
	if o, _ := s.outside(); o.Running || o.State != Stopped || o.Relay != 0 || !strings.Contains(o.Reason, "gone") {
		t.Errorf("killed: %+v", o)
	}
}

func TestDeadSeenFromOutside(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Start, Do: simchild.Exit}}})
	opts := s.options()
	opts.Timing = patient
	r := s.newRelay(opts)
	if err := r.Run(t.Context()); !errors.Is(err, ErrDead) {
		t.Fatalf("got %v, want ErrDead", err)
	}
	if o, found := s.outside(); !found || o.State != Dead || o.Running || o.Reason == "" {
		t.Errorf("seen %v as %+v", found, o)
	}
	got := s.happened()
	want := append(slices.Repeat([]string{"running", "backing off"}, MaxStarts-1), "running", "dead")
	if !slices.Equal(got, want) {
		t.Errorf("happened %q, want %q", got, want)
	}
}

// A later member under the name of a relayed one, and a lead whose own process runs,
// are not headless.
func TestNotHeadlessAnyMore(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	session := ledger.Session{At: time.UnixMilli(1795196213317)}
	c, team := s.config(), s.team
	if !headless(team, c, "worker", session) || !headless(team, c, "team-lead", session) {
		t.Error("members that were relayed to are not headless")
	}
	for i := range c.Members {
		c.Members[i].JoinedAt = session.At.Add(time.Second)
	}
	if headless(team, c, "worker", session) {
		t.Error("a member of the same name that came later is headless")
	}
	if headless(team, c, "nobody", session) {
		t.Error("who is no member is headless")
	}
}

// The state of a movable session has its place, what holds it, and that messages wait for
// it; after a kill of its launcher, it says how to go on.
func TestSeenWhereASessionIs(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	key := inbox.KeyOf(s.team, s.config(), "team-lead")
	record := func(state ledger.RelayState, h ledger.Handoff) {
		t.Helper()
		h.InboxKey = key
		err := errors.Join(
			s.ledger.Sessions.SetSession(t.Context(), ledger.Session{InboxKey: key, ID: "s", State: state, Relay: os.Getpid(), Mode: []byte{}}),
			s.ledger.Sessions.SetHandoff(t.Context(), h))
		must(t, err)
	}
	box := filepath.Join(s.team.Path(), "inboxes", "team-lead.json")
	dir, name := lockOf(s.options().State, box)
	release, err := lockedfile.HoldWithin(t.Context(), 0, dir, name)
	must(t, err)
	held := ledger.Handoff{At: ledger.AtTerminal, To: ledger.AtRelay, Reason: "a draft is at the prompt"}
	for _, tc := range []struct {
		recorded ledger.RelayState
		handoff  ledger.Handoff
		want     State
		reach    teams.Deliverability
	}{
		{ledger.RelayLocal, held, ledger.RelayLocal, teams.AtTerminal},
		{ledger.RelaySwitching, held, ledger.RelaySwitching, teams.Reachable},
		{ledger.RelayRunning, ledger.Handoff{At: ledger.AtRelay}, Idle, teams.Reachable},
	} {
		record(tc.recorded, tc.handoff)
		o, found := s.outside()
		if !found || !o.Running || o.State != tc.want || o.Handoff == nil || o.Handoff.At != tc.handoff.At || o.Handoff.To != tc.handoff.To || o.Handoff.Reason != tc.handoff.Reason {
			t.Errorf("%s: %+v, want %s and %+v", tc.recorded, o, tc.want, tc.handoff)
		}
		if r := s.reach("team-lead"); r != tc.reach {
			t.Errorf("%s: %s, want %s", tc.recorded, r, tc.reach)
		}
	}
	record(ledger.RelayLocal, held)
	must(t, release())
	if o, _ := s.outside(); o.State != Stopped || o.Handoff != nil || !strings.Contains(o.Reason, "run it again") {
		t.Errorf("killed: %+v", o)
	}
	if r := s.reach("team-lead"); r != teams.NoRelay {
		t.Errorf("killed: %s, want %s", r, teams.NoRelay)
	}
}
