package ledger

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// linked returns a ledger that has links with machines.
func linked(t *testing.T, machines ...string) *Ledger {
	t.Helper()
	l := newLedger(t)
	must(t, l.Links.SetLink(t.Context(), Link{Name: "self", Hub: "tls://hub"}))
	for _, m := range machines {
		must(t, l.Links.AddMachine(t.Context(), m, "card of "+m, false))
	}
	return l
}

func anOutgoing(machine, id string) Outgoing {
	o := Outgoing{Machine: machine, There: "worker", At: "team"}
	o.Delivery = Delivery{
		UUID: id, ID: id, InboxKey: inbox.InboxKey{Root: "/root", Team: "team@" + machine, CreatedAt: MachineTeamCreated, Inbox: "worker"},
		From: "user", Kind: "message", Raw: []byte("text " + id), Person: true, Isolated: true, At: time.Now(),
	}
	return o
}

func send(t *testing.T, l *Ledger, machine string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		o := anOutgoing(machine, id)
		_, _, err := l.Outbox.Add(t.Context(), o, sha256.Sum256(o.Raw))
		must(t, err)
	}
}

func wantStage(t *testing.T, l *Ledger, id string, want Stage, state DeliveryState, reason string) {
	t.Helper()
	o, found, err := l.Outbox.Outgoing(t.Context(), id)
	must(t, err)
	if !found || o.Stage != want || o.State != state || o.Reason != reason {
		t.Errorf("%s is %s, %s, %q; want %s, %s, %q", id, o.Stage, o.State, o.Reason, want, state, reason)
	}
}

// The identity of a ledger stays when its name or hub changes, and another hub means another queue.
func TestSetLink(t *testing.T) {
	t.Parallel()
	l := linked(t)
	first, ok, err := l.Links.Link(t.Context())
	if err != nil || !ok || len(first.Incarnation) != 32 {
		t.Fatalf("%+v, %v, %v", first, ok, err)
	}
	if again, err := l.Links.SetQueue(t.Context(), "q1"); err != nil || again != 0 {
		t.Fatal(again, err)
	}
	must(t, l.Links.SetLink(t.Context(), Link{Name: "renamed", Hub: "tls://hub"}))
	now, _, err := l.Links.Link(t.Context())
	must(t, err)
	if want := (Link{Name: "renamed", Hub: "tls://hub", Incarnation: first.Incarnation, Queue: "q1"}); now != want {
		t.Errorf("got %+v, want %+v", now, want)
	}
	must(t, l.Links.SetLink(t.Context(), Link{Name: "renamed", Hub: "tls://other"}))
	if now, _, err = l.Links.Link(t.Context()); err != nil || now.Queue != "" || now.Incarnation != first.Incarnation {
		t.Errorf("with another hub: %+v, %v", now, err)
	}
}

// When the hub's queue has another name, all messages that the hub had stored, and no others, are queued again in
// their old order.
func TestSetQueue(t *testing.T) {
	t.Parallel()
	l := linked(t, "b")
	ctx := t.Context()
	send(t, l, "b", "m1", "m2", "m3")
	must(t, l.Outbox.Stored(ctx, "m1", "m2"))
	must(t, l.Outbox.Confirm(ctx, "b", Receipt{ID: "m1", Stage: StageReceived}))
	for _, step := range []struct {
		queue string
		again int
	}{{"q1", 0}, {"q1", 0}, {"q2", 1}, {"q2", 0}} {
		if again, err := l.Links.SetQueue(ctx, step.queue); err != nil || again != step.again {
			t.Errorf("queue %s: %d again, %v; want %d", step.queue, again, err, step.again)
		}
	}
	list, err := l.Outbox.Next(ctx, "b", 10, 1000)
	must(t, err)
	if len(list) != 2 || list[0].UUID != "m2" || list[1].UUID != "m3" {
		t.Errorf("next are %+v, want m2 and m3", list)
	}
}

