package reply

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/relaytest/simchild"
)

func (s *station) held() []ledger.Hold {
	s.t.Helper()
	holds, err := s.ledger.Holds.Held(s.t.Context(), s.key("worker"))
	must(s.t, err)
	return holds
}

// Two agents that answer each other for ever are held: messages sent for an agent count as its
// own.
func TestEndlessAnswersAreHeld(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	began := time.Now()
	opts.Now = func() time.Time { return began } // on a busy machine it could take longer than the limit of the hold
	r, err := New(t.Context(), opts)
	must(t, err)
	s.run(r)
	const most = relay.MaxExchanges - 1 // the first message is no answer
	for n := range most {
		s.Send("demo", "boss", "worker", fmt.Sprintf("[%d]", n))
		s.settled(n + 1)
	}
	s.Send("demo", "boss", "worker", "[one more]")
	s.await("boss is held", func() bool { h := s.held(); return len(h) == 1 && h[0].Sender == "boss" })
	if n := len(s.rows("boss")); n != most {
		t.Errorf("boss got %d answers, want %d", n, most)
	}
	s.Send("demo", "peer", "worker", "[others]")
	s.settled(most + 1)
}

// A lead that gets nothing but idle notifications is not held.
func TestIdleNotificationsAreNoAnswers(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{Scenes: []simchild.Scene{{Match: "[empty]"}}})
	s.relay()
	n := relay.MaxExchanges + 5
	for i := range n {
		s.Send("demo", "boss", "worker", []string{"FAIL", "[empty]"}[i%2])
		s.settled(i + 1)
	}
	if h := s.held(); len(h) > 0 {
		t.Errorf("held are %+v", h)
	}
	rows := s.rows("boss")
	for _, row := range rows {
		if row.Kind() != idleKind {
			t.Errorf("boss got %q", row.Text)
		}
	}
	if len(rows) != n {
		t.Errorf("boss got %d rows, want %d", len(rows), n)
	}
}

// A lead does not answer the idle notifications of its members: they would thank each other
// for ever.
func TestLeadDoesNotAnswerIdleNotifications(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	opts.Member = "boss"
	r, err := New(t.Context(), opts)
	must(t, err)
	s.run(r)
	for i, text := range []string{`{"type":"idle_notification","from":"worker","idleReason":"available","result":"done"}`, "a question"} {
		_, err := s.Inbox("demo", "boss").Append(t.Context(), inbox.Message{From: "worker", Text: text, Own: true}, inbox.AppendOptions{})
		must(t, err)
		s.await("it is answered", func() bool {
			all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Inbox: "boss", States: []ledger.DeliveryState{ledger.Done}})
			must(t, err)
			owed, err := s.ledger.Replies.Owed(t.Context(), s.key("boss"))
			must(t, err)
			return len(all) == i+1 && len(owed) == 0
		})
	}
	all, err := s.Inbox("demo", "worker").Read(t.Context())
	if err != nil || len(all) != 1 || all[0].From != "boss" || !strings.Contains(all[0].Text, "a question") {
		t.Errorf("worker got %+v, %v", all, err)
	}
}
