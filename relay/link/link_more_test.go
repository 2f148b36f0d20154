package link

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
)

// two returns two machines that are linked, on a hub without faults. None runs.
func two(t *testing.T) (h *hub, a, b *machine) {
	t.Helper()
	h = newHub(1, faults{})
	dir := t.TempDir()
	a, b = newMachine(t, dir, "a", h, "b"), newMachine(t, dir, "b", h, "a")
	t.Cleanup(func() {
		for _, m := range []*machine{a, b} {
			if m.stop != nil {
				m.stop()
			}
			m.ledger.Close()
		}
	})
	return h, a, b
}

// texts returns the delivered texts, in order.
func (m *machine) texts() (list []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.got {
		list = append(list, s[strings.LastIndexByte(s, '/')+1:])
	}
	return list
}

func (m *machine) wantTexts(t *testing.T, want ...string) {
	t.Helper()
	if got := m.texts(); !slices.Equal(got, want) {
		t.Errorf("%s was given %q, want %q", m.name, got, want)
	}
}

// warns waits for a warning.
func (m *machine) warns(t *testing.T, what string) {
	t.Helper()
	m.until(t, "a warning that "+what, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return slices.ContainsFunc(m.warned, func(s string) bool { return strings.Contains(s, what) })
	})
}

// until waits until a condition holds that the link of a machine changes.
func (m *machine) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !so() {
		select {
		case <-m.changed:
		case <-deadline:
			t.Fatalf("%s: no %s", m.name, what)
		}
	}
}

// reason returns the reason for the state of a delivery.
func (m *machine) reason(id string) string {
	o, _, err := m.ledger.Outbox.Outgoing(context.Background(), id)
	m.must(err)
	return o.Reason
}

// incarnation returns the incarnation of another machine's ledger that a machine knows.
func (m *machine) incarnation(of string) string {
	s, err := m.ledger.Links.Incarnation(context.Background(), of)
	m.must(err)
	return s
}

// raw has the hub store a frame.
func (h *hub) raw(from, to string, frame any) {
	body, ok := frame.([]byte)
	if !ok {
		body, _ = json.Marshal(frame)
	}
	if err := (&memory{hub: h, name: from}).Publish(context.Background(), to, uuid.NewString(), body); err != nil {
		panic(err)
	}
}

// frames returns the frames that are stored for a machine.
func (h *hub) frames(to string) (list []frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.of(to).stored {
		var f frame
		json.Unmarshal(s.frame, &f)
		list = append(list, f)
	}
	return list
}

// still waits until the queue of a machine is empty.
func (h *hub) still(t *testing.T, name string) {
	t.Helper()
	h.until(t, name, func(list []frame) bool { return len(list) == 0 })
}

// until waits until a condition on the frames stored for a machine holds.
func (h *hub) until(t *testing.T, name string, so func([]frame) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		news := h.of(name).news
		h.mu.Unlock()
		if so(h.frames(name)) {
			return
		}
		select {
		case <-news:
		case <-deadline:
			t.Fatalf("for %s are stored %+v", name, h.frames(name))
		}
	}
}

func TestHubLosesItsData(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	var ids, want []string
	for i := range 5 {
		want = append(want, fmt.Sprint("text ", i))
		ids = append(ids, a.send("b", "worker", want[i]))
	}
	a.await(t, ledger.StageStored, ids...)
	a.stop()
	h.wipe()
	a.start()
	b.start()
	a.await(t, ledger.StageSeen, ids...)
	b.wantTexts(t, want...)
}

// If the hub loses its data, a machine asks about messages that the other machine had already,
// since their receipts may have been lost.
func TestHubLosesReceipts(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	b.start()
	id := a.send("b", "worker", "text")
	a.await(t, ledger.StageSeen, id)
	a.stop()
	b.stop()
	// As if it had only been received.
	second := a.send("b", "worker", "second")
	h.raw("a", "b", frame{Version: 1, Ledger: "", Messages: []message{{ID: second, Name: second, Team: "team", Member: "worker", From: "user", Text: "second", Sent: time.Now()}}})
	b.start()
	h.still(t, "b")
	h.until(t, "a", func(receipts []frame) bool { return strings.Contains(fmt.Sprint(receipts), "seen") })
	h.wipe()
	a.must(a.ledger.Outbox.Stored(t.Context(), second))
	a.must(a.ledger.Outbox.Confirm(t.Context(), "b", ledger.Receipt{ID: second, Stage: ledger.StageReceived}))
	a.start()
	a.await(t, ledger.StageSeen, second)
	b.wantTexts(t, "text", "second")
}

