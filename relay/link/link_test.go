package link

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams/errtest"
)

// hub is a hub in memory that misbehaves: it drops, repeats and reorders frames, as often as its
// faults say.
type hub struct {
	mu     sync.Mutex
	random *rand.Rand
	faults faults
	queues map[string]*queue
	name   int // of its queues: another one after it was wiped
	full   bool
	deaf   bool // all that is published is lost

	refused chan struct{} // signalled when a full hub has refused a frame of machine a
}

type faults struct {
	drop, repeat, reorder, unacked, silent float64 // how often
}

type queue struct {
	stored []stored
	news   chan struct{} // closed when it has changed
	told   []Arrival
}

type stored struct {
	from, id string
	frame    []byte
}

var must = errtest.Must

func newHub(seed int64, f faults) *hub {
	return &hub{random: rand.New(rand.NewSource(seed)), faults: f, queues: map[string]*queue{}, refused: make(chan struct{}, 1)}
}

func (h *hub) of(name string) *queue {
	if h.queues[name] == nil {
		h.queues[name] = &queue{news: make(chan struct{})}
	}
	return h.queues[name]
}

func (q *queue) tell() {
	close(q.news)
	q.news = make(chan struct{})
}

func (h *hub) chance(p float64) bool { return h.random.Float64() < p }

// set changes the hub.
func (h *hub) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// wipe deletes all stored frames.
func (h *hub) wipe() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.name++
	for _, q := range h.queues {
		q.stored = nil
		q.told = append(q.told, Arrival{})
		q.tell()
	}
}

// memory is a wire to a hub in memory.
type memory struct {
	hub  *hub
	name string
	once sync.Once
}

var errLost = errors.New("no answer")

