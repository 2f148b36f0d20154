package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slices"

	"github.com/google/go-cmp/cmp"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

var bob = inbox.InboxKey{Root: "/home/ann/.claude", Team: "blue", CreatedAt: 1763280000000, Inbox: "bob"}

// otherPosts returns keys that differ from bob in one part each.
func otherPosts() []inbox.InboxKey {
	list := []inbox.InboxKey{bob, bob, bob, bob}
	list[0].Root += "2"
	list[1].Team += "2"
	list[2].CreatedAt++
	list[3].Inbox += "2"
	return list
}

// aRow returns a row of an inbox, with a key and a message id that are made from its uuid.
func aRow(uuid string) Delivery {
	return Delivery{
		UUID: uuid, InboxKey: bob, Key: "key of " + uuid, Occurrence: 1, ID: "id of " + uuid,
		From: "ann", Kind: "message", Raw: []byte(`{"from":"ann","text":"` + uuid + `"}`), At: monday,
	}
}

// anInput returns a prompt that a person typed.
func anInput(uuid string) Delivery {
	return Delivery{
		UUID: uuid, InboxKey: bob, From: "operator", Kind: "message", Raw: []byte("fix it"),
		Person: true, Isolated: true, Mode: []byte(`{"model":"sonnet"}`), At: monday,
	}
}

func aFrame(uuid string) Frame {
	return Frame{UUID: uuid, InboxKey: bob, Kind: FrameMessage, Bytes: []byte(`{"uuid":"` + uuid + `"}`), Session: "session-1", At: monday}
}

func aNudge(uuid, parent string) Frame {
	f := aFrame(uuid)
	f.Kind, f.Parent = FrameNudge, parent
	return f
}

func aSession() Session {
	return Session{InboxKey: bob, ID: "session-2", PID: 4711, Group: 4700, Start: "12345", Command: "claude -p", At: monday, Dead: "5 deaths"}
}

// claimRows claims and marks rows with these uuids.
func claimRows(t testing.TB, l *Ledger, uuids ...string) {
	t.Helper()
	for _, uuid := range uuids {
		if err := errors.Join(l.Deliveries.Claim(t.Context(), aRow(uuid)), l.Deliveries.Mark(t.Context(), uuid)); err != nil {
			t.Fatal(err)
		}
	}
}

// bring makes a delivery "d" in the given state, in frame "f" if it is a state of frames.
func bring(t *testing.T, l *Ledger, state DeliveryState) {
	t.Helper()
	claimRows(t, l, "d")
	switch state {
	case Claimed:
		return
	case Dropped:
		must(t, l.Deliveries.Drop(t.Context(), "d"))
		return
	case TakenByAgent:
		must(t, l.Deliveries.End(t.Context(), TakenByAgent, "", "d"))
		return
	}
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "d"))
	if state != FrameWritten {
		must(t, l.Frames.Advance(t.Context(), "f", state, "because"))
	}
}

func allStates() []DeliveryState {
	return []DeliveryState{Claimed, FrameWritten, Accepted, Cut, Done, Cancelled, Failed, Dropped, TakenByAgent}
}

func mustDelivery(t *testing.T, l *Ledger, uuid string) Delivery {
	t.Helper()
	list, err := l.Deliveries.List(t.Context(), DeliveryQuery{})
	must(t, err)
	for _, d := range list {
		if d.UUID == uuid {
			return d
		}
	}
	t.Fatalf("no delivery %s", uuid)
	return Delivery{}
}

func mustFrame(t *testing.T, l *Ledger, uuid string) Frame {
	t.Helper()
	f, found, err := l.Frames.Frame(t.Context(), uuid)
	must(t, err)
	if !found {
		t.Fatalf("no frame %s", uuid)
	}
	return f
}

// wantStates checks deliveries and frames: "d1 done", "n1 written".
func wantStates(t *testing.T, l *Ledger, want ...string) {
	t.Helper()
	for _, line := range want {
		uuid, state, _ := strings.Cut(line, " ")
		var got string
		must(t, query(l, func(v sqlite.Row) {
			got = v.Text(0)
		}, "SELECT state FROM deliveries WHERE uuid='"+uuid+"' UNION ALL SELECT state FROM frames WHERE uuid='"+uuid+"'"))
		if got != state {
			t.Errorf("%s is %q, want %q", uuid, got, state)
		}
	}
}

func uuids(ds []Delivery) (list []string) {
	for _, d := range ds {
		list = append(list, d.UUID)
	}
	return list
}

// dump returns the content of all tables of the relay.
func dump(t *testing.T, l *Ledger) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{"inboxes", "deliveries", "contents", "pruned", "frames", "lines", "sessions"} {
		var columns []string
		must(t, query(l, func(v sqlite.Row) {
			columns = append(columns, "quote("+v.Text(1)+")")
		}, "PRAGMA table_info("+table+")"))
		must(t, query(l, func(v sqlite.Row) {
			fmt.Fprintln(&b, table, v.Text(0))
		}, "SELECT "+strings.Join(columns, "||' '||")+" FROM "+table+" ORDER BY 1"))
	}
	return b.String()
}

// wantRefused runs a step that must fail with a StateError and change nothing.
func wantRefused(t *testing.T, l *Ledger, step func() error) {
	t.Helper()
	before := dump(t, l)
	var refused *StateError
	if err := step(); !errors.As(err, &refused) {
		t.Errorf("got %v, want a StateError", err)
	} else if refused.UUID == "" || refused.State == "" || refused.Want == "" {
		t.Errorf("%#v says too little", refused)
	}
	if diff := cmp.Diff(before, dump(t, l)); diff != "" {
		t.Errorf("it was refused and changed (-before +after):\n%s", diff)
	}
}

// wantUnchanged runs a step that must change nothing, and fail with want if that is not nil.
func wantUnchanged(t *testing.T, l *Ledger, want error, step func() error) {
	t.Helper()
	before := dump(t, l)
	if err := step(); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if diff := cmp.Diff(before, dump(t, l)); diff != "" {
		t.Errorf("it changed (-before +after):\n%s", diff)
	}
}

