package relay

import (
	"fmt"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/relay/claim"
	"teambridge/relay/relaytest/simchild"
)

// A message that the relay has delivered to its agent and then removed from the inbox
// was consumed, even if its sender looks only after that. It is not sent again.
func TestRemovedByTheRelayIsConsumed(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	sender, err := mail.New(t.Context(), mail.Options{Team: s.team, Locker: s.locker, Ledger: s.ledger, From: "worker"})
	must(t, err)
	d, err := sender.Put(t.Context(), "team-lead", mail.Message{Text: "[m-first]"}, inbox.AppendOptions{Track: true})
	must(t, err)
	look := func() (inbox.Fate, bool) {
		t.Helper()
		seen, err := sender.See(t.Context(), d)
		must(t, err)
		fate, err := sender.Look(t.Context(), d, seen)
		if err != nil {
			t.Error(err)
		}
		return fate, d.Tracked.In(seen)
	}
	if fate, _ := look(); fate != inbox.Unconsumed {
		t.Errorf("before the relay runs it is %s", fate)
	}
	_, stop := s.relay(s.options())
	s.settled(1)
	n := 1
	for there := true; there; {
		if n > 4*claim.KeptRows {
			t.Fatalf("after %d messages the relay has removed none", n)
		}
		var texts []string
		for i := range claim.KeptRows / 2 {
			texts = append(texts, fmt.Sprintf("[f-%d-%d]", n, i))
		}
		s.agent().write(texts...) // at once
		n += len(texts)
		s.settled(n)
		var fate inbox.Fate
		if fate, there = look(); fate != inbox.Consumed {
			t.Fatalf("after %d messages it is %s, in the inbox: %v", n, fate, there)
		}
	}
	stop()
	if w := s.works("[m-first]")["[m-first]"]; w != 1 {
		t.Errorf("the agent worked %d times on it", w)
	}
}
