package ledger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
	"teambridge/relay/relaytest/killtest"
)

// childRelay works through deliveries of its own inbox as a relay does, and reports each acknowledged step until it
// is killed. It begins with the open deliveries of its predecessor.
func childRelay(args []string) error {
	ctx, cancel := childContext()
	defer cancel()
	l, err := Open(ctx, args[0])
	if err != nil {
		return err
	}
	box, run := bob, args[2]
	box.Inbox = args[1]
	for n := 0; ctx.Err() == nil; n++ {
		if err := finish(ctx, l, box, fmt.Sprint(box.Inbox, "-", run, "-", n)); err != nil {
			return err
		}
		if err := carry(ctx, l, box, fmt.Sprint(box.Inbox, "-", run, "-", n)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func report(step string, args ...any) {
	fmt.Print(step)
	for _, a := range args {
		fmt.Print(" ", a)
	}
	fmt.Println()
}

// carry claims up to four rows, marks the unmarked ones and commits a frame.
func carry(ctx context.Context, l *Ledger, box inbox.InboxKey, name string) error {
	var ds []Delivery
	for i := range 1 + rand.N(4) {
		d := aRow(fmt.Sprint("d-", name, "-", i))
		if rand.N(4) == 0 {
			d = anInput(d.UUID)
		}
		d.InboxKey = box
		d.Raw = bytes.Repeat([]byte(d.UUID), 1+rand.N(300))
		ds = append(ds, d)
	}
	if err := l.Deliveries.Claim(ctx, ds...); err != nil {
		return err
	}
	for _, d := range ds {
		report("claim", d.UUID, d.Seq)
	}
	unmarked, err := l.Deliveries.Unmarked(ctx, box)
	if err != nil {
		return err
	}
	if err := l.Deliveries.Mark(ctx, uuids(unmarked)...); err != nil {
		return err
	}
	for _, d := range unmarked {
		report("mark", d.UUID)
	}
	waiting, err := l.Deliveries.Waiting(ctx, box)
	if err != nil || len(waiting) == 0 {
		return err
	}
	waiting = waiting[:min(len(waiting), 3)]
	// Random bytes: a frame that was written a second time would differ.
	f := Frame{UUID: "f-" + name, InboxKey: box, Kind: FrameMessage, Bytes: fmt.Append(nil, name, rand.Int64(), strings.Repeat("x", rand.N(9000)))}
	if err := l.Frames.Commit(ctx, f, uuids(waiting)...); err != nil {
		return err
	}
	report("commit", f.UUID, digestOf(f.Bytes), strings.Join(uuids(waiting), ","))
	return nil
}

func digestOf(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// finish ends all frames in flight.
func finish(ctx context.Context, l *Ledger, box inbox.InboxKey, name string) error {
	for n := 0; ; n++ {
		f, found, err := l.Frames.InFlight(ctx, box)
		if err != nil || !found {
			return err
		}
		if err := l.Frames.Tried(ctx, f.UUID, "session"); err != nil {
			return err
		}
		advance := func(state DeliveryState) error {
			if err := l.Frames.Advance(ctx, f.UUID, state, ""); err != nil {
				return err
			}
			report("advance", f.UUID, state)
			return nil
		}
		if f.State == FrameWritten {
			if err := advance(Accepted); err != nil {
				return err
			}
		}
		switch roll := rand.N(10); {
		case roll < 6:
			err = advance(Done)
		case roll < 7 && f.Kind == FrameMessage:
			err = failAndRetry(ctx, l, f)
		case f.Kind == FrameNudge:
			err = advance(Cut)
			f.UUID = f.Parent
			fallthrough
		default:
			if err != nil {
				return err
			}
			nudge := Frame{UUID: fmt.Sprint("n-", name, "-", n), InboxKey: box, Kind: FrameNudge, Parent: f.UUID, Bytes: fmt.Append(nil, rand.Int64())}
			if err = l.Frames.Commit(ctx, nudge); err == nil {
				report("commit", nudge.UUID, digestOf(nudge.Bytes), "")
			}
		}
		if err != nil {
			return err
		}
	}
}

func failAndRetry(ctx context.Context, l *Ledger, f Frame) error {
	if _, err := l.Frames.Died(ctx, f.UUID); err != nil {
		return err
	}
	if err := l.Frames.Advance(ctx, f.UUID, Failed, "agent died"); err != nil {
		return err
	}
	report("advance", f.UUID, Failed)
	failed, err := l.Deliveries.List(ctx, DeliveryQuery{Inbox: f.Inbox, States: []DeliveryState{Failed}})
	if err != nil {
		return err
	}
	for _, d := range failed {
		if err := l.Deliveries.Retry(ctx, d.UUID); err != nil {
			return err
		}
		report("retry", d.UUID)
	}
	return nil
}

// A witness remembers all steps that were acknowledged, and all content of the file after each kill.
type witness struct {
	seq     map[string]int64  // by delivery
	last    map[string]int64  // the highest sequence number that was reported, by inbox
	marked  map[string]bool   // by delivery
	digests map[string]string // by frame
	frames  map[string]string // the last frame, by delivery
	ended   map[string]DeliveryState
}

func (w *witness) note(t *testing.T, line string) {
	t.Helper()
	words := append(strings.Split(line, " "), "", "", "")
	uuid := words[1]
	switch words[0] {
	case "claim":
		seq, err := strconv.ParseInt(words[2], 10, 64)
		must(t, err)
		inbox := strings.Split(uuid, "-")[1]
		if seq <= w.last[inbox] {
			t.Errorf("%s was claimed as %d after %d", uuid, seq, w.last[inbox])
		}
		w.last[inbox], w.seq[uuid] = seq, seq
	case "mark":
		w.marked[uuid] = true
	case "commit":
		w.digests[uuid] = words[2]
		for d := range strings.SplitSeq(words[3], ",") {
			if was := w.frames[d]; d != "" && was != "" && w.ended[was] != Failed {
				t.Errorf("%s went into %s while its frame %s is %q", d, uuid, was, w.ended[was])
			}
			w.frames[d] = uuid
		}
	case "advance":
		if s := DeliveryState(words[2]); s.Ended() {
			w.ended[uuid] = s
		}
	case "retry":
		delete(w.frames, uuid)
	default:
		t.Errorf("report %q", line)
	}
}

// verify checks the file against the witness, and adds its content.
func (w *witness) verify(t *testing.T, path string) {
	t.Helper()
	l := mustOpen(t, path)
	defer l.Close()
	wantIntact(t, l)

	frames := map[string]Frame{}
	chain := map[string]int{}
	must(t, query(l, func(v sqlite.Row) {
		frames[v.Text(0)] = Frame{}
	}, "SELECT uuid FROM frames"))
	for uuid := range frames {
		f := mustFrame(t, l, uuid)
		frames[uuid] = f
		if was := w.digests[uuid]; was != "" && was != digestOf(f.Bytes) {
			t.Errorf("the bytes of %s changed", uuid)
		}
		w.digests[uuid] = digestOf(f.Bytes)
		if was := w.ended[uuid]; was != "" && was != f.State {
			t.Errorf("%s ended %s and is %s", uuid, was, f.State)
		}
		if f.State.Ended() {
			w.ended[uuid] = f.State
		} else {
			chain[fmt.Sprint(f.Inbox, f.Kind == FrameNudge)]++
		}
	}
	for uuid := range w.digests {
		if _, found := frames[uuid]; !found {
			t.Errorf("%s was committed and is not there", uuid)
		}
	}
	for what, n := range chain {
		if n > 1 {
			t.Errorf("%d frames in flight: %s", n, what)
		}
	}
	for uuid, f := range frames {
		if parent := frames[f.Parent]; f.Kind == FrameNudge && !f.State.Ended() && parent.State != Cut {
			t.Errorf("%s is %s, its frame %s", uuid, f.State, parent.State)
		}
	}

	ds, err := l.Deliveries.List(t.Context(), DeliveryQuery{})
	must(t, err)
	there := map[string]bool{}
	for _, d := range ds {
		there[d.UUID] = true
		if was, known := w.seq[d.UUID]; known && was != d.Seq {
			t.Errorf("%s was %d and is %d", d.UUID, was, d.Seq)
		}
		w.seq[d.UUID] = d.Seq
		inbox := strings.Split(d.UUID, "-")[1]
		w.last[inbox] = max(w.last[inbox], d.Seq)
		if w.marked[d.UUID] && !d.Marked {
			t.Errorf("%s was marked and is not", d.UUID)
		}
		if len(d.Raw) == 0 || !bytes.HasPrefix(d.Raw, []byte(d.UUID)) {
			t.Errorf("%s has other contents", d.UUID)
		}
		f, found := frames[d.Frame]
		switch {
		case d.Frame == "" && d.State != Claimed:
			t.Errorf("%s is %s in no frame", d.UUID, d.State)
		case d.Frame != "" && (!found || f.Kind != FrameMessage || f.Inbox != d.Inbox || f.State != d.State):
			t.Errorf("%s is %s in %s, which is %s (found %v)", d.UUID, d.State, d.Frame, f.State, found)
		case d.Frame != "":
			w.frames[d.UUID] = d.Frame
		case w.frames[d.UUID] != "" && w.ended[w.frames[d.UUID]] != Failed:
			t.Errorf("%s left %s, which did not fail", d.UUID, w.frames[d.UUID])
		}
	}
	for uuid := range w.seq {
		if !there[uuid] {
			t.Errorf("%s was claimed and is not there", uuid)
		}
	}
	if len(there) != len(ds) {
		t.Errorf("%d deliveries, %d uuids", len(ds), len(there))
	}
}

// After two relays are killed, the ledger has every acknowledged step, and the next relays continue from there.
func TestRelaysKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	w := &witness{map[string]int64{}, map[string]int64{}, map[string]bool{}, map[string]string{}, map[string]string{}, map[string]DeliveryState{}}
	n := killtest.Rounds(t, envRounds, 5)
	for round := range n {
		relay := func(i int) *exec.Cmd {
			return killtest.Command(t.Context(), "relay", path, fmt.Sprint("inbox", i), fmt.Sprint(round))
		}
		for _, said := range killtest.KillAll(t, 1+rand.N(40), relay(0), relay(1)) {
			for _, line := range said {
				w.note(t, line)
			}
		}
		w.verify(t, path)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	count := map[DeliveryState]int{}
	for _, state := range w.ended {
		count[state]++
	}
	if len(w.seq) < 5*n || count[Done] < n || count[Failed] == 0 {
		t.Errorf("only %d claimed, %v: the test did not test", len(w.seq), count)
	}
}

const eachClaims = 40

// childClaims claims rows that all children claim, and one row of its own in each step.
func childClaims(args []string) error {
	ctx, l, err := openAtOnce(args[0])
	if err != nil {
		return err
	}
	last := int64(0)
	for i := range eachClaims {
		own, shared := aRow(fmt.Sprint("own-", args[1], "-", i)), aRow(fmt.Sprint("shared-", i))
		shared.Raw = []byte(args[1])
		ds := []Delivery{shared, own}
		if err := l.Deliveries.Claim(ctx, ds...); err != nil {
			return err
		}
		if ds[1].Seq <= last {
			return fmt.Errorf("seq %d after %d", ds[1].Seq, last)
		}
		last = ds[1].Seq
		if err := l.Deliveries.Mark(ctx, own.UUID, shared.UUID); err != nil {
			return err
		}
	}
	return l.Close()
}

// If several processes claim the same rows, each row has one delivery, in order.
func TestManyProcessesClaim(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	const processes = 6
	killtest.AtOnce(t, processes, func(i int) *exec.Cmd { return killtest.Command(t.Context(), "claims", path, fmt.Sprint(i)) })
	l := mustOpen(t, path)
	ds, err := l.Deliveries.Waiting(t.Context(), bob)
	must(t, err)
	if want := eachClaims * (processes + 1); len(ds) != want {
		t.Errorf("%d deliveries wait, want %d", len(ds), want)
	}
	for i, d := range ds {
		if i > 0 && d.Seq <= ds[i-1].Seq {
			t.Errorf("seq %d after %d", d.Seq, ds[i-1].Seq)
		}
	}
}

const eachChains = 25

// If two processes run a relay for one inbox, the second frame is refused, and no delivery is in two frames.
func TestTwoRelaysOfOneInbox(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l := mustOpen(t, path)
	for i := range eachChains {
		claimRows(t, l, fmt.Sprint("d", i))
	}
	killtest.AtOnce(t, 3, func(i int) *exec.Cmd { return killtest.Command(t.Context(), "rivals", path, fmt.Sprint(i)) })
	ds, err := l.Deliveries.List(t.Context(), DeliveryQuery{States: []DeliveryState{Done}})
	must(t, err)
	frames, err := number(l, "SELECT count(*) FROM frames")
	must(t, err)
	if len(ds) != eachChains || frames != eachChains {
		t.Errorf("%d deliveries done in %d frames, want %d in as many", len(ds), frames, eachChains)
	}
}

func childRivals(args []string) error {
	ctx, l, err := openAtOnce(args[0])
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		waiting, err := l.Deliveries.Waiting(ctx, bob)
		if err != nil {
			return err
		}
		if len(waiting) == 0 {
			return l.Close()
		}
		f := aFrame(fmt.Sprint("f-", args[1], "-", i))
		var refused *StateError
		switch err := l.Frames.Commit(ctx, f, waiting[0].UUID); {
		case errors.As(err, &refused):
			continue
		case err != nil:
			return err
		}
		for _, state := range []DeliveryState{Accepted, Done} {
			if err := l.Frames.Advance(ctx, f.UUID, state, ""); err != nil {
				return err
			}
		}
	}
}