// A delivery keeps its content in every step from Claim to its end.
func TestDeliveryOnItsWay(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, path)
		ds := []Delivery{aRow("r"), anInput("i")}
		ds[0].Marked, ds[0].State, ds[0].Frame, ds[0].Reason, ds[0].Seq = true, Done, "x", "x", 99 // not read by Claim
		must(t, l.Deliveries.Claim(t.Context(), ds...))
		row, input := aRow("r"), anInput("i")
		row.Seq, input.Seq, row.State, input.State, input.Marked = 1, 2, Claimed, Claimed, true
		check := func(what string) {
			t.Helper()
			got, err := l.Deliveries.List(t.Context(), DeliveryQuery{})
			must(t, err)
			if diff := cmp.Diff([]Delivery{input, row}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", what, diff)
			}
		}
		if ds[0].Seq != 1 || ds[1].Seq != 2 {
			t.Errorf("claimed with seq %d, %d; want 1, 2", ds[0].Seq, ds[1].Seq)
		}
		check("claimed")

		must(t, l.Deliveries.Mark(t.Context(), "r"))
		row.Marked = true
		check("marked")

		f := aFrame("f")
		must(t, l.Frames.Commit(t.Context(), f, "i", "r"))
		row.Frame, row.State, row.At = "f", FrameWritten, f.At
		input.Frame, input.State, input.At = "f", FrameWritten, f.At
		f.State = FrameWritten
		check("written")

		for _, state := range []DeliveryState{Accepted, Cut, Done} {
			time.Sleep(time.Minute) // of the bubble's clock
			must(t, l.Frames.Advance(t.Context(), "f", state, "why "+string(state)))
			row.State, row.Reason, row.At = state, "why "+string(state), time.Now().UTC()
			input.State, input.Reason, input.At = row.State, row.Reason, row.At
			f.State, f.Reason, f.At = row.State, row.Reason, row.At
			check(string(state))
			if diff := cmp.Diff(f, mustFrame(t, l, "f")); diff != "" {
				t.Errorf("frame (-want +got):\n%s", diff)
			}
		}
		must(t, l.Close())
		l = mustOpen(t, path)
		check("after opening it again")
	})
}

func TestZeroTimeIsNow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	synctest.Test(t, func(t *testing.T) {
		l, now := mustOpen(t, path), time.Now().UTC()
		d, f, s := anInput("i"), aFrame("f"), aSession()
		d.At, f.At, s.At = time.Time{}, time.Time{}, time.Time{}
		must(t, l.Deliveries.Claim(t.Context(), d))
		if got := mustDelivery(t, l, "i").At; !got.Equal(now) {
			t.Errorf("claimed at %v, want %v", got, now)
		}
		must(t, l.Frames.Commit(t.Context(), f, "i"))
		if got := mustFrame(t, l, "f").At; !got.Equal(now) {
			t.Errorf("committed at %v, want %v", got, now)
		}
		must(t, l.Sessions.SetSession(t.Context(), s))
		got, _, err := l.Sessions.Session(t.Context(), bob)
		must(t, err)
		if !got.At.Equal(now) {
			t.Errorf("session at %v, want %v", got.At, now)
		}
	})
}

func TestEnded(t *testing.T) {
	t.Parallel()
	ended := map[DeliveryState]bool{Done: true, Cancelled: true, Failed: true, Dropped: true, TakenByAgent: true}
	for _, state := range allStates() {
		if state.Ended() != ended[state] {
			t.Errorf("%s: ended %v, want %v", state, state.Ended(), ended[state])
		}
		l := newLedger(t)
		bring(t, l, state)
		open, err := l.Deliveries.OpenCount(t.Context(), bob)
		must(t, err)
		if (open == 0) != ended[state] {
			t.Errorf("%s: %d open", state, open)
		}
	}
}

func TestClaimAgainLeavesWhatIsThere(t *testing.T) {
	t.Parallel()
	for _, state := range allStates() {
		t.Run(string(state), func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			bring(t, l, state)
			again := aRow("d")
			again.Raw, again.At, again.From = []byte("as it stands now"), tuesday, "eve"
			ds := []Delivery{again}
			wantUnchanged(t, l, nil, func() error { return l.Deliveries.Claim(t.Context(), ds...) })
			if ds[0].Seq != 1 {
				t.Errorf("seq %d, want 1", ds[0].Seq)
			}
		})
	}
}

func TestClaimRefusesAnotherUnderTheSameUUID(t *testing.T) {
	t.Parallel()
	change := func(d Delivery, f func(*Delivery)) Delivery { f(&d); return d }
	tests := map[string]Delivery{
		"another key":                        change(aRow("r"), func(d *Delivery) { d.Key = "other" }),
		"another occurrence":                 change(aRow("r"), func(d *Delivery) { d.Occurrence = 2 }),
		"a person's for a row's":             anInput("r"),
		"a row's for a person's":             aRow("i"),
		"another text of a person":           change(anInput("i"), func(d *Delivery) { d.Raw = []byte("break it") }),
		"the same row under another uuid":    change(aRow("r"), func(d *Delivery) { d.UUID = "r2" }),
		"the same row of another root":       change(aRow("r"), func(d *Delivery) { d.InboxKey = otherPosts()[0] }),
		"the same input to another member":   change(anInput("i"), func(d *Delivery) { d.InboxKey = otherPosts()[3] }),
		"the same row of a later team":       change(aRow("r"), func(d *Delivery) { d.InboxKey = otherPosts()[2] }),
		"the same row of a team named alike": change(aRow("r"), func(d *Delivery) { d.InboxKey = otherPosts()[1] }),
	}
	for name, second := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(t)
			must(t, l.Deliveries.Claim(t.Context(), aRow("r"), anInput("i")))
			// The row before it could be claimed: either all are claimed, or none.
			wantUnchanged(t, l, ErrConflict, func() error { return l.Deliveries.Claim(t.Context(), aRow("new"), second) })
		})
	}
}

// Occurrences counts the claimed rows with a key, separately for each inbox.
func TestRowsOfOneKey(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	occurrences := func(p inbox.InboxKey, key string, want int) {
		t.Helper()
		if n, err := l.Deliveries.Occurrences(t.Context(), p, key); err != nil || n != want {
			t.Errorf("%v %q: %d occurrences, %v; want %d", p, key, n, err, want)
		}
	}
	occurrences(bob, "k", 0)
	for i := 1; i <= 3; i++ {
		d := aRow(fmt.Sprint("d", i))
		d.Key, d.Occurrence = "k", i
		must(t, l.Deliveries.Claim(t.Context(), d))
		occurrences(bob, "k", i)
	}
	must(t, l.Deliveries.Claim(t.Context(), anInput("i")))
	occurrences(bob, "other", 0)
	occurrences(bob, "", 0)
	for i, p := range otherPosts() {
		occurrences(p, "k", 0)
		d := aRow(fmt.Sprint("other", i))
		d.InboxKey, d.Key = p, "k"
		must(t, l.Deliveries.Claim(t.Context(), d))
		occurrences(p, "k", 1)
	}
	occurrences(bob, "k", 3)

	// A pruned row still counts as claimed.
	must(t, l.Deliveries.End(t.Context(), Done, "noise", "d1", "d2", "d3", "other0"))
	if n, err := l.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 4 {
		t.Fatalf("pruned %d, %v; want 4", n, err)
	}
	occurrences(bob, "k", 3)
	occurrences(otherPosts()[0], "k", 1)
	occurrences(otherPosts()[1], "k", 1)
	d := aRow("d4")
	d.Key, d.Occurrence = "k", 4
	must(t, l.Deliveries.Claim(t.Context(), d))
	occurrences(bob, "k", 4)
	must(t, l.Deliveries.End(t.Context(), Done, "noise", "d4"))
	_, err := l.Prune(t.Context(), time.Now().Add(time.Hour))
	must(t, err)
	occurrences(bob, "k", 4)
}