// reinstall loses the ledger of a machine.
func (m *machine) reinstall(peer string) {
	m.must(m.ledger.Close())
	for _, suffix := range []string{"", "-wal", "-shm"} {
		os.Remove(m.path + suffix)
	}
	m.open()
	m.must(m.ledger.Links.SetLink(context.Background(), ledger.Link{Name: m.name}))
	m.must(m.ledger.Links.AddMachine(context.Background(), peer, "card of "+peer, false))
}

// Messages that the hub had for a lost ledger become unknown, since they may have arrived there.
// The others are sent.
func TestReinstalled(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	b.start()
	a.await(t, ledger.StageSeen, a.send("b", "worker", "before"))
	a.until(t, "ledger of b", func() bool { return a.incarnation("b") != "" })
	b.stop()
	a.stop() // after a late presence of b, a would send the stored frames again
	h.set(func() { h.of("a").told = nil })
	a.start()
	old := b.got
	stored := a.send("b", "worker", "stored")
	a.await(t, ledger.StageStored, stored)
	a.stop()
	var ids, rest []string
	for i := range maxMessages + 10 {
		ids = append(ids, a.send("b", "worker", fmt.Sprint("text ", i)))
	}
	for i := maxMessages; i < len(ids); i++ {
		rest = append(rest, fmt.Sprint("text ", i))
	}
	h.set(func() { h.deaf = true }) // so that the first frame is on its way while b starts again
	a.start()
	a.warns(t, errLost.Error())
	b.reinstall("a")
	b.got, b.seen = nil, map[string]bool{}
	b.start()
	a.await(t, ledger.StageUnknown, append([]string{stored}, ids[:maxMessages]...)...)
	if reason := a.reason(stored); !strings.Contains(reason, "the ledger of b is another one than before") {
		t.Errorf("the reason is %q", reason)
	}
	h.set(func() { h.deaf = false })
	a.await(t, ledger.StageSeen, ids[maxMessages:]...)
	b.wantTexts(t, rest...)
	if len(old) != 1 {
		t.Errorf("the old ledger had %q, want one message", old)
	}
}

// A message that a full hub has refused was never in the old ledger, so it is sent to the new one.
func TestReinstalledWhileTheHubIsFull(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	b.start()
	a.await(t, ledger.StageSeen, a.send("b", "worker", "before"))
	a.until(t, "ledger of b", func() bool { return a.incarnation("b") != "" })
	b.stop()
	first := a.incarnation("b")
	h.set(func() { h.full = true })
	id := a.send("b", "worker", "text")
	a.warns(t, "messages to b wait: "+ErrFull.Error())
	b.reinstall("a")
	b.mu.Lock()
	b.got, b.seen = nil, map[string]bool{}
	b.mu.Unlock()
	b.start()
	a.until(t, "new ledger of b", func() bool { return a.incarnation("b") != first })
	for range 3 { // no frame to the old ledger is on its way: the first signal may be old, and the second be of such a frame
		<-h.refused
	}
	h.set(func() { h.full = false })
	a.await(t, ledger.StageSeen, id)
	b.wantTexts(t, "text")
}

