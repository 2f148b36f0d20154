package relay

import (
	"context"
	"sync/atomic"
	"testing"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/relaytest/simchild"
)

// starting calls before with the session of each agent that is about to be started.
type starting struct {
	agent.Runtime
	before func(session string)
}

func (s starting) Start(ctx context.Context, session string, m mode.Mode) (agent.Agent, error) {
	s.before(session)
	return s.Runtime.Start(ctx, session, m)
}

// A session is in the ledger before its agent is started, so that after a crash in between, the next relay knows the
// session.
func TestSessionIsRecordedFirst(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	var r *Relay
	opts.Runtime = starting{opts.Runtime, func(session string) {
		if recorded, _, err := s.ledger.Sessions.Session(t.Context(), r.Key()); err != nil || recorded.ID != session {
			t.Errorf("session %s is started, and the ledger has %q, %v", session, recorded.ID, err)
		}
	}}
	var err error
	if r, err = New(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	stop := s.run(r)
	s.until("idle", func(st Status) bool { return st.State == Idle })
	stop()
}

// movable is a runtime whose conversation a person has moved to another process, which ends on request.
type movable struct {
	starting
	now  string
	held *atomic.Bool
}

func (m movable) Moved(session string) (now, holder string) {
	if m.held.Load() {
		holder = "process 7 has it"
	}
	return m.now, holder
}

// A conversation that runs in the background is not resumed a second time. Messages wait, and then it is resumed
// under its new id.
func TestConversationIsElsewhere(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	const now = "0a2fe69c-0000-4000-8000-000000000001"
	var held atomic.Bool
	held.Store(true)
	opts.Runtime = movable{starting{opts.Runtime, func(session string) {
		if held.Load() || session != now {
			t.Errorf("session %s is started, held: %t", session, held.Load())
		}
	}}, now, &held}
	r, stop := s.relay(opts)
	s.send("[m-1]")
	s.until("waiting", func(st Status) bool { return st.State == Waiting && st.Reason == "process 7 has it" })
	held.Store(false)
	if d := s.settled(1)[0]; d.State != ledger.Done {
		t.Errorf("%s (%s), want done", d.State, d.Reason)
	}
	if recorded, _, err := s.ledger.Sessions.Session(t.Context(), r.Key()); err != nil || recorded.ID != now {
		t.Errorf("the ledger has %q, %v", recorded.ID, err)
	}
	stop()
}