func TestSeqIsNeverUsedAgain(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	last := int64(0)
	for i := range 5 {
		ds := []Delivery{aRow(fmt.Sprint("a", i)), aRow(fmt.Sprint("b", i))}
		must(t, l.Deliveries.Claim(t.Context(), ds...))
		if ds[0].Seq <= last || ds[1].Seq <= ds[0].Seq {
			t.Fatalf("seq %d, %d after %d", ds[0].Seq, ds[1].Seq, last)
		}
		last = ds[1].Seq
		must(t, l.Deliveries.End(t.Context(), Done, "", ds[0].UUID, ds[1].UUID))
		if n, err := l.Prune(t.Context(), time.Now().Add(time.Hour)); err != nil || n != 2 {
			t.Fatalf("pruned %d, %v; want 2", n, err)
		}
	}
}

// Marked rows and prompts wait until a frame has them, and unmarked rows are listed to be marked.
func TestWhatIsUnmarkedAndWhatWaits(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	other := aRow("elsewhere")
	other.InboxKey = otherPosts()[3]
	must(t, l.Deliveries.Claim(t.Context(), aRow("r1"), aRow("r2"), other, anInput("i1"), aRow("r3"), anInput("i2"), aRow("r4")))
	check := func(unmarked, waiting string) {
		t.Helper()
		u, err := l.Deliveries.Unmarked(t.Context(), bob)
		must(t, err)
		w, err := l.Deliveries.Waiting(t.Context(), bob)
		must(t, err)
		if got := strings.Join(uuids(u), " "); got != unmarked {
			t.Errorf("unmarked: %s; want %s", got, unmarked)
		}
		if got := strings.Join(uuids(w), " "); got != waiting {
			t.Errorf("waiting: %s; want %s", got, waiting)
		}
	}
	check("r1 r2 r3 r4", "i1 i2")
	must(t, l.Deliveries.Mark(t.Context(), "r4", "r2", "elsewhere", "r2"))
	check("r1 r3", "i1 i2 r2 r4")
	must(t, l.Deliveries.End(t.Context(), TakenByAgent, "", "r1", "r4"))
	check("r3", "i1 i2 r2")
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "i1", "r2"))
	check("r3", "i2")
	must(t, l.Frames.Advance(t.Context(), "f", Failed, "agent died"))
	check("r3", "i2")
	must(t, l.Deliveries.Retry(t.Context(), "r2"))
	must(t, l.Deliveries.Retry(t.Context(), "i1"))
	check("r3", "i1 i2 r2")

	wantUnchanged(t, l, ErrUnknown, func() error { return l.Deliveries.Mark(t.Context(), "r3", "nobody") })
	// If a person retries a delivery whose claim was interrupted, it is delivered.
	must(t, l.Deliveries.End(t.Context(), Failed, "too large", "r3"))
	check("", "i1 i2 r2")
	must(t, l.Deliveries.Retry(t.Context(), "r3"))
	check("", "i1 i2 r2 r3")
}

// Settle, Retry and Drop, which persons use, are accepted or refused in each state of a delivery.
func TestSettleRetryAndDropInEachState(t *testing.T) {
	t.Parallel()
	type step struct {
		name string
		do   func(*Ledger, context.Context) error
		to   map[DeliveryState]DeliveryState // from → to; all others are refused
	}
	end := func(s DeliveryState) func(*Ledger, context.Context) error {
		return func(l *Ledger, ctx context.Context) error { return l.Deliveries.End(ctx, s, "so", "d") }
	}
	for _, step := range []step{
		{"end as taken", end(TakenByAgent), map[DeliveryState]DeliveryState{Claimed: TakenByAgent, TakenByAgent: TakenByAgent}},
		{"end as failed", end(Failed), map[DeliveryState]DeliveryState{Claimed: Failed}},
		{"end as dropped", end(Dropped), map[DeliveryState]DeliveryState{Claimed: Dropped, Dropped: Dropped}},
		{"end as done", end(Done), map[DeliveryState]DeliveryState{Claimed: Done}},
		{"end as cancelled", end(Cancelled), map[DeliveryState]DeliveryState{Claimed: Cancelled}},
		{"retry", func(l *Ledger, ctx context.Context) error { return l.Deliveries.Retry(ctx, "d") }, map[DeliveryState]DeliveryState{Failed: Claimed}},
		{"drop", func(l *Ledger, ctx context.Context) error { return l.Deliveries.Drop(ctx, "d") }, map[DeliveryState]DeliveryState{Claimed: Dropped, Failed: Dropped}},
	} {
		for _, from := range allStates() {
			t.Run(step.name+" from "+string(from), func(t *testing.T) {
				t.Parallel()
				l := newLedger(t)
				bring(t, l, from)
				was := mustDelivery(t, l, "d")
				to, allowed := step.to[from]
				do := func() error { return step.do(l, t.Context()) }
				switch {
				case !allowed:
					wantRefused(t, l, do)
					return
				case to == from:
					wantUnchanged(t, l, nil, do)
					return
				}
				must(t, do())
				got := mustDelivery(t, l, "d")
				if got.State != to || got.Seq != was.Seq || to == Claimed && (got.Frame != "" || got.Reason != "") {
					t.Errorf("got %+v, want it %s", got, to)
				}
				if to == Claimed { // the delivery can be sent again
					must(t, l.Frames.Commit(t.Context(), aFrame("f2"), "d"))
					if f := mustFrame(t, l, "f2"); f.Tries != 0 || f.Deaths != 0 {
						t.Errorf("the new frame begins with %d tries and %d deaths", f.Tries, f.Deaths)
					}
				}
			})
		}
	}
}

func TestSettleIsAllOrNone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	claimRows(t, l, "a", "b", "c")
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "c"))
	wantRefused(t, l, func() error { return l.Deliveries.End(t.Context(), Cancelled, "", "a", "b", "c") })
	wantUnchanged(t, l, ErrUnknown, func() error { return l.Deliveries.End(t.Context(), Cancelled, "", "a", "nobody") })
	must(t, l.Deliveries.End(t.Context(), Cancelled, "taken back", "a", "b"))
	if d := mustDelivery(t, l, "b"); d.State != Cancelled || d.Reason != "taken back" {
		t.Errorf("got %+v", d)
	}
	wantUnchanged(t, l, ErrUnknown, func() error { return l.Deliveries.Retry(t.Context(), "nobody") })
	wantUnchanged(t, l, ErrUnknown, func() error { return l.Deliveries.Drop(t.Context(), "nobody") })
}

