package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"teambridge/relay/relaytest/standin"
	"teambridge/status/api"
	"teambridge/teams"
)

// A message to a real agent is verified, consumed and seen, each with its time: to an agent in the lead's process, to
// one in a pane, and to the lead; several at once, and equal ones. A message that was marked as taken and never
// reached the model is consumed, and not seen.
func TestRealSeen(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		u := newUser(t, v)
		ctx := deadline(t, patience)
		s := serve(t, u.team.Home, u.state())
		// The lead is first, when no other agent reports to it.
		agents := [][2]string{{"team-lead", standin.Main}, {"worker", "worker"}}
		u.team.StartMember(t, v, "bob")
		agents = append(agents, [2]string{"bob", "bob"})
		for _, a := range agents {
			member, agent := a[0], a[1]
			w := &watchedSends{user: u, served: s, member: member}
			began := time.Now().Add(-time.Millisecond)
			sent := decoded[api.Sent](t, u.must("send", member, "hello <"+member+">", "--wait", "seen", "--timeout", "60s", "--json"))
			if sent.State != api.Seen {
				t.Errorf("%s: %+v; want it seen", member, sent)
			}
			// The agent may have read the inbox just before the row was marked. Then its model is given the message,
			// and the test tries again.
			for try, never := 1, false; !never; try++ {
				never = w.checkOrder(ctx, v, try, agent, began, sent.ID)
			}
		}
		u.clean()
	})
}

// watchedSends sends messages to one member through a service.
type watchedSends struct {
	*user
	*served
	member string
}

// checkOrder sends a message that is marked as taken while the agent is busy, and then others, and checks the
// receipts of all; first is an earlier message. It reports whether the agent was never given the marked one.
func (w *watchedSends) checkOrder(ctx context.Context, v teams.Version, try int, agent string, began time.Time, first string) bool {
	t, member, model := w.user.t, w.member, w.team.API
	t.Helper()
	var never, text string
	marked := 0
	for i := 1; marked == 0; i++ { // on a busy machine the agent can be done before the row is marked
		busy := fmt.Sprintf("busy %d.%d <%s>", try, i, member)
		w.send("SLEEP:3\n" + busy)
		given(t, ctx, model, agent, busy)
		text = fmt.Sprintf("never %d.%d <%s>", try, i, member)
		never = w.send(text)
		var err error
		if marked, err = w.inbox(member).MarkRead(ctx, never); err != nil {
			t.Fatal(err)
		}
	}
	texts := []string{"the same", "the same", "`the <last>`", "see </teammate-message>"}
	list := []string{first}
	for _, text := range texts {
		id := w.send(text)
		list = append(list, id)
	}
	var last time.Time
	for _, id := range list {
		r := w.receipt(ctx, id, func(r *api.Receipt) bool { return r.SeenAt != nil && r.ConsumedAt != nil })
		for what, at := range map[string]*time.Time{"verified": r.VerifiedAt, "consumed": r.ConsumedAt, "seen": r.SeenAt} {
			if at == nil || at.Before(began) || at.After(time.Now()) {
				t.Errorf("%s %s at %v: %+v", member, what, at, r)
			}
		}
		if r.SeenAt.Before(last) {
			t.Errorf("%s: seen at %v, and the one before at %v", member, r.SeenAt, last)
		}
		last = *r.SeenAt
	}
	if model.Count(agent, text) > 0 {
		t.Logf("%s had read %q before it was marked", member, text)
		return false
	}
	if r := w.now(ctx)[never]; r == nil || r.State != api.Consumed || r.ConsumedAt == nil || r.SeenAt != nil {
		t.Errorf("%s: never given: %+v", member, r)
	}
	return true
}

// send sends a message, and returns its id.
func (w *watchedSends) send(text string) string {
	w.user.t.Helper()
	sent := decoded[api.Sent](w.user.t, w.must("send", w.member, text, "--json"))
	return sent.ID
}

// now returns the receipts by id.
func (w *watchedSends) now(ctx context.Context) map[string]*api.Receipt {
	w.user.t.Helper()
	var page api.Page
	w.ask(ctx, "GET", "/v1/teams/"+w.team.Name+"/messages?inbox="+w.member+"&limit=200", "", "", 200, &page)
	all := map[string]*api.Receipt{}
	for _, m := range page.Messages {
		if m.Receipt != nil {
			all[m.ID] = m.Receipt
		}
	}
	return all
}

// receipt waits until the receipt of a message matches.
func (w *watchedSends) receipt(ctx context.Context, id string, is func(*api.Receipt) bool) api.Receipt {
	w.user.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		r := w.now(ctx)[id]
		if r != nil && is(r) {
			return *r
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.user.t.Fatalf("%s: the receipt stays %+v\n%s", w.member, r, w.team.Lead.Screen())
		}
	}
}

// With --keep-transcripts, the history has each text of real interactive agents once, even if the service is killed.
// Without the flag, it has none.
func TestRealKeepTranscripts(t *testing.T) {
	onSome(t, func(t *testing.T, v teams.Version) {
		u := newUser(t, v)
		ctx := deadline(t, patience)
		state := u.state()
		// said returns how often the history has a text of the worker.
		said := func(s *served, text string) (n int) {
			var page api.Page
			s.ask(ctx, "GET", "/v1/teams/"+u.team.Name+"/messages?limit=500", "", "", 200, &page)
			for _, m := range page.Messages {
				if m.Work != nil && m.From == "worker" && strings.Contains(m.Text, text) {
					n++
				}
			}
			return n
		}
		s := serve(t, u.team.Home, state)
		u.must("send", "worker", "earlier <0>", "--wait", "seen")
		if n := said(s, "<0>"); n != 0 {
			t.Errorf("kept without being told to: %d times", n)
		}
		s.kill()
		for _, text := range []string{"kept <1>", "kept <2>"} {
			s = serve(t, u.team.Home, state, "--keep-transcripts", u.team.Name)
			u.must("send", "worker", text, "--wait", "seen")
			tick := time.NewTicker(50 * time.Millisecond)
			until(t, ctx, func() bool { return said(s, text) > 0 }, func() string { return fmt.Sprintf("%q is not in the history\n%s", text, u.team.Lead.Screen()) })
			tick.Stop()
			if text == "kept <2>" {
				break
			}
			s.kill()
		}
		for _, text := range []string{"earlier <0>", "kept <1>", "kept <2>"} {
			if n := said(s, text); n != 1 {
				t.Errorf("the worker said %q %d times", text, n)
			}
		}
		u.clean()
	})
}