// A receipt never moves a message to an earlier stage, counts only for its machine, and can show that a message that
// was given up has arrived.
func TestConfirm(t *testing.T) {
	t.Parallel()
	l := linked(t, "b", "c")
	ctx := t.Context()
	stages := []Stage{StageStored, StageReceived, StageVerified, StageConsumed, StageSeen, StageRefused, StageLost, StageUnknown}
	for i, first := range stages {
		for j, second := range append(stages, StageReset) {
			id := string(first) + ", then " + string(second)
			send(t, l, "b", id)
			must(t, l.Outbox.Confirm(ctx, "c", Receipt{ID: id, Stage: StageSeen}))
			wantStage(t, l, id, StageQueued, Claimed, "")
			must(t, l.Outbox.Confirm(ctx, "b", Receipt{ID: id, Stage: first}, Receipt{ID: "no such message", Stage: StageSeen}))
			must(t, l.Outbox.Confirm(ctx, "b", Receipt{ID: id, Stage: second}))
			o, _, err := l.Outbox.Outgoing(ctx, id)
			must(t, err)
			want := first
			switch {
			case second == StageReset && first == StageStored:
				want = StageQueued
			case second == StageReset, first.Final() && first != StageUnknown:
			case first == StageUnknown:
				if j > 0 && j <= 4 { // received to seen
					want = second
				}
			case j > i:
				want = second
			}
			if o.Stage != want {
				t.Errorf("%s: it is %s, want %s", id, o.Stage, want)
			}
		}
	}
}

// A message that has waited too long has failed if the hub never had it. Otherwise its state is unknown.
func TestExpireOutgoing(t *testing.T) {
	t.Parallel()
	l := linked(t, "b")
	ctx := t.Context()
	send(t, l, "b", "never", "refused", "tried", "stored", "received")
	must(t, l.Outbox.Sending(ctx, "tried", "stored", "received"))
	must(t, l.Outbox.Sending(ctx, "refused", "tried"))
	must(t, l.Outbox.Unsent(ctx, "refused", "tried"))
	must(t, l.Outbox.Stored(ctx, "stored", "received"))
	must(t, l.Outbox.Confirm(ctx, "b", Receipt{ID: "received", Stage: StageReceived}))
	if n, err := l.Outbox.Expire(ctx, time.Now().Add(-time.Hour), "too old"); err != nil || n != 0 {
		t.Errorf("%d have expired an hour too early, %v", n, err)
	}
	if n, err := l.Outbox.Expire(ctx, time.Now().Add(time.Hour), "too old"); err != nil || n != 4 {
		t.Errorf("%d have expired, %v; want 4", n, err)
	}
	wantStage(t, l, "never", StageFailed, Failed, "too old")
	wantStage(t, l, "refused", StageFailed, Failed, "too old")
	wantStage(t, l, "tried", StageUnknown, Failed, "unknown: too old")
	wantStage(t, l, "stored", StageUnknown, Failed, "unknown: too old")
	wantStage(t, l, "received", StageReceived, Accepted, "")
	must(t, l.Deliveries.Retry(ctx, "never"))
	wantStage(t, l, "never", StageQueued, Claimed, "")
}

// At the limit, the outbox of a machine takes no new message, and still knows the ones that it took before.
func TestFullOutbox(t *testing.T) {
	t.Parallel()
	l := linked(t, "b", "c")
	ctx := t.Context()
	send(t, l, "b", "first")
	must(t, l.db.Do(ctx, "fill", func(c *sqlite.Conn) error {
		if _, err := c.Exec(`WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i+1 FROM n WHERE i<1000+?)
			INSERT INTO outgoing SELECT i, 'b', 'team', 'worker', iif(i%2, 'queued', 'stored'), 0, 0, 0, '' FROM n`, MaxOutgoing-2); err != nil {
			return err
		}
		_, err := c.Exec("UPDATE sqlite_sequence SET seq=? WHERE name='deliveries'", 1000+MaxOutgoing) // as if these were deliveries
		return err
	}))
	o := anOutgoing("b", "over")
	if _, _, err := l.Outbox.Add(ctx, o, sha256.Sum256(o.Raw)); !errors.Is(err, ErrOutboxFull) {
		t.Errorf("message %d: %v, want ErrOutboxFull", MaxOutgoing+1, err)
	}
	if err := l.Outbox.Claim(ctx, o); !errors.Is(err, ErrOutboxFull) {
		t.Errorf("a row: %v, want ErrOutboxFull", err)
	}
	if _, found, err := l.Outbox.Outgoing(ctx, "over"); err != nil || found {
		t.Errorf("it is recorded: %v, %v", found, err)
	}
	again := anOutgoing("b", "first")
	if _, was, err := l.Outbox.Add(ctx, again, sha256.Sum256(again.Raw)); err != nil || !was {
		t.Errorf("what was taken before: %v, %v", was, err)
	}
	send(t, l, "c", "to another")
	o = anOutgoing("d", "nobody")
	if _, _, err := l.Outbox.Add(ctx, o, sha256.Sum256(o.Raw)); !errors.Is(err, ErrNoMachine) {
		t.Errorf("a machine without a link: %v, want ErrNoMachine", err)
	}
}

