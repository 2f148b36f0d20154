package relay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/relaytest/simchild"
)

// Finish lets the running turn end, and begins no other. The next relay delivers the waiting messages.
func TestFinish(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	r := s.newRelay(s.options())
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context()) }()
	s.send("WAIT:go [m-1]")
	// Only after the agent has taken the first message is the second one not part of this turn.
	s.until("working", func(st Status) bool { return st.State == Working && st.PID != 0 })
	s.await("the turn runs", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.began
	})
	r.Finish()
	r.Finish() // a second call does nothing
	s.send("[m-2]")
	if _, err := Prompt(t.Context(), s.ledger, r.Key(), Input{Text: "[m-3]"}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("ended in mid-turn: %v", err)
	case <-time.After(50 * time.Millisecond): // it may take as long as it likes
	}
	s.let("go")
	must(t, <-done)
	if got := s.turns(); len(got) != 1 || !strings.Contains(got[0], "[m-1]") {
		t.Errorf("worked on %q, want the first message alone", got)
	}
	session, _, err := s.ledger.Sessions.Session(t.Context(), r.Key())
	if err != nil || session.PID != 0 || session.State != ledger.RelayEnded {
		t.Errorf("session %+v, %v; want ended, without a process", session, err)
	}
	_, stop := s.relay(s.options())
	s.settled(3)
	stop()
	if got := s.works("[m-1]", "[m-2]", "[m-3]"); got["[m-1]"] != 1 || got["[m-2]"] != 1 || got["[m-3]"] != 1 {
		t.Errorf("worked on %v, want each once", got)
	}
}

// An idle relay ends at once.
func TestFinishIdle(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	r := s.newRelay(s.options())
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context()) }()
	s.until("idle", func(st Status) bool { return st.State == Idle })
	r.Finish()
	must(t, <-done)
}

// A relay that was asked to finish begins no turn, even if a message is ready by then.
func TestFinishWithAMessageReady(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	s.send("[m-1]")
	r := s.newRelay(s.options())
	r.Finish()
	must(t, r.Run(t.Context()))
	if got := s.turns(); len(got) != 0 {
		t.Errorf("worked on %q", got)
	}
	_, stop := s.relay(s.options())
	s.settled(1)
	stop()
	if got := s.works("[m-1]")["[m-1]"]; got != 1 {
		t.Errorf("the next relay worked on it %d times, want once", got)
	}
}

// Run neither takes nor releases locks that its caller holds.
func TestHeld(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	held, err := Hold(t.Context(), opts.State, s.team, "team-lead", opts.Timing.Handover)
	must(t, err)
	opts.Held = held
	s.send("[m-1]")
	_, stop := s.relay(opts)
	s.settled(1)
	stop()
	if _, err := Hold(t.Context(), opts.State, s.team, "team-lead", time.Millisecond); !errors.Is(err, ErrBusy) {
		t.Errorf("after the relay has ended: %v, want ErrBusy", err)
	}
	must(t, held.Release())
	held, err = Hold(t.Context(), opts.State, s.team, "team-lead", opts.Timing.Handover)
	must(t, err)
	if err := held.Release(); err != nil {
		t.Error(err)
	}
}

// A relay without a handoff takes the session for good: the ledger no longer has it at a terminal, and the relay
// warns of the draft at its prompt.
func TestRelayKeepsTheSession(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	r := s.newRelay(s.options())
	must(t, s.ledger.Sessions.SetHandoff(t.Context(), ledger.Handoff{InboxKey: r.Key(), At: ledger.AtTerminal, Draft: "half a thought"}))
	stop := s.run(r)
	s.until("idle", func(st Status) bool { return st.State == Idle })
	stop()
	if h, found, err := s.ledger.Sessions.Handoff(t.Context(), r.Key()); err != nil || found {
		t.Errorf("handoff %+v, %v; want none", h, err)
	}
	if len(s.warned) != 1 || !strings.Contains(s.warned[0].Error(), `"half a thought"`) {
		t.Errorf("warnings %v, want the draft", s.warned)
	}
}