func TestAdvanceFromEachStateToEach(t *testing.T) {
	t.Parallel()
	for _, from := range []DeliveryState{FrameWritten, Accepted, Cut, Done, Cancelled, Failed} {
		for _, to := range append(allStates(), "", "nonsense") {
			t.Run(fmt.Sprint(from, " to ", to), func(t *testing.T) {
				t.Parallel()
				l := newLedger(t)
				bring(t, l, from)
				advance := func() error { return l.Frames.Advance(t.Context(), "f", to, "so") }
				switch to {
				case Accepted, Cut, Done, Cancelled, Failed:
				default:
					var bad *ValueError
					before := dump(t, l)
					if err := advance(); !errors.As(err, &bad) || dump(t, l) != before {
						t.Errorf("got %v, want a ValueError and no change", err)
					}
					return
				}
				switch {
				case from == to:
					wantUnchanged(t, l, nil, advance)
				case from.Ended():
					wantRefused(t, l, advance)
				default:
					must(t, advance())
					wantStates(t, l, "f "+string(to), "d "+string(to))
					if f, d := mustFrame(t, l, "f"), mustDelivery(t, l, "d"); f.Reason != "so" || d.Reason != "so" {
						t.Errorf("reasons %q and %q, want so", f.Reason, d.Reason)
					}
				}
			})
		}
	}
}

func TestAdvanceLeavesOtherDeliveriesAlone(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	claimRows(t, l, "a", "b", "c")
	must(t, l.Frames.Commit(t.Context(), aFrame("f1"), "a"))
	must(t, l.Frames.Advance(t.Context(), "f1", Done, ""))
	must(t, l.Frames.Commit(t.Context(), aFrame("f2"), "b"))
	must(t, l.Frames.Advance(t.Context(), "f2", Failed, ""))
	wantStates(t, l, "a done", "b failed", "c claimed")
	wantUnchanged(t, l, ErrUnknown, func() error { return l.Frames.Advance(t.Context(), "nobody", Done, "") })

	// A delivery that a person dropped after its frame had failed stays dropped.
	must(t, l.Deliveries.Drop(t.Context(), "b"))
	must(t, l.Frames.Advance(t.Context(), "f2", Failed, ""))
	wantStates(t, l, "b dropped")
}

func TestCommitRefuses(t *testing.T) {
	t.Parallel()
	// f is in flight with d; free is claimed, raw is unmarked, gone is dropped, and far is in another inbox.
	prepare := func(t *testing.T, inFlight bool) *Ledger {
		l := newLedger(t)
		far := aRow("far")
		far.InboxKey = otherPosts()[0]
		claimRows(t, l, "free", "gone", "d")
		must(t, l.Deliveries.Claim(t.Context(), aRow("raw"), far))
		must(t, l.Deliveries.Mark(t.Context(), "far"))
		must(t, l.Deliveries.Drop(t.Context(), "gone"))
		must(t, l.Frames.Commit(t.Context(), aFrame("f"), "d"))
		if !inFlight {
			must(t, l.Frames.Advance(t.Context(), "f", Done, ""))
		}
		return l
	}
	elsewhere := aNudge("n", "f")
	elsewhere.InboxKey = otherPosts()[1]
	other := aFrame("f")
	other.Bytes = []byte("other")
	command := aFrame("f")
	command.Kind = FrameCommand
	for _, test := range []struct {
		name       string
		inFlight   bool
		frame      Frame
		deliveries []string
		want       error // nil for a StateError
	}{
		{"a second chain", true, aFrame("g"), []string{"free"}, nil},
		{"an unmarked row", false, aFrame("g"), []string{"free", "raw"}, nil},
		{"a dropped one", false, aFrame("g"), []string{"free", "gone"}, nil},
		{"one that is done", false, aFrame("g"), []string{"d"}, nil},
		{"one twice", false, aFrame("g"), []string{"free", "free"}, nil},
		{"an unknown one", false, aFrame("g"), []string{"free", "nobody"}, ErrUnknown},
		{"one of another inbox", false, aFrame("g"), []string{"free", "far"}, errValue},
		{"a nudge for what is done", false, aNudge("n", "f"), nil, nil},
		{"a nudge for nothing", true, aNudge("n", "nobody"), nil, ErrUnknown},
		{"a nudge in another inbox", true, elsewhere, nil, errValue},
		{"the uuid of a frame that ended", false, aFrame("f"), []string{"d"}, nil},
		{"the same uuid, other bytes", true, other, []string{"d"}, ErrConflict},
		{"the same uuid, other kind", true, command, []string{"d"}, ErrConflict},
		{"the same uuid, other deliveries", true, aFrame("f"), []string{"free"}, ErrConflict},
		{"the same uuid, more deliveries", true, aFrame("f"), []string{"d", "free"}, ErrConflict},
		{"the same uuid, a nudge", true, aNudge("f", "f"), nil, ErrConflict},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := prepare(t, test.inFlight)
			commit := func() error { return l.Frames.Commit(t.Context(), test.frame, test.deliveries...) }
			switch {
			case test.want == nil:
				wantRefused(t, l, commit)
			case errors.Is(test.want, errValue):
				wantUnchanged(t, l, errValue, func() error {
					var bad *ValueError
					if err := commit(); !errors.As(err, &bad) {
						return err
					}
					return errValue
				})
			default:
				wantUnchanged(t, l, test.want, commit)
			}
		})
	}
}

var errValue = errors.New("a ValueError")

func TestCommitAgainChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	claimRows(t, l, "a", "b")
	must(t, l.Frames.Commit(t.Context(), aFrame("f"), "a", "b"))
	must(t, l.Frames.Tried(t.Context(), "f", "session-9"))
	again := aFrame("f")
	again.Session, again.At = "later", tuesday
	wantUnchanged(t, l, nil, func() error { return l.Frames.Commit(t.Context(), again, "a", "b") })
	wantUnchanged(t, l, ErrConflict, func() error { return l.Frames.Commit(t.Context(), again, "a") })

	must(t, l.Frames.Commit(t.Context(), aNudge("n", "f")))
	wantUnchanged(t, l, nil, func() error { return l.Frames.Commit(t.Context(), aNudge("n", "f")) })
}

