package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/claim"
	"teambridge/relay/claude"
	"teambridge/relay/relaytest/simchild"
)

// writes puts messages of one member into the inbox of another.
func (s *station) writes(from, to string, texts ...string) {
	s.t.Helper()
	box, err := inbox.Open(s.team, to, s.locker)
	must(s.t, err)
	for _, text := range texts {
		if _, err := box.Append(s.t.Context(), inbox.Message{From: from, Text: text, Own: true}, inbox.AppendOptions{}); err != nil {
			s.t.Error(err)
		}
	}
}

// unread returns the unread texts in an inbox.
func (s *station) unread(member string) (texts []string) {
	s.t.Helper()
	box, err := inbox.Open(s.team, member, s.locker)
	must(s.t, err)
	rows, err := box.Read(s.t.Context())
	if err != nil && !errors.Is(err, inbox.ErrMissing) {
		s.t.Fatal(err)
	}
	for _, row := range rows {
		if !row.Read {
			texts = append(texts, row.Text)
		}
	}
	return texts
}

// told counts the finished deliveries to a member from a sender.
func (s *station) told(member, sender string) int {
	s.t.Helper()
	all, err := s.ledger.Deliveries.List(s.t.Context(), ledger.DeliveryQuery{Inbox: member, States: []ledger.DeliveryState{ledger.Done}})
	must(s.t, err)
	n := 0
	for _, d := range all {
		if d.From == sender {
			n++
		}
	}
	return n
}

// clock is a time that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// talk runs the relays of team-lead and worker, which answer every message of the other,
// until one of them has answered most times. Each answer takes a while.
func (s *station) talk(most int, c *clock, takes time.Duration) (lead, worker *Relay, stop func()) {
	s.t.Helper()
	other := newStationBeside(s, simchild.Script{})
	relayed := func(s *station, member, peer string) (*Relay, func()) {
		opts := s.options()
		opts.Member, opts.Now = member, c.read
		n := 0
		opts.Events = func(e agent.Event) {
			if r, ok := e.Payload.(claude.Result); ok && strings.Contains(r.Text, `teammate_id="`+peer+`"`) && n < most {
				n++
				c.pass(takes)
				s.writes(member, peer, fmt.Sprintf("[%s-%02d]", member, n))
			}
		}
		return s.relay(opts)
	}
	lead, stopLead := relayed(s, "team-lead", "worker")
	worker, stopWorker := relayed(other, "worker", "team-lead")
	return lead, worker, func() { stopLead(); stopWorker() }
}

// Two agents that answer each other for ever are held after at most 20 messages each
// way. Their messages stay unread; others still reach them. After the release they are
// delivered in order, and none is lost.
func TestEndlessTalkIsHeld(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	c := &clock{now: time.Now()}
	lead, worker, stop := s.talk(30, c, time.Second)
	s.writes("worker", "team-lead", "[begin]")
	holds := func() []ledger.Hold {
		list, err := s.ledger.Holds.List(t.Context(), "")
		must(t, err)
		return list
	}
	s.await("it is held", func() bool { return len(holds()) > 0 })
	h := holds()[0]
	at, from := h.Inbox, h.Sender
	s.await("nothing more is done", func() bool {
		open, err := s.ledger.Sessions.RelayInfos(t.Context(), "")
		return err == nil && len(s.unread(at)) == 1 && open[0].Open+open[1].Open == 0
	})
	for _, way := range [][2]string{{"team-lead", "worker"}, {"worker", "team-lead"}} {
		if n := s.told(way[0], way[1]); n < 15 || n > 20 {
			t.Errorf("%s was told %d messages of %s, want about 20", way[0], n, way[1])
		}
	}
	relay := lead
	if at == "worker" {
		relay = worker
	}
	s.await("the reason is told", func() bool {
		return strings.Contains(relay.Status().Reason, "the messages of "+from+" are held")
	})
	config, err := s.team.Config(t.Context())
	must(t, err)
	o, _, err := Stat(t.Context(), s.ledger, s.dir+"/state", s.team, config, at)
	if err != nil || len(o.Held) != 1 || o.Held[0] != h {
		t.Errorf("from outside %+v, %v; want %+v to be held", o, err, h)
	}

	// Others still reach it.
	before := s.told(at, "helper")
	s.writes("helper", at, "[h]")
	s.await("another is heard", func() bool { return s.told(at, "helper") == before+1 })
	s.writes(from, at, "[later]")
	if got := s.unread(at); len(got) != 2 || got[1] != "[later]" {
		t.Errorf("unread %q, want what is held, and what came later", got)
	}
	held := s.unread(at)

	if _, err := s.ledger.Holds.Release(t.Context(), h.InboxKey, h.Sender); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Hour)
	s.await("they have said all", func() bool {
		return s.told("team-lead", "worker")+s.told("worker", "team-lead") >= 50 && len(s.unread("worker"))+len(s.unread("team-lead")) == 0 || len(holds()) > 0
	})
	s.await("what was held is said", func() bool {
		all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Inbox: at, States: []ledger.DeliveryState{ledger.Done}})
		must(t, err)
		var texts []string
		for _, d := range slices.Backward(all) {
			for _, text := range held {
				if strings.Contains(string(d.Raw), text) {
					texts = append(texts, text)
				}
			}
		}
		return slices.Equal(texts, held)
	})
	stop()
}

