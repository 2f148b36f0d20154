package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/sqlite"
)

func aKey(id string) inbox.SendKey {
	return inbox.SendKey{InboxKey: inbox.InboxKey{Root: root, Team: "blue", CreatedAt: blue().CreatedAt, Inbox: "bob"}, ID: id}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	type does func(j *Journal, at time.Time) (Receipt, error)
	verified := does(func(j *Journal, at time.Time) (Receipt, error) {
		return j.Receipts.Verified(t.Context(), aKey("1"), at)
	})
	consumed := does(func(j *Journal, at time.Time) (Receipt, error) {
		return j.Receipts.Consumed(t.Context(), aKey("1"), at)
	})
	lost := does(func(j *Journal, at time.Time) (Receipt, error) {
		return j.Receipts.Lost(t.Context(), aKey("1"), at, "clobbered")
	})
	unknown := does(func(j *Journal, at time.Time) (Receipt, error) {
		return j.Receipts.Unknown(t.Context(), aKey("1"), at, "no trace")
	})
	seen := does(func(j *Journal, at time.Time) (Receipt, error) { return j.Receipts.Seen(t.Context(), aKey("1"), at) })
	for _, test := range []struct {
		name  string
		steps []does // at 1, 2, 3 … seconds
		want  Receipt
	}{
		{"verified", []does{verified, verified}, Receipt{Seq: 1, State: inbox.Unconsumed, VerifiedAt: at(1)}},
		{"consumed", []does{verified, consumed, consumed, verified}, Receipt{Seq: 2, State: inbox.Consumed, VerifiedAt: at(1), ConsumedAt: at(2)}},
		{"lost", []does{verified, lost, lost}, Receipt{Seq: 2, State: inbox.Lost, VerifiedAt: at(1), LostAt: at(2), Reason: "clobbered"}},
		{"lost and sent again", []does{verified, lost, verified}, Receipt{Seq: 3, State: inbox.Unconsumed, VerifiedAt: at(3)}},
		{"unknown", []does{verified, unknown, unknown, lost}, Receipt{Seq: 2, State: inbox.Unknown, VerifiedAt: at(1), LostAt: at(2), Reason: "no trace"}},
		{"unknown, sent again and consumed", []does{verified, unknown, verified, consumed},
			Receipt{Seq: 4, State: inbox.Consumed, VerifiedAt: at(3), ConsumedAt: at(4)}},
		{"lost and then consumed", []does{verified, lost, consumed},
			Receipt{Seq: 3, State: inbox.Consumed, VerifiedAt: at(1), LostAt: at(2), Reason: "clobbered", ConsumedAt: at(3)}},
		{"consumed and not lost", []does{verified, consumed, lost}, Receipt{Seq: 2, State: inbox.Consumed, VerifiedAt: at(1), ConsumedAt: at(2)}},
		{"seen", []does{verified, consumed, seen, seen, lost}, Receipt{Seq: 3, State: inbox.Consumed, VerifiedAt: at(1), ConsumedAt: at(2), SeenAt: at(3)}},
		{"seen first", []does{verified, seen, lost, unknown, consumed},
			Receipt{Seq: 3, State: inbox.Consumed, VerifiedAt: at(1), ConsumedAt: at(5), SeenAt: at(2)}},
		{"lost and then seen", []does{verified, lost, seen, verified},
			Receipt{Seq: 3, State: inbox.Consumed, VerifiedAt: at(1), LostAt: at(2), Reason: "clobbered", ConsumedAt: at(3), SeenAt: at(3)}},
		{"never sent by us", []does{seen, consumed}, Receipt{Seq: 1, State: inbox.Consumed, ConsumedAt: at(2)}},
		{"never verified", []does{consumed}, Receipt{Seq: 1, State: inbox.Consumed, ConsumedAt: at(1)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			if _, found, err := j.Receipts.Receipt(t.Context(), aKey("1")); err != nil || found {
				t.Fatalf("found %v, %v; want nothing", found, err)
			}
			var said Receipt
			for i, step := range test.steps {
				var err error
				said, err = step(j, at(float64(i+1)))
				must(t, err)
			}
			test.want.SendKey = aKey("1")
			got, found, err := j.Receipts.Receipt(t.Context(), aKey("1"))
			if err != nil || !found {
				t.Fatalf("found %v, %v", found, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("receipt (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, said); diff != "" {
				t.Errorf("returned (-want +got):\n%s", diff)
			}
		})
	}
}

// A clock that was set back keeps no state from being recorded.
func TestReceiptAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	key := aKey("1")
	_, err := j.Receipts.Verified(t.Context(), key, at(5000))
	must(t, err)
	lost, err := j.Receipts.Lost(t.Context(), key, at(1), "clobbered")
	if err != nil || lost.State != inbox.Lost || lost.LostAt.Before(lost.VerifiedAt) {
		t.Errorf("lost: %+v, %v", lost, err)
	}
	again, err := j.Receipts.Verified(t.Context(), key, at(2))
	if err != nil || again.State != inbox.Unconsumed || !again.LostAt.IsZero() {
		t.Errorf("sent again: %+v, %v", again, err)
	}

	prompt := aKey("2")
	e := ledger.Event{InboxKey: prompt.InboxKey, Delivery: "d", ID: "2", Person: true}
	for n, state := range []ledger.DeliveryState{ledger.Claimed, ledger.Failed} {
		e.N, e.At, e.State, e.Text = int64(n+1), at(float64(9000-n*8000)), state, "do it"
		_, err := j.RelayEvents.CopyEvents(t.Context(), nil, e)
		must(t, err)
	}
	if r, _, err := j.Receipts.Receipt(t.Context(), prompt); err != nil || r.State != inbox.Lost {
		t.Errorf("a prompt that failed: %+v, %v", r, err)
	}
}

func TestReceipts(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for i := range 2*pageSize + 50 {
		_, err := j.Receipts.Verified(t.Context(), aKey(fmt.Sprint(i)), at(float64(i)))
		must(t, err)
	}
	red := aKey("7")
	red.Team = "red"
	_, err := j.Receipts.Verified(t.Context(), red, at(1000))
	must(t, err)
	_, err = j.Receipts.Consumed(t.Context(), aKey("3"), at(1001))
	must(t, err)
	for _, test := range []struct {
		name string
		q    Query
		want string
	}{
		{"newest", Query{Newest: true, Limit: 3}, "blue/3 red/7 blue/449"},
		{"oldest", Query{Limit: 4}, "blue/0 blue/1 blue/2 blue/4"},
		{"id", Query{ID: "7"}, "blue/7 red/7"},
		{"team", Query{Team: "red"}, "red/7"},
		{"root", Query{Root: "/other"}, ""},
		{"numbers", Query{After: 449, Before: 452}, "blue/449 red/7"},
		{"times", Query{Since: at(448), Until: at(1001)}, "blue/448 blue/449 red/7"},
	} {
		var got []string
		for r, err := range j.Receipts.All(t.Context(), test.q) {
			must(t, err)
			got = append(got, r.Team+"/"+r.ID)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s: %v, want %s", test.name, got, test.want)
		}
	}
	n := 0
	for _, err := range j.Receipts.All(t.Context(), Query{}) {
		must(t, err)
		n++
	}
	if n != 2*pageSize+51 {
		t.Errorf("%d receipts, want %d", n, 2*pageSize+51)
	}
	for _, err := range j.Receipts.All(t.Context(), Query{From: "ann"}) {
		var bad *ValueError
		if !errors.As(err, &bad) {
			t.Errorf("got %v, want a ValueError", err)
		}
	}
}

func TestReceiptsThatCannotBe(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	blank := aKey(" ")
	_, none := j.Receipts.Verified(t.Context(), aKey("1"), time.Time{})
	_, noID := j.Receipts.Verified(t.Context(), blank, at(1))
	_, long := j.Receipts.Lost(t.Context(), aKey("1"), at(1), strings.Repeat("x", sqlite.MaxName+1))
	for what, err := range map[string]error{"time": none, "id": noID, "reason": long} {
		var bad *ValueError
		if !errors.As(err, &bad) || bad.Field != what {
			t.Errorf("%s: %v, want a ValueError", what, err)
		}
	}
	if n := number(t, j, "SELECT count(*) FROM receipts"); n != 0 {
		t.Errorf("%d receipts, want none", n)
	}
}

func TestChangesGoOnWhereOneStopped(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/journal.db"
	j, other := mustOpen(t, path), mustOpen(t, path)
	var live []Change
	live = append(live, observe(t, j, look(t, 1, row("a"), row("b"))).Changes...)
	r, err := other.Receipts.Verified(t.Context(), aKey("1"), at(1))
	must(t, err)
	live = append(live, Change{Seq: r.Seq, Kind: Receipted, Receipt: r})
	live = append(live, observe(t, other, look(t, 2, row("a", `"read":true`), row("c"))).Changes...)
	r, err = j.Receipts.Consumed(t.Context(), aKey("2"), at(1))
	must(t, err)
	live = append(live, Change{Seq: r.Seq, Kind: Receipted, Receipt: r})
	want := "1 appeared a#1, 2 appeared b#1, 3 verified 1, 4 appeared c#1, 5 read a#1, 6 gone b#1, 7 consumed 2"
	wantChanges(t, live, want)

	if last, err := j.Last(t.Context()); err != nil || last != 7 {
		t.Errorf("last %d, %v; want 7", last, err)
	}
	for after := range int64(8) {
		for _, limit := range []int{1, 2, 100} {
			var got []Change
			for from := after; ; {
				list, err := j.Messages.Changes(t.Context(), from, limit)
				must(t, err)
				if len(list) == 0 {
					break
				}
				got = append(got, list...)
				from = list[len(list)-1].Seq
			}
			wantChanges(t, got, short(live[after:]))
		}
	}
	list, err := j.Messages.Changes(t.Context(), 0, 100)
	must(t, err)
	for i := range list {
		list[i].Epoch = "" // another test checks it
	}
	// Changes have the message as it is now, not as it was then.
	live[0].Message, live[1].Message = live[4].Message, live[5].Message
	if diff := cmp.Diff(live, list); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	// A later change of a receipt replaces the one before.
	_, err = j.Receipts.Consumed(t.Context(), aKey("1"), at(1))
	must(t, err)
	list, err = j.Messages.Changes(t.Context(), 2, 100)
	must(t, err)
	wantChanges(t, list, "4 appeared c#1, 5 read a#1, 6 gone b#1, 7 consumed 2, 8 consumed 1")
	var bad *ValueError
	if _, err := j.Messages.Changes(t.Context(), 0, 0); !errors.As(err, &bad) {
		t.Errorf("got %v, want a ValueError", err)
	}
}