// An old frame does not bring back the incarnation of a lost ledger, so that messages to the new
// ledger do not count as lost at its next presence.
func TestOldFrameOfALostLedger(t *testing.T) {
	t.Parallel()
	h, a, _ := two(t)
	a.start()
	heard := func() time.Time {
		list, err := a.ledger.Links.Machines(t.Context(), root)
		a.must(err)
		return list[0].Heard
	}
	tell := func(ledger string) {
		before := heard()
		text, _ := json.Marshal(Presence{Version: Version, Ledger: ledger})
		a.must((&memory{hub: h, name: "b"}).Tell(t.Context(), "a", text))
		for heard().Equal(before) || a.incarnation("b") != ledger {
			<-a.changed
		}
	}
	tell("old")
	tell("new")
	id := a.send("b", "worker", "text")
	a.await(t, ledger.StageStored, id)
	h.raw("b", "a", frame{Version: Version, Ledger: "old", Receipts: []ledger.Receipt{{ID: id, Stage: ledger.StageReset}}})
	h.still(t, "a")
	tell("new")
	if got, stage := a.incarnation("b"), a.stage(id); got != "new" || stage != ledger.StageStored {
		t.Fatalf("after an old frame, the incarnation is %q and the message %s; want new and stored", got, stage)
	}
	h.raw("b", "a", frame{Version: Version, Ledger: "new", Receipts: []ledger.Receipt{{ID: id, Stage: ledger.StageReset}}})
	h.still(t, "a")
	for len(h.frames("b")) < 2 {
		<-a.changed // it goes out again
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	f, err := os.Open(from)
	must(t, err)
	defer f.Close()
	os.Remove(to)
	os.Remove(to + "-wal")
	os.Remove(to + "-shm")
	g, err := os.Create(to)
	if err == nil {
		_, err = io.Copy(g, f)
	}
	must(t, err)
	g.Close()
}

// backup makes a copy of the ledger, and returns what restores it.
func (m *machine) backup(t *testing.T) (restore func()) {
	t.Helper()
	m.must(m.ledger.Close())
	copyFile(t, m.path, m.path+".backup")
	m.open()
	return func() {
		t.Helper()
		m.must(m.ledger.Close())
		copyFile(t, m.path+".backup", m.path)
		m.open()
	}
}

// The other machine recognizes messages that a restored ledger sends again.
func TestRestoredFromABackup(t *testing.T) {
	t.Parallel()
	_, a, b := two(t)
	ids := []string{a.send("b", "worker", "one"), a.send("b", "worker", "two")}
	restore := a.backup(t)
	a.start()
	b.start()
	a.await(t, ledger.StageSeen, ids...)
	a.stop()
	restore()
	if s := a.stage(ids[0]); s != ledger.StageQueued {
		t.Fatalf("the message is %s in the backup", s)
	}
	a.start()
	a.await(t, ledger.StageSeen, ids...)
	a.await(t, ledger.StageSeen, a.send("b", "worker", "three"))
	b.wantTexts(t, "one", "two", "three")
}

// After ids were forgotten, exactly the messages that may have come under one of them are
// refused, whatever the clock of the sender says.
func TestForgottenIDs(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, -24 * time.Hour, 24 * time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			_, a, b := two(t)
			a.ahead = ahead
			id := a.send("b", "worker", "one")
			restore := a.backup(t)
			a.start()
			b.start()
			a.await(t, ledger.StageSeen, id)
			b.must(b.ledger.Arrivals.Prune(t.Context(), time.Now().Add(time.Hour)))
			if list, err := b.ledger.Links.Machines(t.Context(), root); err != nil || list[0].Horizon.IsZero() {
				t.Fatalf("nothing is forgotten: %+v, %v", list, err)
			}
			a.await(t, ledger.StageSeen, a.send("b", "worker", "two"))
			if ahead <= 0 { // a time that was in the future proves nothing
				a.stop()
				restore()
				a.start()
				a.await(t, ledger.StageRefused, id)
				if reason := a.reason(id); !strings.Contains(reason, "it may have come before") {
					t.Errorf("the reason is %q", reason)
				}
			}
			a.ahead = 0 // its clock is corrected
			a.await(t, ledger.StageSeen, a.send("b", "worker", "three"))
			b.wantTexts(t, "one", "two", "three")
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	_, a, b := two(t)
	b.refuse = "no such team"
	a.start()
	b.start()
	id := a.send("b", "worker", "text")
	a.await(t, ledger.StageRefused, id)
	if got := a.reason(id); got != "refused: no such team" {
		t.Errorf("the reason is %q", got)
	}
}

// A row goes to another machine as every reader of its inbox reads it, so that none is wrong for ever.
func TestRowsAreReadAsInTheirInbox(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]message{
		`{"from":"alice","text":"hi","summary":"s"}`:        {Text: "hi", About: "s"},
		`{"from":"alice","text":"hi","summary":5}`:          {Text: "hi"},
		`{"from":"alice","text":{"a":1}}`:                   {}, // its recipient refuses it
		`{"from":"alice","text":"hi","Text":"no","TEXT":1}`: {Text: "hi"},
	} {
		if m, err := messageOf(ledger.Outgoing{Delivery: ledger.Delivery{Raw: []byte(raw)}}); err != nil || m.Text != want.Text || m.About != want.About {
			t.Errorf("%s: %+v, %v", raw, m, err)
		}
	}
}