// A frame has as many messages as fit by the size of their texts, and at least one.
func TestNextOutgoing(t *testing.T) {
	t.Parallel()
	l := linked(t, "b", "c")
	send(t, l, "b", "m1", "m2", "m3", "m4") // of 7 bytes each
	send(t, l, "c", "other")
	for _, test := range []struct{ limit, bytes, want int }{{10, 100, 4}, {2, 100, 2}, {10, 14, 2}, {10, 20, 2}, {10, 1, 1}} {
		if list, err := l.Outbox.Next(t.Context(), "b", test.limit, test.bytes); err != nil || len(list) != test.want {
			t.Errorf("at most %d with %d bytes: %d, %v; want %d", test.limit, test.bytes, len(list), err, test.want)
		}
	}
}

// Presence with another incarnation reveals that the other machine has a new ledger.
func TestHeardFrom(t *testing.T) {
	t.Parallel()
	l := linked(t, "b")
	ctx := t.Context()
	send(t, l, "b", "tried", "not tried")
	must(t, l.Outbox.Sending(ctx, "tried"))
	for _, step := range []struct {
		incarnation, presence, want string
		lost                        int
	}{{"", "x", "", 0}, {"one", "", "one", 0}, {"two", "", "one", 0}, {"one", "x", "one", 0}, {"two", "x", "two", 1}, {"", "x", "two", 0}, {"two", "x", "two", 0}} {
		var presence []byte
		if step.presence != "" {
			presence = []byte(step.presence)
		}
		lost, err := l.Links.HeardFrom(ctx, "b", step.incarnation, presence)
		must(t, err)
		now, err := l.Links.Incarnation(ctx, "b")
		if err != nil || lost != step.lost || now != step.want {
			t.Errorf("after %+v: %d lost, incarnation %q, %v", step, lost, now, err)
		}
	}
	wantStage(t, l, "tried", StageUnknown, Failed, "unknown: the ledger of b is another one than before")
	wantStage(t, l, "not tried", StageQueued, Claimed, "")
	must(t, l.Outbox.Unsent(ctx, "tried")) // the hub did refuse it
	wantStage(t, l, "tried", StageQueued, Claimed, "")
	if _, err := l.Links.Incarnation(ctx, "c"); !errors.Is(err, ErrNoMachine) {
		t.Errorf("a machine without a link: %v, want ErrNoMachine", err)
	}
}

