package relay

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/relaytest/simchild"
)

// An agent that dies of every frame is given up like one that does not start. It does
// not use up all waiting messages, with three deaths for each frame.
func TestAgentThatDiesOfEveryFrame(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Faults: []simchild.Fault{{At: simchild.Read, Do: simchild.Die}}})
	s.send("[m-1]")
	r := s.newRelay(s.options())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	s.until("at work", func(st Status) bool { return st.InFlight != "" })
	s.agent().write("[m-2]", "[m-3]") // at once: the agent dies of one of them as fast as of both
	s.until("dead", func(st Status) bool { return st.State == Dead })
	if err := <-done; !errors.Is(err, ErrDead) {
		t.Fatalf("got %v, want ErrDead", err)
	}
	all := s.settled(1)
	for i, d := range all {
		if want := i == 0; d.State.Ended() != want {
			t.Errorf("delivery %d is %s (%s); want the first given up, and the others kept", i+1, d.State, d.Reason)
		}
	}
	if st := r.Status(); len(all) != 3 || st.Deaths != MaxStarts {
		t.Errorf("%d deliveries, status %+v; want 3 and %d deaths", len(all), st, MaxStarts)
	}
}

// A message that another process puts back into the queue is sent by the running relay,
// even if the inbox does not change.
func TestRetryIsNoticed(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	_, stop := s.relay(s.options())
	s.send("[m-1]")
	d := s.settled(1)[0]
	l, err := ledger.Open(t.Context(), filepath.Join(s.dir, "state", "ledger.db"))
	must(t, err)
	defer l.Close()
	again := ledger.Delivery{UUID: uuid.NewString(), InboxKey: d.InboxKey, Raw: []byte("[m-2]"), Person: true, Kind: "message", Marked: true, State: ledger.Claimed}
	must(t, l.Deliveries.Claim(t.Context(), again))
	if all := s.settled(2); all[1].State != ledger.Done {
		t.Errorf("put back: %s (%s), want done", all[1].State, all[1].Reason)
	}
	stop()
}

// another is a runtime that does not know earlier frames.
type another struct{ agent.Runtime }

func (another) Frame([]byte) (agent.Frame, error) {
	return agent.Frame{}, errors.New("no message of ours")
}

// A message that an agent of another runtime got may have been worked on. The member's new
// agent does not get it, but gets the messages after it.
func TestFrameOfAnotherRuntime(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	runtime := opts.Runtime
	opts.Runtime = another{runtime}
	r, stop := s.relay(opts)
	s.prompt(r, Input{Text: "[m-1]"})
	if d := s.settled(1)[0]; d.State != ledger.Failed || !strings.Contains(d.Reason, "another program") {
		t.Errorf("%s (%s), want failed", d.State, d.Reason)
	}
	s.until("idle", func(st Status) bool { return st.State == Idle && st.Queue == 0 })
	stop()
	opts.Runtime = runtime
	_, stop = s.relay(opts)
	s.send("[m-2]")
	if d := s.settled(2)[1]; d.State != ledger.Done {
		t.Errorf("%s (%s), want done", d.State, d.Reason)
	}
	stop()
	if got := strings.Join(s.worked(), ", "); !strings.Contains(got, "[m-2]") || strings.Contains(got, "[m-1]") {
		t.Errorf("worked on %s", got)
	}
}