// What is too large for a hub, as JSON, delays nothing: many messages and receipts go in several frames, and a message
// that is too large alone is refused.
func TestNoFrameIsTooLargeForAHub(t *testing.T) {
	t.Parallel()
	_, a, b := two(t)
	huge := a.send("b", "worker", strings.Repeat("x", 2<<20))
	var ids, want []string
	for i := range 5 {
		want = append(want, fmt.Sprint(i)+strings.Repeat("\x01", 90<<10)) // each is six bytes in JSON
		ids = append(ids, a.send("b", "worker", want[i]))
	}
	a.start()
	a.await(t, ledger.StageRefused, huge)
	if got := a.reason(huge); !strings.Contains(got, "it has 2097152 bytes, too many for a link") {
		t.Errorf("the reason is %q", got)
	}
	b.start()
	a.await(t, ledger.StageSeen, ids...)
	b.wantTexts(t, want...)
	b.mu.Lock()
	b.refuse = strings.Repeat("\x01", 1000)
	b.mu.Unlock()
	ids = nil
	for range 600 {
		ids = append(ids, a.send("b", "worker", "text"))
	}
	a.await(t, ledger.StageRefused, ids...)
}

// Unreadable frames, and those of a newer program, do not delay other frames.
func TestFramesThatAreNone(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	for _, bad := range []string{"", "{", "[]", "null", "{}", `{"v":0}`, `{"v":"1"}`, `{"v":1,"messages":{}}`} {
		h.raw("a", "b", []byte(bad))
	}
	h.raw("a", "b", frame{Version: Version + 1, Ledger: "x", Messages: []message{{ID: "newer"}}})
	h.raw("a", "b", frame{Version: Version, Ledger: "x", Messages: []message{{ID: "without a text", Team: "team", Member: "worker", From: "user"}}})
	b.start()
	a.start()
	a.await(t, ledger.StageSeen, a.send("b", "worker", "text"))
	b.wantTexts(t, "text")
	b.mu.Lock()
	defer b.mu.Unlock()
	warned := strings.Join(b.warned, "\n")
	for _, want := range []string{"a sent an invalid frame", "a uses version 2 of links, and this program supports 1"} {
		if !strings.Contains(warned, want) {
			t.Errorf("no warning says %q:\n%s", want, warned)
		}
	}
}

// A message that an older program has discarded waits until that is upgraded.
func TestOlderVersion(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	id := a.send("b", "worker", "text")
	a.await(t, ledger.StageStored, id)
	h.set(func() { h.of("b").stored = nil }) // acknowledged, and not understood
	self, _, err := b.ledger.Links.Link(t.Context())
	b.must(err)
	a.link.opts.Late = 0 // it is late
	for _, version := range []int{Version - 1, Version - 1, Version} {
		text, _ := json.Marshal(Presence{Version: version, Ledger: self.Incarnation, Empty: true})
		must(t, a.link.heard(t.Context(), "b", text))
		sent := func(f frame) bool { return len(f.Messages) > 0 } // another frame may ask about it
		if version < Version && slices.ContainsFunc(h.frames("b"), sent) {
			t.Fatal("it is sent again to a program that does not understand it")
		}
	}
	b.start()
	a.await(t, ledger.StageSeen, id)
}

