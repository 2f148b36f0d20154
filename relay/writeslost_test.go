package relay

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/relaytest/simchild"
)

// An agent whose disk is full exits with status 0, and its turn is not in the transcript. No message is run again on
// the resumed session, and the reason names the disk.
func TestWritesLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		at   simchild.Point // of the exit
		want ledger.DeliveryState
		runs int
	}{
		"after the turn":                 {simchild.Ended, ledger.Done, 1},
		"between the result and the end": {simchild.Answered, ledger.Done, 1},
		"in the turn":                    {simchild.Echoed, ledger.Failed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStation(t, simchild.Script{Faults: []simchild.Fault{
				{At: simchild.Read, Do: simchild.Full, Match: "[m-1]", Times: 1}, {At: test.at, Do: simchild.Quit, Match: "[m-1]", Times: 1},
			}})
			s.send("[m-1]")
			_, stop := s.relay(s.options())
			s.until("backing off", func(st Status) bool { return st.State == BackOff && strings.Contains(st.Reason, agent.LostWrites) })
			s.send("[m-2]")
			all := s.settled(2)
			if all[0].State != test.want || all[1].State != ledger.Done {
				t.Errorf("the messages are %s (%s) and %s, want %s and done", all[0].State, all[0].Reason, all[1].State, test.want)
			}
			if n := s.works("[m-1]", "[m-2]"); n["[m-1]"] != test.runs || n["[m-2]"] != 1 {
				t.Errorf("worked on %v, want [m-1] %d times and [m-2] once", n, test.runs)
			}
			o, _ := s.outside()
			if !strings.Contains(o.Reason, "ENOSPC") || !strings.Contains(o.Reason, filepath.Join(s.dir, "root")) {
				t.Errorf("another process sees the reason %q, want the error and the directory", o.Reason)
			}
			stop() // the next agent could write all
			if o, _ := s.outside(); o.Reason != "" {
				t.Errorf("with room again the reason is %q, want none", o.Reason)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if !slices.ContainsFunc(s.warned, func(err error) bool { return strings.Contains(err.Error(), agent.LostWrites) }) {
				t.Errorf("warned of %v, want what was lost", s.warned)
			}
		})
	}
}

// The disk is also named when the agent is ended with its relay.
func TestWritesLostAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Read, Do: simchild.Full}}})
	s.send("[m-1]")
	_, stop := s.relay(s.options())
	s.settled(1)
	stop()
	if o, _ := s.outside(); o.State != Stopped || !strings.Contains(o.Reason, "ENOSPC") {
		t.Errorf("another process sees %s (%s), want the error", o.State, o.Reason)
	}
}

// The disk is also named when a change of the mode restarts the agent.
func TestWritesLostAtAChangeOfMode(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Read, Do: simchild.Full, Match: "[m-1]", Times: 1}}})
	s.send("[m-1]")
	r, stop := s.relay(s.options())
	s.settled(1)
	s.prompt(r, Input{Text: "[m-2]", Mode: plan()})
	s.settled(2)
	stop()
	s.once("[m-1]", "[m-2]")
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.warned, func(err error) bool { return strings.Contains(err.Error(), "ENOSPC") }) {
		t.Errorf("warned of %v, want the error", s.warned)
	}
}