// A nudge about a cut frame is in flight in its place. Once the nudge is done, or the frame ends, both have ended.
func TestNudges(t *testing.T) {
	t.Parallel()
	inFlight := func(t *testing.T, l *Ledger, want string) Frame {
		t.Helper()
		f, found, err := l.Frames.InFlight(t.Context(), bob)
		must(t, err)
		if f.UUID != want || found != (want != "") {
			t.Fatalf("in flight: %q, %v; want %q", f.UUID, found, want)
		}
		return f
	}
	// cut returns a ledger with frame f of a and b, which was accepted and cut, and nudge n1 about it.
	cut := func(t *testing.T) *Ledger {
		l := newLedger(t)
		inFlight(t, l, "")
		claimRows(t, l, "a", "b", "c")
		must(t, l.Frames.Commit(t.Context(), aFrame("f"), "a", "b"))
		must(t, l.Frames.Advance(t.Context(), "f", Accepted, ""))
		inFlight(t, l, "f")
		must(t, l.Frames.Commit(t.Context(), aNudge("n1", "f")))
		wantStates(t, l, "f cut", "a cut", "b cut", "c claimed", "n1 written")
		if got := inFlight(t, l, "n1"); got.Kind != FrameNudge || got.Parent != "f" || !bytes.Equal(got.Bytes, aNudge("n1", "f").Bytes) {
			t.Errorf("got %+v", got)
		}
		if f := mustFrame(t, l, "f"); f.Nudges != 1 {
			t.Errorf("%d nudges, want 1", f.Nudges)
		}
		return l
	}
	t.Run("done ends its frame", func(t *testing.T) {
		t.Parallel()
		l := cut(t)
		must(t, l.Frames.Advance(t.Context(), "n1", Accepted, ""))
		wantStates(t, l, "f cut", "a cut", "n1 accepted")
		must(t, l.Frames.Advance(t.Context(), "n1", Done, ""))
		wantStates(t, l, "f done", "a done", "b done", "c claimed", "n1 done")
		inFlight(t, l, "")
		must(t, l.Frames.Commit(t.Context(), aFrame("g"), "c"))
	})
	for _, end := range []DeliveryState{Cancelled, Failed} {
		t.Run(string(end)+" leaves its frame cut", func(t *testing.T) {
			t.Parallel()
			l := cut(t)
			must(t, l.Frames.Advance(t.Context(), "n1", end, "so"))
			wantStates(t, l, "f cut", "a cut", "n1 "+string(end))
			inFlight(t, l, "f")
			must(t, l.Frames.Commit(t.Context(), aNudge("n2", "f")))
			inFlight(t, l, "n2")
		})
	}
	for _, end := range []DeliveryState{Done, Cancelled, Failed} {
		t.Run("the frame "+string(end)+" ends its nudge", func(t *testing.T) {
			t.Parallel()
			l := cut(t)
			must(t, l.Frames.Advance(t.Context(), "f", end, "so"))
			s := " " + string(end)
			wantStates(t, l, "f"+s, "a"+s, "b"+s, "n1"+s)
			inFlight(t, l, "")
		})
	}
	t.Run("a further one waits until the last was cut", func(t *testing.T) {
		t.Parallel()
		l := cut(t)
		commit := func() error { return l.Frames.Commit(t.Context(), aNudge("n2", "f")) }
		wantRefused(t, l, commit)
		must(t, l.Frames.Advance(t.Context(), "n1", Accepted, ""))
		wantRefused(t, l, commit)
		must(t, l.Frames.Advance(t.Context(), "n1", Cut, ""))
		inFlight(t, l, "n1")
		must(t, commit())
		inFlight(t, l, "n2")
		wantStates(t, l, "f cut", "a cut", "n1 failed", "n2 written")
		if f := mustFrame(t, l, "f"); f.Nudges != 2 {
			t.Errorf("%d nudges, want 2", f.Nudges)
		}
		must(t, l.Frames.Advance(t.Context(), "n2", Done, ""))
		wantStates(t, l, "f done", "b done", "n1 failed", "n2 done")
	})
	t.Run("about a nudge is refused", func(t *testing.T) {
		t.Parallel()
		l := cut(t)
		must(t, l.Frames.Advance(t.Context(), "n1", Cut, ""))
		var bad *ValueError
		if err := l.Frames.Commit(t.Context(), aNudge("n2", "n1")); !errors.As(err, &bad) {
			t.Errorf("got %v, want a ValueError", err)
		}
		inFlight(t, l, "n1")
	})
	t.Run("of one inbox are no matter of another", func(t *testing.T) {
		t.Parallel()
		l := cut(t)
		for i, p := range otherPosts() {
			d, f := anInput(fmt.Sprint("i", i)), aFrame(fmt.Sprint("g", i))
			d.InboxKey, f.InboxKey = p, p
			must(t, l.Deliveries.Claim(t.Context(), d))
			must(t, l.Frames.Commit(t.Context(), f, d.UUID))
			got, found, err := l.Frames.InFlight(t.Context(), p)
			if err != nil || !found || got.UUID != f.UUID {
				t.Errorf("%v: in flight %q, %v, %v", p, got.UUID, found, err)
			}
		}
		must(t, l.Frames.Advance(t.Context(), "n1", Done, ""))
		inFlight(t, l, "")
		wantStates(t, l, "g0 written", "i0 written", "g3 written")
	})
}