func (w *memory) Publish(ctx context.Context, peer, id string, frame []byte) error {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if h.full {
		if w.name == "a" {
			signal(h.refused)
		}
		return ErrFull
	}
	if len(frame) > 1<<20-1<<10 {
		return errors.New("a hub takes no such frame")
	}
	if h.deaf || h.chance(h.faults.drop) {
		return errLost
	}
	q := h.of(peer)
	for range 1 + btoi(h.chance(h.faults.repeat)) {
		at := len(q.stored)
		if h.chance(h.faults.reorder) {
			at = h.random.Intn(len(q.stored) + 1)
		}
		q.stored = slices.Insert(q.stored, at, stored{w.name, id, slices.Clone(frame)})
	}
	q.tell()
	if h.chance(h.faults.silent) {
		return errLost // it is stored, without an answer
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (w *memory) Tell(_ context.Context, peer string, text []byte) error {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.chance(h.faults.drop) {
		q := h.of(peer)
		q.told = append(slices.DeleteFunc(q.told, func(a Arrival) bool { return a.From == w.name }), Arrival{From: w.name, Text: slices.Clone(text)})
		q.tell()
	}
	return nil
}

func (w *memory) Next(ctx context.Context) (Arrival, error) {
	first := false
	w.once.Do(func() { first = true })
	if first {
		return Arrival{}, nil
	}
	h := w.hub
	for {
		h.mu.Lock()
		q := h.of(w.name)
		switch {
		case len(q.told) > 0 && (len(q.stored) == 0 || h.chance(0.5)):
			a := q.told[0]
			q.told = q.told[1:]
			h.mu.Unlock()
			return a, nil
		case len(q.stored) > 0:
			s := q.stored[0]
			lost := h.chance(h.faults.unacked)
			h.mu.Unlock()
			return Arrival{From: s.from, Frame: s.frame, Ack: func(context.Context) error {
				if lost {
					return errLost // it comes again
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				if i := slices.IndexFunc(q.stored, func(o stored) bool { return o.id == s.id }); i >= 0 {
					q.stored = slices.Delete(q.stored, i, i+1)
					q.tell()
				}
				return nil
			}}, nil
		}
		news := q.news
		h.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return Arrival{}, ctx.Err()
		}
	}
}

func (w *memory) State() State {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return State{Connected: true, Queue: fmt.Sprint("queue ", w.hub.name), Waiting: len(w.hub.of(w.name).stored)}
}

const root = "/root"

// machine is a linked machine.
type machine struct {
	t    interface{ Fatalf(string, ...any) }
	name string
	path string
	hub  *hub

	ledger *ledger.Ledger
	link   *Link
	stop   func()

	mu       sync.Mutex
	got      []string // the delivered messages: FROM/MEMBER/TEXT
	seen     map[string]bool
	refuse   string
	changed  chan struct{}
	delivers int
	ahead    time.Duration // of its clock, when it sends
	warned   []string
	every    time.Duration                                                   // between presences
	retry    time.Duration                                                   // see [Options]
	page     int                                                             // see [Options]
	state    func(context.Context, ledger.Incoming) (ledger.Incoming, error) // see [Options]; nil: all is seen
	wire     func(Wire) Wire                                                 // returns the wire to use in place of that to the hub; nil: the same
}

func (m *machine) warn(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.warned = append(m.warned, err.Error())
	signal(m.changed)
}

func newMachine(t interface{ Fatalf(string, ...any) }, dir, name string, h *hub, peers ...string) *machine {
	m := &machine{t: t, name: name, path: filepath.Join(dir, name+".db"), hub: h, seen: map[string]bool{}, changed: make(chan struct{}, 1)}
	m.open()
	ctx := context.Background()
	m.must(m.ledger.Links.SetLink(ctx, ledger.Link{Name: name}))
	for _, p := range peers {
		m.must(m.ledger.Links.AddMachine(ctx, p, "card of "+p, false))
	}
	return m
}

func (m *machine) must(err error) {
	if err != nil {
		m.t.Fatalf("%s: %v", m.name, err)
	}
}

func (m *machine) open() {
	var err error
	m.ledger, err = ledger.Open(context.Background(), m.path)
	m.must(err)
}

// start runs the link of the machine.
func (m *machine) start() {
	ctx, cancel := context.WithCancel(context.Background())
	self, _, err := m.ledger.Links.Link(ctx)
	m.must(err)
	var wire Wire = &memory{hub: m.hub, name: m.name}
	if m.wire != nil {
		wire = m.wire(wire)
	}
	m.link = New(Options{
		Root: root, Self: self, Ledger: m.ledger, Wire: wire,
		Deliver: m.deliver,
		States: func(ctx context.Context, list []ledger.Incoming) (now []ledger.Incoming, err error) {
			for _, in := range list {
				if m.state == nil {
					in.Stage = ledger.StageSeen
				} else if in, err = m.state(ctx, in); err != nil {
					return nil, err
				}
				now = append(now, in)
			}
			return now, nil
		},
		Every: cmp.Or(m.every, 20*time.Millisecond), Late: 20 * time.Millisecond, Retry: cmp.Or(m.retry, time.Millisecond), page: m.page,
		Changed: func() {
			signal(m.changed)
			if m.every != 0 {
				m.link.Announce() // often, as if its members' states had changed
			}
		},
		Warn: func(err error) { m.warn(err) },
	})
	done := make(chan error, 1)
	go func() { done <- m.link.Run(ctx) }()
	m.stop = func() {
		cancel()
		m.must(<-done)
		m.link, m.stop = nil, nil
	}
}

// restart ends the link and the ledger, and starts them again.
func (m *machine) restart() {
	m.stop()
	m.must(m.ledger.Close())
	m.open()
	m.start()
}

// deliver delivers once for an id, as sending under an id does.
func (m *machine) deliver(_ context.Context, in Message) (ledger.Incoming, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.delivers++
	out := in.Incoming
	if m.refuse != "" {
		out.Stage, out.Reason = ledger.StageRefused, m.refuse
		return out, nil
	}
	if m.delivers%7 == 0 {
		return out, errors.New("its inbox is locked")
	}
	key := in.Machine + "/" + in.Member + "/" + in.ID
	if !m.seen[key] {
		m.seen[key] = true
		m.got = append(m.got, in.Machine+"/"+in.Member+"/"+in.Text)
	}
	out.Stage, out.Root, out.Recipient = ledger.StageVerified, root, in.Member
	return out, nil
}

func (m *machine) send(to, member, text string) string {
	id := uuid.NewString()
	o := ledger.Outgoing{Machine: to, There: member, At: "team"}
	o.Delivery = ledger.Delivery{
		UUID: id, ID: id, InboxKey: inbox.InboxKey{Root: root, Team: "team@" + to, CreatedAt: ledger.MachineTeamCreated, Inbox: member},
		From: "user", Kind: "message", Raw: []byte(text), Person: true, Isolated: true, At: time.Now().Add(m.ahead),
	}
	_, _, err := m.ledger.Outbox.Add(context.Background(), o, sha256.Sum256([]byte(text)))
	m.must(err)
	if m.link != nil {
		m.link.Poke()
	}
	return id
}

// stage returns the stage of a message.
func (m *machine) stage(id string) ledger.Stage {
	o, found, err := m.ledger.Outbox.Outgoing(context.Background(), id)
	m.must(err)
	if !found {
		m.t.Fatalf("%s has no message %s", m.name, id)
	}
	return o.Stage
}

// patience limits a wait for other goroutines, which have little of a busy machine.
const patience = 5 * time.Minute

// await waits until all messages have come to a stage.
func (m *machine) await(t interface{ Fatalf(string, ...any) }, want ledger.Stage, ids ...string) {
	deadline := time.After(patience)
	for _, id := range ids {
		for m.stage(id) != want {
			select {
			case <-m.changed:
			case <-time.After(50 * time.Millisecond): // the signal of another wait
			case <-deadline:
				o, _, _ := m.ledger.Outbox.Outgoing(context.Background(), id)
				t.Fatalf("%s: %s is %q, want %q", m.name, id, o.Stage, want)
			}
		}
	}
}

// Each message arrives once, whatever faults the wire has and whichever machine is restarted, and
// its outcome comes back. Without faults of order, messages arrive in order.
func TestOnceThroughEveryFault(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		often := func(name string) float64 {
			return rapid.SampledFrom([]float64{0, 0, 0.1, 0.4}).Draw(t, name)
		}
		f := faults{often("drop"), often("repeat"), often("reorder"), often("unacked"), often("silent")}
		h := newHub(rapid.Int64().Draw(t, "seed"), f)
		dir := filepath.Join(tempDir, uuid.NewString())
		a, b := newMachine(t, dir, "a", h, "b"), newMachine(t, dir, "b", h, "a")
		a.start()
		b.start()
		var ids, want []string
		wiped := false
		for i := range rapid.IntRange(1, 40).Draw(t, "messages") {
			member := rapid.SampledFrom([]string{"worker", "tester"}).Draw(t, "member")
			text := fmt.Sprint("text ", i)
			ids, want = append(ids, a.send("b", member, text)), append(want, "a/"+member+"/"+text)
			switch rapid.IntRange(0, 12).Draw(t, "then") {
			case 0:
				a.restart()
			case 1:
				b.restart()
			case 2:
				h.wipe()
				wiped = true
			}
		}
		a.await(t, ledger.StageSeen, ids...)
		a.stop()
		b.stop()
		b.mu.Lock()
		defer b.mu.Unlock()
		got := slices.Clone(b.got)
		if f.reorder == 0 && !wiped {
			for _, member := range []string{"worker", "tester"} {
				of := func(list []string) []string {
					return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return len(s) < 8 || s[2:8] != member })
				}
				if got, want := of(b.got), of(want); !slices.Equal(got, want) {
					t.Fatalf("%s got %q, want %q", member, got, want)
				}
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

var tempDir string

func TestMain(m *testing.M) {
	flag.Set("rapid.checks", "8") // unless the command line has another number
	var err error
	if tempDir, err = os.MkdirTemp("", "link"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(tempDir)
	os.Exit(code)
}
