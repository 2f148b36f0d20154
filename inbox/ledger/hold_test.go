package ledger

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// exchange is the messages between two relayed agents, and others.
type exchange struct {
	t   *testing.T
	l   *Ledger
	n   int
	now time.Time
}

func newExchange(t *testing.T) *exchange {
	return &exchange{t: t, l: newLedger(t), now: monday}
}

// says claims a message from one agent to another, a second after the last one, and returns its hop count.
func (x *exchange) says(from, to string) int {
	x.t.Helper()
	x.now = x.now.Add(time.Second)
	box := bob
	box.Inbox = to
	e, err := x.l.Holds.Exchanges(x.t.Context(), box, from, []string{"user", "operator"}, x.now, time.Minute, 3)
	must(x.t, err)
	x.n++
	d := aRow(string(rune('A' + x.n)))
	d.InboxKey, d.From, d.Hops, d.At = box, from, e.Hops, x.now
	must(x.t, x.l.Deliveries.Claim(x.t.Context(), d))
	return e.Hops
}

func (x *exchange) want(hops int, from, to string) {
	x.t.Helper()
	if got := x.says(from, to); got != hops {
		x.t.Errorf("%s to %s: hop %d, want %d", from, to, got, hops)
	}
}

// The hop count of two agents grows with each answer, and starts again after a person's message or a pause.
func TestExchangesCountAnswers(t *testing.T) {
	t.Parallel()
	x := newExchange(t)
	x.want(0, "ann", "bob")
	x.want(0, "ann", "bob") // no answer yet
	x.want(0, "bob", "ann")
	x.want(1, "ann", "bob")
	x.want(1, "ann", "bob") // messages without an answer in between share a count
	x.want(1, "bob", "ann")
	x.want(0, "cid", "bob") // other senders have counts of their own
	x.want(2, "ann", "bob")
	x.want(2, "bob", "ann")
	x.want(3, "ann", "bob")
	e, err := x.l.Holds.Exchanges(t.Context(), bob, "ann", nil, x.now, time.Minute, 3)
	must(t, err)
	// The last message of hop 0 was the second.
	if diff := cmp.Diff(Exchanges{Hops: 3, Since: monday.Add(2 * time.Second)}, e); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	x.want(0, "operator", "ann") // a message from a person to the other agent starts from 0
	x.want(0, "ann", "bob")
	x.want(0, "bob", "ann")
	x.want(1, "ann", "bob")
	typed := anInput("typed here")
	must(t, x.l.Deliveries.Claim(t.Context(), typed))
	x.want(0, "ann", "bob")
	x.want(0, "bob", "ann")
	x.want(1, "ann", "bob")
	x.now = x.now.Add(time.Minute)
	x.want(0, "ann", "bob")
}

// Messages to an agent without a relay count, too: the output of the relayed agent shows what it writes to that
// agent.
func TestExchangesOfOneThatIsNotRelayed(t *testing.T) {
	t.Parallel()
	x := newExchange(t)
	x.want(0, "ann", "bob")
	x.want(0, "ann", "bob")
	must(t, x.l.Holds.Answered(t.Context(), bob, "ann"))
	x.want(1, "ann", "bob")
	x.want(1, "ann", "bob")
	must(t, x.l.Holds.Answered(t.Context(), bob, "cid"))
	x.want(1, "ann", "bob")
	must(t, x.l.Holds.Answered(t.Context(), bob, "*"))
	x.want(2, "ann", "bob")
}

func TestHoldAndRelease(t *testing.T) {
	t.Parallel()
	x := newExchange(t)
	ann := bob
	ann.Inbox = "ann"
	x.want(0, "ann", "bob")
	x.want(0, "bob", "ann")
	x.want(1, "ann", "bob")
	x.want(1, "bob", "ann")
	released, err := x.l.Holds.Release(t.Context(), bob, "ann")
	must(t, err)
	if len(released) > 0 {
		t.Errorf("released %+v, and nothing was held", released)
	}
	hold := Hold{InboxKey: bob, Sender: "ann", Reason: "20 times", Since: monday}
	must(t, x.l.Holds.Hold(t.Context(), hold))
	again := hold
	again.Reason, again.Since = "again", tuesday
	must(t, x.l.Holds.Hold(t.Context(), again)) // the first hold stays
	wantHolds(t, x.l, hold)
	got, err := x.l.Holds.Held(t.Context(), ann)
	must(t, err)
	if len(got) > 0 {
		t.Errorf("held for ann: %+v", got)
	}
	// The hold named from the other side.
	released, err = x.l.Holds.Release(t.Context(), ann, "bob")
	must(t, err)
	if diff := cmp.Diff([]Hold{hold}, released); diff != "" {
		t.Errorf("released (-want +got):\n%s", diff)
	}
	wantHolds(t, x.l)
	x.want(0, "ann", "bob") // from here, both directions are counted again
	x.want(0, "bob", "ann")
	x.want(1, "ann", "bob")
	must(t, x.l.Holds.Hold(t.Context(), again))
	wantHolds(t, x.l, again)
	var states []string
	for _, e := range events(t, x.l) {
		if e.Delivery == "" {
			states = append(states, string(e.Relay)+": "+e.Reason)
		}
	}
	if diff := cmp.Diff([]string{"held: 20 times", "released: the messages of ann were released", "held: again"}, states); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func wantHolds(t *testing.T, l *Ledger, want ...Hold) {
	t.Helper()
	got, err := l.Holds.List(t.Context(), "")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holds (-want +got):\n%s", diff)
	}
}

// A row that was claimed before its sender was held is delivered. No later row of that sender is claimed, nor any row
// of the same claim.
func TestNothingHeldIsClaimed(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	before, after, other, typed := aRow("before"), aRow("after"), aRow("other"), anInput("typed")
	other.From = "cid"
	must(t, l.Deliveries.Claim(t.Context(), before))
	must(t, l.Holds.Hold(t.Context(), Hold{InboxKey: bob, Sender: before.From, Reason: "by you"}, Hold{InboxKey: bob, Sender: "dan", Reason: "by you"}))
	must(t, l.Deliveries.Claim(t.Context(), before, other, typed)) // the first is claimed already
	third := aRow("third")
	third.From = "cid"
	if err := l.Deliveries.Claim(t.Context(), third, after); !errors.Is(err, ErrHeld) {
		t.Errorf("claimed: %v, want ErrHeld", err)
	}
	_, err := l.Holds.Release(t.Context(), bob, before.From)
	must(t, err)
	n, err := l.Deliveries.OpenCount(t.Context(), bob)
	must(t, err)
	must(t, l.Deliveries.Claim(t.Context(), third, after))
	if n != 3 {
		t.Errorf("%d are open, want 3: with what is held, nothing is claimed", n)
	}
}