// A card is pinned, and the teams that a machine may write to are removed with its link.
func TestMachines(t *testing.T) {
	t.Parallel()
	l := linked(t, "b")
	ctx := t.Context()
	if err := l.Links.AddMachine(ctx, "b", "other card", false); !errors.Is(err, ErrConflict) {
		t.Errorf("another card: %v, want ErrConflict", err)
	}
	must(t, l.Links.AddMachine(ctx, "b", "card of b", false))
	must(t, l.Links.AddMachine(ctx, "b", "other card", true))
	must(t, l.Links.Share(ctx, "b", "/root", "two", true))
	must(t, l.Links.Share(ctx, "b", "/root", "one", true))
	must(t, l.Links.Share(ctx, "b", "/root", "one", true))
	must(t, l.Links.Share(ctx, "b", "/elsewhere", "three", true))
	if err := l.Links.Share(ctx, "c", "/root", "one", true); !errors.Is(err, ErrUnknown) {
		t.Errorf("with nobody: %v, want ErrUnknown", err)
	}
	want := func(teams ...string) {
		t.Helper()
		list, err := l.Links.Machines(ctx, "/root")
		must(t, err)
		if len(list) != 1 || !slices.Equal(list[0].Teams, teams) {
			t.Errorf("%+v; want b with teams %q", list, teams)
		}
	}
	want("one", "two")
	must(t, l.Links.Share(ctx, "b", "/root", "one", false))
	want("two")
	if _, err := l.Links.RemoveMachine(ctx, "b", "removed"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Links.RemoveMachine(ctx, "b", "removed"); !errors.Is(err, ErrUnknown) {
		t.Errorf("twice: %v, want ErrUnknown", err)
	}
	must(t, l.Links.AddMachine(ctx, "b", "card of b", false))
	want()
}

func anIncoming(id, text string, sent time.Time) Incoming {
	return Incoming{Team: "team", Member: "worker", ID: id, Digest: sha256.Sum256([]byte(text)), From: "user", Raw: []byte(text), Sent: sent}
}

// receipts returns the receipts that a machine has not got yet, and records that it has got them.
func receipts(t *testing.T, l *Ledger, machine string) (list []Receipt) {
	t.Helper()
	untold, err := l.Arrivals.Untold(t.Context(), machine, 100)
	must(t, err)
	for _, m := range untold {
		list = append(list, m.Receipt())
	}
	must(t, l.Arrivals.Reported(t.Context(), untold...))
	return list
}

// A message is recorded once under its machine, recipient and id, and a receipt is sent again each time that it
// arrives.
func TestReceive(t *testing.T) {
	t.Parallel()
	l := linked(t, "b", "c")
	ctx, now := t.Context(), time.Now()
	receive := func(machine string, refused int, ms ...Incoming) []Receipt {
		t.Helper()
		list, err := l.Arrivals.Receive(ctx, machine, ms...)
		if err != nil || len(list) != refused {
			t.Fatalf("refused are %+v, %v; want %d", list, err, refused)
		}
		return list
	}
	wantReceipts := func(machine string, want ...Receipt) {
		t.Helper()
		if got := receipts(t, l, machine); !slices.Equal(got, want) {
			t.Errorf("%s is told %+v, want %+v", machine, got, want)
		}
	}
	other := anIncoming("1", "one", now)
	other.Member = "tester"
	receive("b", 0, anIncoming("1", "one", now), anIncoming("2", "two", now), anIncoming("1", "one", now))
	receive("c", 0, anIncoming("1", "of another machine", now))
	receive("b", 0, other)
	wantReceipts("b", Receipt{ID: "1", Stage: StageReceived}, Receipt{ID: "2", Stage: StageReceived}, Receipt{ID: "1", Stage: StageReceived})
	wantReceipts("b")
	wantReceipts("c", Receipt{ID: "1", Stage: StageReceived})
	if list := receive("b", 1, anIncoming("2", "another text", now), anIncoming("3", "three", now)); list[0].ID != "2" || list[0].Stage != StageRefused {
		t.Errorf("refused is %+v", list)
	}
	arrived, err := l.Arrivals.After(ctx, 0, 100)
	must(t, err)
	var texts []string
	for _, m := range arrived {
		texts = append(texts, string(m.Raw))
	}
	if want := []string{"one", "two", "of another machine", "one", "three"}; !slices.Equal(texts, want) {
		t.Errorf("arrived are %q, want %q", texts, want)
	}
	if _, err := l.Arrivals.Receive(ctx, "d", anIncoming("1", "one", now)); !errors.Is(err, ErrNoMachine) {
		t.Errorf("without a link: %v, want ErrNoMachine", err)
	}
	if _, err := l.Arrivals.Receive(ctx, "b", anIncoming("4", "four", now), anIncoming("", "no id", now)); !errors.As(err, new(*ValueError)) {
		t.Errorf("without an id: %v, want a ValueError", err)
	}
	receipts(t, l, "b")

	// A receipt for a stage is sent once, again when the machine asks, and again when the message arrives again.
	two := arrived[1]
	two.Stage, two.Root, two.Recipient = StageVerified, "/root", "worker"
	must(t, l.Arrivals.Set(ctx, two))
	verified := Receipt{ID: "2", Stage: StageVerified}
	wantReceipts("b", verified)
	must(t, l.Arrivals.Tell(ctx, "b", "2", "no such message"))
	wantReceipts("b", verified)
	receive("b", 0, anIncoming("2", "two", now))
	wantReceipts("b", verified)
	if open, err := l.Arrivals.Open(ctx, now.Add(-time.Hour), 0, 10); err != nil || len(open) != 1 || open[0].ID != "2" || open[0].Raw != nil || open[0].Root != "/root" {
		t.Errorf("open are %+v, %v; want 2 without its text", open, err)
	}
}

// Prune forgets the ids of messages that have ended, and none that wait. Messages that the machine dated no later are
// refused from then on; a time in the future is replaced by the time of arrival.
func TestPruneIncoming(t *testing.T) {
	t.Parallel()
	l := linked(t, "b", "c")
	ctx, now := t.Context(), time.Now()
	for _, m := range []string{"b", "c"} {
		_, err := l.Arrivals.Receive(ctx, m, anIncoming("old", "old", now.Add(-time.Hour)), anIncoming("future", "future", now.Add(24*time.Hour)), anIncoming("waits", "waits", now.Add(-2*time.Hour)))
		must(t, err)
	}
	list, err := l.Arrivals.After(ctx, 0, 100)
	must(t, err)
	for _, m := range list {
		if m.Stage = StageSeen; m.ID == "old" || m.ID == "future" && m.Machine == "b" {
			must(t, l.Arrivals.Set(ctx, m))
		}
	}
	must(t, l.Arrivals.Prune(ctx, now.Add(-time.Hour)))
	if list, err := l.Links.Machines(ctx, "/root"); err != nil || !list[0].Horizon.IsZero() {
		t.Fatalf("something is forgotten too early: %+v, %v", list, err)
	}
	must(t, l.Arrivals.Prune(ctx, now.Add(time.Hour)))
	machines, err := l.Links.Machines(ctx, "/root")
	must(t, err)
	if h := machines[0].Horizon; h.Before(now.Add(-time.Second)) || h.After(time.Now()) {
		t.Errorf("the horizon of b is %v, want when it came", h)
	}
	if h, want := machines[1].Horizon, now.Add(-time.Hour); h.UnixMicro() != want.UnixMicro() {
		t.Errorf("the horizon of c is %v, want %v", h, want)
	}
	for _, test := range []struct {
		id      string
		sent    time.Time
		refused int
	}{{"old", now.Add(-time.Hour), 1}, {"new", now.Add(-time.Hour + time.Millisecond), 0}, {"waits", now.Add(-2 * time.Hour), 0}} {
		if refused, err := l.Arrivals.Receive(ctx, "c", anIncoming(test.id, test.id, test.sent)); err != nil || len(refused) != test.refused {
			t.Errorf("%s: refused %+v, %v; want %d", test.id, refused, err, test.refused)
		}
	}
}

// A machine that gets the name of one that was removed is another one, to which the person never wrote.
func TestAskedIsOfTheLinkedMachine(t *testing.T) {
	t.Parallel()
	l := linked(t, "b")
	want := func(after string, want bool) {
		t.Helper()
		if asked, err := l.Outbox.Asked(t.Context(), "b"); err != nil || asked != want {
			t.Errorf("after %s: %t, %v; want %t", after, asked, err, want)
		}
	}
	want("nothing", false)
	send(t, l, "b", "one")
	want("a message", true)
	must(t, l.Links.AddMachine(t.Context(), "b", "a new card of b", true)) // installed again
	want("a new card", true)
	_, err := l.Links.RemoveMachine(t.Context(), "b", "removed")
	must(t, err)
	want("the link", false)
	must(t, l.Links.AddMachine(t.Context(), "b", "card of another", false))
	want("another machine", false)
	send(t, l, "b", "two")
	want("a message to it", true)
}