// Agents that answer each other more slowly are not held, nor is a burst of one of
// them without answers.
func TestTalkThatIsNotEndless(t *testing.T) {
	t.Parallel()
	t.Run("slow", func(t *testing.T) {
		t.Parallel()
		s := newStation(t, simchild.Script{})
		_, _, stop := s.talk(22, &clock{now: time.Now()}, 2*time.Second) // 4 s for each exchange
		s.writes("worker", "team-lead", "[begin]")
		s.await("all is said", func() bool { return s.told("team-lead", "worker") >= 22 && s.told("worker", "team-lead") >= 22 })
		stop()
		s.undisturbed()
	})
	t.Run("the clock is set back", func(t *testing.T) {
		t.Parallel()
		s := newStation(t, simchild.Script{})
		c := &clock{now: time.Now()}
		_, _, stop := s.talk(22, c, 2*time.Second)
		s.writes("worker", "team-lead", "[begin]")
		s.await("the half is said", func() bool { return s.told("team-lead", "worker") >= 11 })
		c.pass(-time.Hour)
		s.await("all is said", func() bool { return s.told("team-lead", "worker") >= 22 && s.told("worker", "team-lead") >= 22 })
		stop()
		s.undisturbed()
	})
	t.Run("burst", func(t *testing.T) {
		t.Parallel()
		s := newStation(t, simchild.Script{})
		var texts []string
		for i := range 80 { // more than are claimed at once
			texts = append(texts, fmt.Sprintf("[m-%03d]", i))
		}
		lead, worker, stop := s.talk(1, &clock{now: time.Now()}, 0)
		s.writes("worker", "team-lead", texts...)
		s.await("all is said", func() bool { return s.told("team-lead", "worker") == 81 }) // and one answer to the answer
		stop()
		for _, r := range []*Relay{lead, worker} {
			if held, err := s.ledger.Holds.Held(t.Context(), r.Key()); err != nil || len(held) > 0 {
				t.Errorf("held %+v, %v; want nothing", held, err)
			}
		}
		s.undisturbed()
	})
}