// The file itself enforces that each inbox has one chain of frames.
func TestTheFileHoldsOneChainForEachInbox(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	bring(t, l, FrameWritten)
	for kind, stopped := range map[string]bool{"message": true, "command": true, "nudge": false} {
		err := run(l, "INSERT INTO frames SELECT 'x-"+kind+"', inbox_id, '"+kind+"', '', '', 'accepted', '', 0, 0, 0, 0 FROM frames WHERE uuid='f'")
		if (err != nil) != stopped {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestTriesAndDeaths(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	bring(t, l, FrameWritten)
	must(t, l.Frames.Tried(t.Context(), "f", "one"))
	must(t, l.Frames.Advance(t.Context(), "f", Accepted, ""))
	for i := 1; i <= 3; i++ {
		f, err := l.Frames.Died(t.Context(), "f")
		must(t, err)
		if f.Deaths != i || f.State != Accepted || !bytes.Equal(f.Bytes, aFrame("f").Bytes) {
			t.Errorf("death %d gave %+v", i, f)
		}
	}
	must(t, l.Frames.Tried(t.Context(), "f", "two"))
	want := aFrame("f")
	got := mustFrame(t, l, "f")
	want.State, want.Tries, want.Deaths, want.Session, want.At = Accepted, 2, 3, "two", got.At
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frame (-want +got):\n%s", diff)
	}

	died := func(uuid string) func() error {
		return func() error { _, err := l.Frames.Died(t.Context(), uuid); return err }
	}
	wantUnchanged(t, l, ErrUnknown, died("nobody"))
	wantUnchanged(t, l, ErrUnknown, func() error { return l.Frames.Tried(t.Context(), "nobody", "x") })
	must(t, l.Frames.Advance(t.Context(), "f", Done, ""))
	wantRefused(t, l, died("f"))
	wantRefused(t, l, func() error { return l.Frames.Tried(t.Context(), "f", "x") })
	if _, found, err := l.Frames.Frame(t.Context(), "nobody"); found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
}

func TestRelayValuesThatCannotBeKept(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	claimRows(t, l, "free")
	huge := make([]byte, maxContent+1)
	claim := func(field string, from Delivery, change func(*Delivery)) (string, func() error) {
		change(&from)
		return field, func() error { return l.Deliveries.Claim(t.Context(), from) }
	}
	commit := func(field string, change func(*Frame), deliveries ...string) (string, func() error) {
		f := aFrame("f")
		change(&f)
		return field, func() error { return l.Frames.Commit(t.Context(), f, deliveries...) }
	}
	before := dump(t, l)
	check := func(field string, step func() error) {
		t.Helper()
		var bad *ValueError
		if err := step(); !errors.As(err, &bad) || bad.Field != field {
			t.Errorf("got %v, want a ValueError for %s", err, field)
		}
		if dump(t, l) != before {
			t.Errorf("a bad %s changed something", field)
		}
	}
	check(claim("root", aRow("r"), func(d *Delivery) { d.Root = "" }))
	check(claim("team", aRow("r"), func(d *Delivery) { d.Team = " " }))
	check(claim("inbox", anInput("i"), func(d *Delivery) { d.Inbox = strings.Repeat("x", sqlite.MaxName+1) }))
	check(claim("uuid", aRow(""), func(d *Delivery) {}))
	check(claim("key", aRow("r"), func(d *Delivery) { d.Key = "" }))
	check(claim("key", anInput("i"), func(d *Delivery) { d.Key = "k" }))
	check(claim("occurrence", aRow("r"), func(d *Delivery) { d.Occurrence = 0 }))
	check(claim("raw", aRow("r"), func(d *Delivery) { d.Raw = huge }))
	check(claim("mode", anInput("i"), func(d *Delivery) { d.Mode = huge }))
	check(commit("inbox", func(f *Frame) { f.Inbox = "" }, "free"))
	check(commit("uuid", func(f *Frame) { f.UUID = "\t" }, "free"))
	check(commit("kind", func(f *Frame) { f.Kind = "" }, "free"))
	check(commit("parent", func(f *Frame) { f.Parent = "x" }, "free"))
	check(commit("parent", func(f *Frame) { f.Kind = FrameNudge }))
	check(commit("deliveries", func(f *Frame) { f.Kind, f.Parent = FrameNudge, "x" }, "free"))
	check(commit("deliveries", func(*Frame) {}))
	check(commit("bytes", func(f *Frame) { f.Bytes = nil }, "free"))
	check(commit("bytes", func(f *Frame) { f.Bytes = []byte("{}\n") }, "free"))
	check(commit("bytes", func(f *Frame) { f.Bytes = huge }, "free"))
	for _, s := range []DeliveryState{Claimed, FrameWritten, Accepted, Cut, "", "x"} {
		check("state", func() error { return l.Deliveries.End(t.Context(), s, "", "free") })
	}
	check("team", func() error {
		return l.Sessions.SetSession(t.Context(), Session{InboxKey: inbox.InboxKey{Root: "/r", Inbox: "b"}})
	})
	for _, ask := range []func() error{
		func() error { _, err := l.Deliveries.Unmarked(t.Context(), inbox.InboxKey{}); return err },
		func() error { _, err := l.Deliveries.Waiting(t.Context(), inbox.InboxKey{}); return err },
		func() error { _, err := l.Deliveries.Occurrences(t.Context(), inbox.InboxKey{}, "k"); return err },
		func() error { _, err := l.Deliveries.OpenCount(t.Context(), inbox.InboxKey{}); return err },
		func() error { _, _, err := l.Frames.InFlight(t.Context(), inbox.InboxKey{}); return err },
		func() error { _, _, err := l.Sessions.Session(t.Context(), inbox.InboxKey{}); return err },
	} {
		check("root", ask)
	}
}

func TestHostileAndLargeContentsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	large := bytes.Repeat([]byte("Größe \x00\xff "), 128<<10/11)
	d := aRow("\xff'; DROP TABLE frames; --")
	d.Raw, d.From, d.Kind, d.ID = large, strings.Repeat("ü\x00", 64<<10), "\xfe", "\x00"
	f := aFrame("\x00")
	f.Bytes = large
	must(t, l.Deliveries.Claim(t.Context(), d))
	must(t, l.Deliveries.Mark(t.Context(), d.UUID))
	must(t, l.Frames.Commit(t.Context(), f, d.UUID))
	must(t, l.Frames.Advance(t.Context(), f.UUID, Failed, strings.Repeat("long ", 50_000)))
	must(t, l.Close())

	l = mustOpen(t, path)
	got, gotFrame := mustDelivery(t, l, d.UUID), mustFrame(t, l, f.UUID)
	if !bytes.Equal(got.Raw, large) || got.From != d.From || got.Kind != d.Kind || got.ID != d.ID || len(got.Reason) != 250_000 {
		t.Error("the delivery came back changed")
	}
	if !bytes.Equal(gotFrame.Bytes, large) {
		t.Error("the frame came back changed")
	}
}

func TestDeliveriesAreFound(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ds := []Delivery{aRow("b1"), aRow("b2"), anInput("b3")}
	for i, p := range otherPosts() {
		d := aRow(fmt.Sprint("o", i))
		d.InboxKey = p
		ds = append(ds, d)
	}
	must(t, l.Deliveries.Claim(t.Context(), ds...))
	must(t, l.Deliveries.End(t.Context(), Failed, "", "b2", "o3"))
	must(t, l.Deliveries.Drop(t.Context(), "b1"))
	for _, test := range []struct {
		query DeliveryQuery
		want  string
	}{
		{DeliveryQuery{}, "o3 o2 o1 o0 b3 b2 b1"},
		{DeliveryQuery{Limit: 2}, "o3 o2"},
		{DeliveryQuery{Limit: -1}, "o3 o2 o1 o0 b3 b2 b1"},
		{DeliveryQuery{Root: bob.Root}, "o3 o2 o1 b3 b2 b1"},
		{DeliveryQuery{Team: bob.Team}, "o3 o2 o0 b3 b2 b1"},
		{DeliveryQuery{CreatedAt: bob.CreatedAt}, "o3 o1 o0 b3 b2 b1"},
		{DeliveryQuery{Inbox: bob.Inbox}, "o2 o1 o0 b3 b2 b1"},
		{DeliveryQuery{bob.Root, bob.Team, bob.CreatedAt, bob.Inbox, nil, 2, ""}, "b3 b2"},
		{DeliveryQuery{UUID: "o3"}, "o3"},
		{DeliveryQuery{States: []DeliveryState{Failed}}, "o3 b2"},
		{DeliveryQuery{States: []DeliveryState{Failed, Dropped}}, "o3 b2 b1"},
		{DeliveryQuery{Inbox: bob.Inbox, States: []DeliveryState{Failed, Dropped}, Limit: 1}, "b2"},
		{DeliveryQuery{States: []DeliveryState{"') OR true --"}}, ""},
		{DeliveryQuery{Inbox: "' OR true --"}, ""},
	} {
		got, err := l.Deliveries.List(t.Context(), test.query)
		must(t, err)
		if got := strings.Join(uuids(got), " "); got != test.want {
			t.Errorf("%+v: %s; want %s", test.query, got, test.want)
		}
	}
	if n, err := l.Deliveries.OpenCount(t.Context(), bob); err != nil || n != 1 {
		t.Errorf("%d open, %v; want 1", n, err)
	}
	if n, err := l.Deliveries.OpenCount(t.Context(), inbox.InboxKey{Root: "/nowhere", Team: "x", CreatedAt: 1, Inbox: "y"}); err != nil || n != 0 {
		t.Errorf("%d open, %v; want 0", n, err)
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	if _, found, err := l.Sessions.Session(t.Context(), bob); found || err != nil {
		t.Fatalf("found %v, %v", found, err)
	}
	first := aSession()
	must(t, l.Sessions.SetSession(t.Context(), first))
	var others []Session
	for i, p := range otherPosts() {
		others = append(others, Session{InboxKey: p, ID: fmt.Sprint("s", i), At: tuesday})
		must(t, l.Sessions.SetSession(t.Context(), others[i]))
	}
	second := Session{InboxKey: bob, ID: "session-3", At: tuesday, Mode: []byte(`{"model":"sonnet"}`)}
	for _, want := range []Session{first, second} {
		must(t, l.Sessions.SetSession(t.Context(), want))
		got, found, err := l.Sessions.Session(t.Context(), bob)
		must(t, err)
		if diff := cmp.Diff(want, got); !found || diff != "" {
			t.Errorf("found %v (-want +got):\n%s", found, diff)
		}
	}
	for root, want := range map[string][]Session{
		bob.Root:       {second, others[3], others[2], others[1]}, // by team, age, inbox
		bob.Root + "2": {others[0]},
		"/nowhere":     nil,
		"":             {second, others[3], others[2], others[1], others[0]},
	} {
		got, err := l.Sessions.List(t.Context(), root)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sessions of %q (-want +got):\n%s", root, diff)
		}
	}
}

func TestPruneForgetsWhatEndedAndNothingOpen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	synctest.Test(t, func(t *testing.T) {
		l := mustOpen(t, path)
		claimRows(t, l, "done", "failed", "late", "cut", "claimed", "taken")
		must(t, l.Deliveries.Claim(t.Context(), aRow("unmarked")))
		must(t, l.Deliveries.End(t.Context(), TakenByAgent, "", "taken"))
		must(t, l.Frames.Commit(t.Context(), aFrame("f1"), "done", "failed"))
		must(t, l.Frames.Commit(t.Context(), aNudge("n1", "f1")))
		must(t, l.Frames.Advance(t.Context(), "f1", Failed, ""))
		must(t, l.Deliveries.Retry(t.Context(), "failed"))
		must(t, l.Frames.Commit(t.Context(), aFrame("f2"), "failed"))
		must(t, l.Frames.Advance(t.Context(), "f2", Failed, ""))
		must(t, l.Frames.Commit(t.Context(), aFrame("f3"), "late"))
		must(t, l.Frames.Advance(t.Context(), "f3", Accepted, ""))

		time.Sleep(time.Hour) // of the bubble's clock
		limit := time.Now()
		must(t, l.Frames.Advance(t.Context(), "f3", Done, ""))
		must(t, l.Frames.Commit(t.Context(), aFrame("f4"), "cut"))
		must(t, l.Frames.Commit(t.Context(), aNudge("n4", "f4")))
		must(t, l.Frames.Advance(t.Context(), "n4", Failed, ""))
		// A delivery that a person dropped after its frame had ended.
		must(t, l.Deliveries.Drop(t.Context(), "failed"))
		must(t, l.Sessions.SetSession(t.Context(), aSession()))

		// done and taken, f1 and n1 are pruned; f2 stays for failed.
		if n, err := l.Prune(t.Context(), limit); err != nil || n != 4 {
			t.Fatalf("pruned %d, %v; want 4", n, err)
		}
		wantStates(t, l, "done ", "taken ", "f1 ", "n1 ", "failed dropped", "f2 failed", "late done", "f3 done",
			"cut cut", "f4 cut", "n4 failed", "claimed claimed", "unmarked claimed")
		count := func(table string, want int64) {
			t.Helper()
			if n, err := number(l, "SELECT count(*) FROM "+table); err != nil || n != want {
				t.Errorf("%d %s, %v; want %d", n, table, err, want)
			}
		}
		count("contents", 5)
		count("lines", 4)

		time.Sleep(1000 * time.Hour)
		// failed and f2, late and f3 are pruned; n4 stays for the open f4.
		if n, err := l.Prune(t.Context(), time.Now()); err != nil || n != 4 {
			t.Fatalf("pruned %d, %v; want 4", n, err)
		}
		wantStates(t, l, "cut cut", "f4 cut", "n4 failed", "claimed claimed", "unmarked claimed")
		count("deliveries", 3)
		count("contents", 3)
		count("frames", 2)
		count("lines", 2)
		count("sessions", 1)
		if n, err := l.Prune(t.Context(), time.Now()); err != nil || n != 0 {
			t.Errorf("pruned %d, %v; want 0", n, err)
		}
	})
}