// A second message under the id of a received one is refused, and the first one stays.
func TestOtherMessageUnderTheSameID(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	b.start()
	id := a.send("b", "worker", "text")
	a.await(t, ledger.StageSeen, id)
	a.stop()
	h.raw("a", "b", frame{Version: Version, Messages: []message{{ID: id, Name: id, Team: "team", Member: "worker", From: "user", Text: "other", Sent: time.Now()}}})
	want := ledger.Receipt{ID: id, Stage: ledger.StageRefused, Reason: "another message was sent under this id"}
	deadline := time.After(patience)
	for {
		if slices.ContainsFunc(h.frames("a"), func(f frame) bool { return slices.Contains(f.Receipts, want) }) {
			break
		}
		select {
		case <-b.changed:
		case <-deadline:
			t.Fatalf("a is told %+v, want %+v", h.frames("a"), want)
		}
	}
	a.start()
	h.still(t, "a")
	if s := a.stage(id); s != ledger.StageSeen {
		t.Errorf("the first message is %s at its sender, want seen", s)
	}
	b.wantTexts(t, "text")
}

// Messages are sent again only if no receipt can be on its way.
func TestSentAgainOnlyIfNoReceiptCanCome(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	id := a.send("b", "worker", "text")
	a.await(t, ledger.StageStored, id)
	a.stop()
	h.set(func() { h.full = true }) // for the receipts of b
	b.start()
	h.still(t, "b")
	for len(b.texts()) == 0 {
		<-b.changed
	}
	if empty, err := b.link.empty(t.Context(), "a", State{}); err != nil || empty {
		t.Errorf("b says that a need not wait for receipts: %v, %v", empty, err)
	}
	b.stop()
	h.set(func() { h.full = false })
	h.raw("b", "a", frame{Version: Version, Ledger: "b", Receipts: []ledger.Receipt{{ID: id, Stage: ledger.StageVerified}}})
	self, _, err := a.ledger.Links.Link(t.Context())
	a.must(err)
	l := New(Options{Root: root, Self: self, Ledger: a.ledger, Wire: &memory{hub: h, name: "a"}, Late: time.Nanosecond})
	text, _ := json.Marshal(Presence{Version: Version, Ledger: "b", Empty: true})
	a.must(l.heard(t.Context(), "b", text))
	if s := a.stage(id); s != ledger.StageStored {
		t.Errorf("the message is %s while a receipt waits for its sender, want stored", s)
	}
	h.set(func() { h.of("a").stored = nil })
	a.must(l.heard(t.Context(), "b", text))
	if s := a.stage(id); s != ledger.StageQueued {
		t.Errorf("the message is %s, and no receipt can come; want queued", s)
	}
}

// A removed link carries nothing any more, in either direction, and waiting messages have ended.
func TestRemovedLink(t *testing.T) {
	t.Parallel()
	h, a, b := two(t)
	a.start()
	stored := a.send("b", "worker", "stored")
	a.await(t, ledger.StageStored, stored)
	a.stop()
	queued := a.send("b", "worker", "queued")
	if n, err := a.ledger.Links.RemoveMachine(t.Context(), "b", "the link was removed"); err != nil || n != 2 {
		t.Fatalf("%d messages have ended, %v; want 2", n, err)
	}
	for id, want := range map[string]struct {
		stage  ledger.Stage
		reason string
	}{stored: {ledger.StageUnknown, "unknown: the link was removed"}, queued: {ledger.StageFailed, "the link was removed"}} {
		if s, r := a.stage(id), a.reason(id); s != want.stage || r != want.reason {
			t.Errorf("%s, %q; want %s, %q", s, r, want.stage, want.reason)
		}
	}
	// b does not know yet, and answers. Its frames do not delay anything.
	h.raw("b", "a", frame{Version: Version, Ledger: "b", Messages: []message{{ID: "1", Team: "team", Member: "worker", From: "user", Text: "text", Sent: time.Now()}}})
	b.start()
	h.still(t, "b")
	a.start()
	h.still(t, "a")
	a.wantTexts(t)
	must(t, a.ledger.Links.AddMachine(t.Context(), "b", "card of b", false))
	a.await(t, ledger.StageSeen, a.send("b", "worker", "again")) // its writer starts again
	b.wantTexts(t, "stored", "again")
}

