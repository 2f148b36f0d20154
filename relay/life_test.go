package relay

import (
	"context"
	"testing"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/sim/simchild"
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

// A session is in the ledger before its agent is started, so that a crash in between leaves none that the next relay does
// not know.
func TestSessionIsRecordedFirst(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	var r *Relay
	opts.Runtime = starting{opts.Runtime, func(session string) {
		if recorded, _, err := s.ledger.Session(t.Context(), r.Key()); err != nil || recorded.ID != session {
			t.Errorf("session %s is started, and the ledger has %q, %v", session, recorded.ID, err)
		}
	}}
	var err error
	if r, err = New(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	stop := s.run(r)
	s.until("idle", func(st Status) bool { return st.State == Idle })
	if err := stop(); err != nil {
		t.Error(err)
	}
}