func TestWhatARelayWaitsTheDiskFor(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	ctx := t.Context()
	const normal, extra = 1, 3
	for _, step := range []struct {
		name string
		want int64
		do   func() error
	}{
		{"Claim", extra, func() error { return l.Deliveries.Claim(ctx, aRow("a"), aRow("b"), aRow("c"), aRow("d")) }},
		{"Mark", normal, func() error { return l.Deliveries.Mark(ctx, "a", "b") }},
		{"Commit", extra, func() error { return l.Frames.Commit(ctx, aFrame("f"), "a") }},
		{"Tried", normal, func() error { return l.Frames.Tried(ctx, "f", "s") }},
		{"SetSession", extra, func() error { return l.Sessions.SetSession(ctx, aSession()) }},
		{"Died", normal, func() error { _, err := l.Frames.Died(ctx, "f"); return err }},
		{"Deliveries.End", extra, func() error { return l.Deliveries.End(ctx, TakenByAgent, "", "d") }},
		{"Advance to accepted", normal, func() error { return l.Frames.Advance(ctx, "f", Accepted, "") }},
		{"Commit of a nudge", extra, func() error { return l.Frames.Commit(ctx, aNudge("n", "f")) }},
		{"Advance to cut", normal, func() error { return l.Frames.Advance(ctx, "n", Cut, "") }},
		{"Advance to failed", extra, func() error { return l.Frames.Advance(ctx, "n", Failed, "") }},
		{"Advance to done", normal, func() error { return l.Frames.Advance(ctx, "f", Done, "") }},
		{"Commit", extra, func() error { return l.Frames.Commit(ctx, aFrame("g"), "b") }},
		{"Mark", normal, func() error { return l.Deliveries.Mark(ctx, "c") }},
		{"Advance to cancelled", extra, func() error { return l.Frames.Advance(ctx, "g", Cancelled, "") }},
		{"Mark", normal, func() error { return l.Deliveries.Mark(ctx, "c") }},
		{"Drop", extra, func() error { return l.Deliveries.Drop(ctx, "c") }},
		{"Claim", extra, func() error { return l.Deliveries.Claim(ctx, aRow("e")) }},
		{"Deliveries.End", extra, func() error { return l.Deliveries.End(ctx, Failed, "", "e") }},
		{"Mark", normal, func() error { return l.Deliveries.Mark(ctx, "e") }},
		{"Retry", extra, func() error { return l.Deliveries.Retry(ctx, "e") }},
		{"Mark", normal, func() error { return l.Deliveries.Mark(ctx, "e") }},
		{"Prune", extra, func() error { _, err := l.Prune(ctx, monday); return err }},
	} {
		must(t, step.do())
		if got, err := number(l, "PRAGMA synchronous"); err != nil || got != step.want {
			t.Errorf("%s was committed with synchronous=%d, %v; want %d", step.name, got, err, step.want)
		}
	}
}