// A frame that cannot be recorded is not acknowledged.
func TestNoAckWithoutARecord(t *testing.T) {
	t.Parallel()
	_, _, b := two(t)
	path := filepath.Join(t.TempDir(), "b.db")
	self, _, err := b.ledger.Links.Link(t.Context())
	b.must(err)
	lg, err := ledger.Open(t.Context(), path)
	b.must(err)
	b.must(lg.Close()) // every record fails
	l := New(Options{Root: root, Self: self, Ledger: lg, Wire: &memory{hub: b.hub, name: "b"}})
	acked := false
	body, _ := json.Marshal(frame{Version: Version, Ledger: "a", Messages: []message{{ID: "1", Team: "team", Member: "worker", From: "user", Text: "text", Sent: time.Now()}}})
	err = l.take(t.Context(), Arrival{From: "a", Frame: body, Ack: func(context.Context) error { acked = true; return nil }})
	if err == nil || acked {
		t.Errorf("acknowledged %v, error %v; want no acknowledgment and an error", acked, err)
	}
}

// Messages that wait for a recipient are delivered in order, even if a delivery ends while the next
// messages are read.
func TestManyArrivedInOrder(t *testing.T) {
	t.Parallel()
	_, _, b := two(t)
	b.page = 20
	const n = 200
	var list []ledger.Incoming
	var want []string
	for i := range n {
		text := fmt.Sprint(i)
		in, err := incoming(message{ID: text, Name: text, Team: "team", Member: "worker", From: "user", Text: text, Sent: time.Now()})
		b.must(err)
		list, want = append(list, in), append(want, text)
	}
	_, err := b.ledger.Arrivals.Receive(t.Context(), "a", list...)
	b.must(err)
	b.start()
	for ; len(b.texts()) < n; time.Sleep(100 * time.Microsecond) { // however long it takes on a busy machine
		b.link.Poke() // as often as it can be
	}
	if got := b.texts(); !slices.Equal(got, want) {
		i := 0
		for got[i] == want[i] {
			i++
		}
		t.Errorf("message %s was delivered in place of %s", got[i], want[i])
	}
}

// However many messages are never taken, the link also asks about the others.
func TestAllOpenMessagesAreAskedAbout(t *testing.T) {
	t.Parallel()
	h, a, _ := two(t)
	var ids []string
	a.page = 20
	for range 45 {
		ids = append(ids, a.send("b", "worker", "text"))
		a.must(a.ledger.Outbox.Confirm(t.Context(), "b", ledger.Receipt{ID: ids[len(ids)-1], Stage: ledger.StageVerified}))
	}
	a.start()
	deadline := time.After(patience)
	for {
		var asked []string
		for _, f := range h.frames("b") {
			asked = append(asked, f.Query...)
		}
		if slices.Equal(asked, ids) {
			return
		}
		select {
		case <-a.changed:
		case <-deadline:
			t.Fatalf("asked about %d of %d messages", len(asked), len(ids))
		}
	}
}

// listener counts the presences that arrive.
type listener struct {
	Wire
	heard *atomic.Int64
}

func (w listener) Next(ctx context.Context) (Arrival, error) {
	a, err := w.Wire.Next(ctx)
	if a.Text != nil {
		w.heard.Add(1)
	}
	return a, err
}

// A presence of the other machine is not answered, unless that has just been started.
func TestPresenceIsToldOnAChange(t *testing.T) {
	t.Parallel()
	_, a, b := two(t)
	var heard atomic.Int64
	a.wire = func(w Wire) Wire { return listener{w, &heard} }
	a.every, b.every = 60*time.Millisecond, 60*time.Millisecond
	start := time.Now()
	a.start()
	b.start()
	a.until(t, "20 presences", func() bool { return heard.Load() >= 20 })
	// Of itself and of b: each at its start, once more for one that has just started, and then at intervals.
	if n, most := heard.Load(), 2*int64(time.Since(start)/a.every)+8; n > most {
		t.Errorf("%d presences came in %s, at most %d are due", n, time.Since(start), most)
	}
}