// The other agent needs no relay: the agent's own output shows its messages to it. A hold
// also holds for the next relay.
func TestEndlessTalkWithAnAgentThatIsNotRelayed(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	opts := s.options()
	c := &clock{now: time.Now()}
	opts.Now = c.read
	n := 0
	opts.Events = func(e agent.Event) {
		if _, ok := e.Payload.(claude.Result); ok {
			n++
			c.pass(time.Second)
			s.send(fmt.Sprintf("USE:SendMessage {\"to\": \"worker\"}\n[m-%02d]", n))
		}
	}
	r, stop := s.relay(opts)
	s.send("USE:SendMessage {\"to\": \"worker\"}\n[m-00]")
	held := func() bool {
		list, err := s.ledger.Holds.Held(t.Context(), r.Key())
		must(t, err)
		return len(list) == 1 && list[0].Sender == "worker"
	}
	s.await("it is held", held)
	s.await("the rest is done", func() bool { return len(s.unread("team-lead")) == 1 })
	if got := s.told("team-lead", "worker"); got < 15 || got > 20 {
		t.Errorf("%d messages were said, want about 20", got)
	}
	stop()
	before := s.told("team-lead", "worker")
	opts.Events = nil
	r, stop = s.relay(opts)
	s.writes("helper", "team-lead", "[h]")
	s.await("another is heard", func() bool { return s.told("team-lead", "helper") == 1 })
	if got := s.unread("team-lead"); len(got) != 1 || s.told("team-lead", "worker") != before {
		t.Errorf("unread %q, %d said; want one message held", got, s.told("team-lead", "worker"))
	}
	if _, err := s.ledger.Holds.Release(t.Context(), r.Key(), "worker"); err != nil {
		t.Fatal(err)
	}
	s.await("it is said", func() bool { return s.told("team-lead", "worker") == before+1 })
	stop()
}

// A person holds a sender while its messages are about to be claimed: they wait, those of others do not, and claimed
// messages are delivered. After the release all of them are delivered once, in order.
func TestHeldByAPersonDuringAClaim(t *testing.T) {
	t.Parallel()
	s := newStation(t, simchild.Script{})
	s.writes("worker", "team-lead", "[w-0]")
	r, stop := s.relay(s.options())
	s.await("the first is said", func() bool { return s.told("team-lead", "worker") == 1 })
	stop()
	s.writes("worker", "team-lead", "[w-1]", "[w-2]")
	s.writes("helper", "team-lead", "[h-0]")
	hold := ledger.Hold{InboxKey: r.Key(), Sender: "worker", Reason: "by you"}
	run := func(before func()) func() {
		opts := s.options()
		r := s.newRelay(opts)
		before = sync.OnceFunc(before)
		r.ledger = stepStore{store: storeOf(s.ledger), before: func(call string) error {
			if call == "claim" { // the plan of it was made
				before()
			}
			return nil
		}}
		return s.run(r)
	}
	stop = run(func() {
		if err := s.ledger.Holds.Hold(t.Context(), hold); err != nil {
			t.Error(err)
		}
	})
	s.await("another is heard", func() bool { return s.told("team-lead", "helper") == 1 })
	stop()
	if got := s.unread("team-lead"); !slices.Equal(got, []string{"[w-1]", "[w-2]"}) || s.told("team-lead", "worker") != 1 {
		t.Errorf("unread %q, and %d said; want what came after the hold unread", got, s.told("team-lead", "worker"))
	}
	stop = run(func() {}) // the next run holds it, too
	s.writes("worker", "team-lead", "[w-3]")
	s.writes("helper", "team-lead", "[h-1]")
	s.await("another is heard again", func() bool { return s.told("team-lead", "helper") == 2 })
	if got := s.told("team-lead", "worker"); got != 1 {
		t.Errorf("%d said in the next run, want 1", got)
	}
	if _, err := s.ledger.Holds.Release(t.Context(), r.Key(), "worker"); err != nil {
		t.Fatal(err)
	}
	s.await("all is said", func() bool { return s.told("team-lead", "worker") == 4 })
	stop()
	all, err := s.ledger.Deliveries.List(t.Context(), ledger.DeliveryQuery{Inbox: "team-lead"})
	must(t, err)
	var order []string
	for _, d := range slices.Backward(all) {
		if d.From == "worker" {
			order = append(order, claim.Row(d).Text)
		}
	}
	if !slices.Equal(order, []string{"[w-0]", "[w-1]", "[w-2]", "[w-3]"}) {
		t.Errorf("claimed in the order %q", order)
	}
}