// The queries that a relay repeats do not read the deliveries that have ended.
func TestQuestionsUseTheIndexes(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	for _, test := range []struct{ query, index string }{
		{"SELECT seq FROM inboxes JOIN deliveries USING (inbox_id) WHERE root='r' AND team='t' AND created_at=1 AND inbox='i' AND " + unended + " AND state='claimed' AND marked=0 ORDER BY seq", "deliveries_open"},
		{"UPDATE deliveries SET state='done' WHERE frame='f' AND inbox_id=" + strings.Replace(thisInboxID, "?", "1", -1) + " AND " + unended, "deliveries_open"},
		{"SELECT uuid FROM inboxes JOIN frames USING (inbox_id) WHERE root='r' AND team='t' AND created_at=1 AND inbox='i' AND " + unended + " ORDER BY kind='nudge' DESC LIMIT 1", "frames_open"},
		{"SELECT max(occurrence) FROM deliveries WHERE inbox_id=1 AND key='k' AND key<>''", "deliveries_key"},
	} {
		var plan strings.Builder
		must(t, query(l, func(v sqlite.Row) {
			fmt.Fprintln(&plan, v.Text(3))
		}, "EXPLAIN QUERY PLAN "+test.query))
		if !strings.Contains(plan.String(), test.index) || strings.Contains(plan.String(), "SCAN") {
			t.Errorf("%s\n%s; want it to use %s", test.query, &plan, test.index)
		}
	}
}

// A starting relay finds out which deliveries are open, and which rows have no delivery.
func TestAsked(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	a, b, c := aRow("a"), aRow("b"), aRow("c")
	c.Inbox = "carol"
	said := func(uuid, mode string) Delivery {
		return Delivery{UUID: uuid, InboxKey: bob, Person: true, Raw: []byte("x"), Mode: []byte(mode)}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(l.Deliveries.Claim(t.Context(), a, b, c, said("p1", `{"model":"m"}`), said("p2", ""), said("p3", `{"model":"n"}`)))
	must(l.Deliveries.Mark(t.Context(), "a"))
	for i, uuid := range []string{"a", "p1", "p2"} {
		f := aFrame(fmt.Sprint("f", i))
		must(l.Frames.Commit(t.Context(), f, uuid))
		if uuid != "p2" {
			must(l.Frames.Advance(t.Context(), f.UUID, Done, ""))
		}
	}
	open, err := l.Deliveries.Open(t.Context(), bob)
	slices.Sort(open)
	if want := []string{"b", "p2", "p3"}; err != nil || !slices.Equal(open, want) {
		t.Errorf("open %q, %v; want %q", open, err, want)
	}
	missing, err := l.Deliveries.Missing(t.Context(), bob, "x", "a", "c", "b", "y")
	if want := []string{"x", "c", "y"}; err != nil || !slices.Equal(missing, want) {
		t.Errorf("missing %q, %v; want %q", missing, err, want)
	}
}

// Commit records the mode of a frame as the mode of the session, in one transaction. A frame without a mode, or a
// refused one, leaves the mode.
func TestCommitRecordsTheMode(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	mode := func() string {
		s, _, err := l.Sessions.Session(t.Context(), bob)
		must(t, err)
		return string(s.Mode)
	}
	s := aSession()
	s.Mode = []byte(`{}`)
	must(t, l.Sessions.SetSession(t.Context(), s))
	claimRows(t, l, "a", "b")
	plan, bypass := aFrame("f1"), aFrame("f2")
	plan.Mode, bypass.Mode = []byte(`{"permissionMode":"plan"}`), []byte(`{"permissionMode":"bypassPermissions"}`)
	must(t, l.Frames.Commit(t.Context(), plan, "a"))
	want := string(plan.Mode)
	if got := mode(); got != want {
		t.Errorf("mode %s, want that of the frame", got)
	}
	if err := l.Frames.Commit(t.Context(), bypass, "b"); err == nil {
		t.Error("a second frame in flight")
	}
	must(t, l.Frames.Commit(t.Context(), aNudge("n1", "f1")))
	if got := mode(); got != want {
		t.Errorf("mode %s, want %s still", got, want)
	}
	must(t, l.Frames.Advance(t.Context(), "f1", Done, ""))
	must(t, l.Frames.Commit(t.Context(), bypass, "b"))
	if got := mode(); got != string(bypass.Mode) {
		t.Errorf("mode %s, want that of the second", got)
	}
}

// A frame that was not taken is split: its deliveries wait again, each alone, in their order. A frame that was taken
// or has one delivery, and a nudge, are not split.
func TestSplit(t *testing.T) {
	t.Parallel()
	l := newLedger(t)
	claimRows(t, l, "a", "b", "c")
	must(t, l.Frames.Commit(t.Context(), aFrame("f1"), "a", "b"))
	for range 2 { // the second changes nothing
		split, err := l.Frames.Split(t.Context(), "f1", "because")
		var state *StateError
		if split && err != nil || !split && !errors.As(err, &state) {
			t.Errorf("split %v, %v", split, err)
		}
	}
	wantStates(t, l, "f1 cancelled", "a claimed", "b claimed", "c claimed")
	waiting, err := l.Deliveries.Waiting(t.Context(), bob)
	must(t, err)
	if got := uuids(waiting); !slices.Equal(got, []string{"a", "b", "c"}) || !waiting[0].Isolated || !waiting[1].Isolated || waiting[2].Isolated || waiting[0].Reason != "because" {
		t.Errorf("waiting %+v; want the two alone, and the third as it was", waiting)
	}
	single := aFrame("f2")
	single.Deaths = 1
	must(t, l.Frames.Commit(t.Context(), single, "a"))
	if split, err := l.Frames.Split(t.Context(), "f2", ""); split || err != nil {
		t.Errorf("a frame of one: split %v, %v", split, err)
	}
	if f := mustFrame(t, l, "f2"); f.Deaths != 1 || f.State != FrameWritten {
		t.Errorf("got %+v, want the death that it was given, and no change", f)
	}
	must(t, l.Frames.Advance(t.Context(), "f2", Done, ""))
	must(t, l.Frames.Commit(t.Context(), aFrame("f3"), "b", "c"))
	must(t, l.Frames.Advance(t.Context(), "f3", Accepted, ""))
	wantRefused(t, l, func() error { _, err := l.Frames.Split(t.Context(), "f3", ""); return err })
	must(t, l.Frames.Commit(t.Context(), aNudge("n1", "f3")))
	wantRefused(t, l, func() error { _, err := l.Frames.Split(t.Context(), "f3", ""); return err })
	wantUnchanged(t, l, nil, func() error {
		if _, err := l.Frames.Split(t.Context(), "n1", ""); err == nil {
			t.Error("a nudge was split")
		}
		return nil
	})
	wantUnchanged(t, l, ErrUnknown, func() error { _, err := l.Frames.Split(t.Context(), "x", ""); return err })
}
