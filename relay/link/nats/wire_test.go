package nats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"teambridge/relay/link"
	"teambridge/relay/link/hub"
	"teambridge/relay/link/nats"
	"teambridge/relay/link/nats/admin"
	"teambridge/teams/errtest"
)

// patience is how long a test waits.
const patience = 3 * time.Minute

// bench is a hub and machines that know each other.
type bench struct {
	t      *testing.T
	dir    string
	listen string
	keys   map[string]*nats.Key
	stop   func()
	url    string
}

var must = errtest.Must

func newBench(t *testing.T, names ...string) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), listen: "127.0.0.1:0", keys: map[string]*nats.Key{}}
	if runtime.GOOS == "linux" { // an address of its own: while the hub is stopped, no other program takes its port
		b.listen = fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	}
	for _, n := range names {
		b.keys[n] = newKey(t)
		b.add(n)
	}
	b.start()
	t.Cleanup(func() { b.stop() })
	return b
}

func newKey(t *testing.T) *nats.Key {
	t.Helper()
	k, err := nats.NewKey()
	must(t, err)
	return k
}

func (b *bench) add(name string) {
	b.t.Helper()
	must(b.t, hub.Add(b.t.Context(), b.dir, b.keys[name].Card(name), hub.AddOptions{}))
}

// start starts the hub at its previous address.
func (b *bench) start() {
	b.t.Helper()
	h, err := hub.Open(b.t.Context(), hub.Options{Dir: b.dir, Listen: b.listen, Log: slog.New(slog.NewTextHandler(b.t.Output(), nil))})
	must(b.t, err)
	b.listen = h.Addr().String()
	b.url = "nats://" + b.listen
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- h.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bench) options(name string) nats.Options {
	return nats.Quick(nats.Options{Name: name, Key: b.keys[name], Hub: b.url, Card: func(peer string) (nats.Card, bool) {
		if k := b.keys[peer]; k != nil {
			return k.Card(peer), true
		}
		return nats.Card{}, false
	}})
}

func (b *bench) dial(o nats.Options) *nats.Wire {
	b.t.Helper()
	w, err := nats.Dial(b.t.Context(), o)
	must(b.t, err)
	b.t.Cleanup(w.Close)
	return w
}

// wire returns the wire of a machine, which is connected and reads its queue.
func (b *bench) wire(name string) *nats.Wire {
	b.t.Helper()
	w := b.dial(b.options(name))
	until(b.t, w, func(s link.State) bool { return s.Queue != "" })
	return w
}

// attacker is a client that has the key of a machine.
func (b *bench) attacker(name string) (*natsgo.Conn, jetstream.JetStream) {
	b.t.Helper()
	nc, err := natsgo.Connect(b.url, natsgo.Nkey(b.keys[name].Card(name).Key, b.keys[name].Sign), natsgo.CustomInboxPrefix("_INBOX_"+name), natsgo.ErrorHandler(nil))
	must(b.t, err)
	b.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
	must(b.t, err)
	return nc, js
}

// until waits until the state of a wire is as expected. Frames that come meanwhile are lost.
func until(t *testing.T, w *nats.Wire, ok func(link.State) bool) link.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if s := w.State(); ok(s) {
			return s
		}
		if _, err := w.Next(ctx); err != nil {
			t.Fatalf("state is %+v: %v", w.State(), err)
		}
	}
}

// next returns the next frame.
func next(t *testing.T, w *nats.Wire) link.Arrival {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		a, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("state is %+v: %v", w.State(), err)
		}
		if a.Frame != nil {
			return a
		}
	}
}

// acked has the last frame that a wire acknowledged.
var acked sync.Map

// want wants a frame, and acknowledges it. The one before may come again, as on a busy machine, if the
// hub waited too long for the acknowledgement.
func want(t *testing.T, w *nats.Wire, from, text string) {
	t.Helper()
	a := next(t, w)
	for last, ok := acked.Load(w); ok && text != last && string(a.Frame) == last; a = next(t, w) {
		must(t, a.Ack(t.Context()))
	}
	acked.Store(w, text)
	if a.From != from || string(a.Frame) != text {
		t.Fatalf("got %q from %s; want %q from %s", a.Frame, a.From, text, from)
	}
	must(t, a.Ack(t.Context()))
}

// atOnce checks that something waits for no pin and no acknowledgment, which take 5 s or more. The best of some tries
// counts, since other load of the machine can only make them longer.
func atOnce(t *testing.T, before, timed, after func(try string)) {
	t.Helper()
	for n := range 3 {
		try := fmt.Sprint(" ", n)
		before(try)
		start := time.Now()
		timed(try)
		d := time.Since(start)
		after(try)
		if d < 4*time.Second {
			return
		}
		if n == 2 {
			t.Errorf("it took %v, which is the time of a pin or of an acknowledgment", d)
		}
	}
}

// store publishes until the frame is stored, as the outbox does.
func store(ctx context.Context, w *nats.Wire, peer, id, text string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := publish(ctx, w, peer, id, text)
		if err == nil || ctx.Err() != nil || errors.Is(err, link.ErrFull) || errors.Is(err, link.ErrPeer) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func send(t *testing.T, w *nats.Wire, peer, id, text string) {
	t.Helper()
	must(t, store(t.Context(), w, peer, id, text))
}

func publish(ctx context.Context, w *nats.Wire, peer, id, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return w.Publish(ctx, peer, id, []byte(text))
}

func TestFramesArriveInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	wa, wb, wc := b.wire("a"), b.wire("b"), b.wire("c")
	for i := range 20 {
		send(t, wa, "b", fmt.Sprint("a", i), fmt.Sprint("from a ", i))
	}
	for i := range 20 {
		want(t, wb, "a", fmt.Sprint("from a ", i))
	}
	send(t, wc, "b", "c1", "from c")
	want(t, wb, "c", "from c")
	send(t, wb, "a", "b1", "back")
	want(t, wa, "b", "back")
	if err := publish(t.Context(), wa, "d", "1", "x"); !errors.Is(err, link.ErrPeer) {
		t.Errorf("to a machine that is not linked: %v", err)
	}
	if err := publish(t.Context(), wa, "a", "1", "x"); !errors.Is(err, link.ErrPeer) {
		t.Errorf("to itself: %v", err)
	}
	if s := wb.State(); s.Waiting != 0 || s.Unreadable != 0 || !s.Connected || s.Err != "" {
		t.Errorf("state of b: %+v", s)
	}
}

// The same id is stored once, and each machine has ids of its own.
func TestSameIDIsStoredOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	wa, wb, wc := b.wire("a"), b.wire("b"), b.wire("c")
	for range 3 {
		send(t, wa, "b", "1", "once")
	}
	send(t, wc, "b", "1", "of c")
	send(t, wa, "c", "1", "to c")
	send(t, wa, "b", "2", "then")
	want(t, wb, "a", "once")
	want(t, wb, "c", "of c")
	want(t, wb, "a", "then")
	want(t, wc, "a", "to c")
}

// The next frame does not come before the acknowledgment, and an unacknowledged frame comes
// again to the next process at once.
func TestUnacknowledged(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	wa, wb := b.wire("a"), b.wire("b")
	o := b.options("b")
	o.Unpin = true
	atOnce(t, func(try string) {
		send(t, wa, "b", "1"+try, "first"+try)
		send(t, wa, "b", "2"+try, "second"+try)
		if a := next(t, wb); string(a.Frame) != "first"+try {
			t.Fatalf("got %q", a.Frame)
		}
		wb.Close()
	}, func(try string) {
		wb = b.dial(o)
		want(t, wb, "a", "first"+try)
	}, func(try string) {
		want(t, wb, "a", "second"+try)
	})
}

// A text reaches all listeners, also the machine itself.
func TestTell(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	wa, wb := b.wire("a"), b.wire("b")
	told := func(w *nats.Wire, from, text string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for {
			a, err := w.Next(ctx)
			must(t, err)
			if a.Text == nil {
				continue
			}
			if a.From != from || string(a.Text) != text || a.Ack != nil {
				t.Fatalf("got %q from %s; want %q from %s", a.Text, a.From, text, from)
			}
			return
		}
	}
	must(t, wa.Tell(t.Context(), "b", []byte("hello b")))
	told(wb, "a", "hello b")
	must(t, wa.Tell(t.Context(), "a", []byte("it is me")))
	told(wa, "a", "it is me")
	if err := wa.Tell(t.Context(), "x", nil); !errors.Is(err, link.ErrPeer) {
		t.Errorf("to a machine that is not linked: %v", err)
	}
}

// A proxy is between a machine and the hub.
type proxy struct {
	net.Listener
	to    string
	mu    sync.Mutex
	conns map[net.Conn]bool
	down  bool
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{Listener: l, to: to, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		l.Close()
		p.cut(true)
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				continue
			}
			p.mu.Lock()
			if p.down {
				c.Close()
				d.Close()
			}
			p.conns[c], p.conns[d] = true, true
			p.mu.Unlock()
			go pipe(c, d)
			go pipe(d, c)
		}
	}()
	return p
}

func pipe(a, b net.Conn) {
	io.Copy(a, b)
	a.Close()
	b.Close()
}

// cut cuts all connections, and accepts no new one if down.
func (p *proxy) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	for c := range p.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	clear(p.conns)
}

func (p *proxy) url() string { return "nats://" + p.Addr().String() }

// No frame overtakes another or is lost when connections are cut in flight. Frames may come
// twice, but a later one never comes before the first arrival of an earlier one.
func TestNothingOvertakesAfterCuts(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	pa, pb := newProxy(t, b.listen), newProxy(t, b.listen)
	oa, ob := b.options("a"), b.options("b")
	oa.Hub, ob.Hub = pa.url(), pb.url()
	wa, wb := b.dial(oa), b.dial(ob)
	const n = 100
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			if i%40 == 20 {
				pa.cut(false)
			}
			if err := store(t.Context(), wa, "b", fmt.Sprint(i), fmt.Sprint(i)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	twice := 0
	for want := 0; want < n; {
		a := next(t, wb)
		var got int
		fmt.Sscan(string(a.Frame), &got)
		if got > want {
			t.Fatalf("frame %d came before %d", got, want)
		}
		if got == want {
			want++
			if want%40 == 5 {
				pb.cut(false) // while we have the frame
			}
		} else {
			twice++
		}
		a.Ack(t.Context())
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	t.Logf("%d came twice", twice)
}

// Publish ends with its connection: no answer can come any more, and the frame can be sent again.
func TestPublishEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	var cut atomic.Bool
	go func() { // passes everything on up to the first frame, at which it cuts the connection
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", b.listen)
			if err != nil {
				c.Close()
				continue
			}
			go pipe(c, d)
			go func() {
				defer c.Close()
				defer d.Close()
				for buf := make([]byte, 64<<10); ; {
					n, err := c.Read(buf)
					if err != nil || bytes.Contains(buf[:n], []byte("HPUB tb.m.")) && !cut.Swap(true) {
						return
					}
					d.Write(buf[:n])
				}
			}()
		}
	}()
	o := b.options("a")
	o.Hub = "nats://" + l.Addr().String()
	w := b.dial(o)
	until(t, w, func(s link.State) bool { return s.Connected })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Publish(ctx, "b", "1", []byte("lost")); err == nil || ctx.Err() != nil || !cut.Load() {
		t.Errorf("a frame whose connection was cut: %v, %v", err, ctx.Err())
	}
	send(t, w, "b", "1", "again")
}

// After a restart of the hub, both machines go on with the same queue, and stored frames are still there.
func TestHubIsRestarted(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	wa, wb := b.wire("a"), b.wire("b")
	queue := wb.State().Queue
	send(t, wa, "b", "1", "before")
	b.stop()
	until(t, wa, func(s link.State) bool { return !s.Connected })
	until(t, wb, func(s link.State) bool { return !s.Connected && s.Err != "" && s.Waiting == -1 })
	if err := publish(t.Context(), wa, "b", "2", "no"); err == nil {
		t.Error("stored without a hub")
	}
	b.start()
	send(t, wa, "b", "3", "after")
	for _, text := range []string{"before", "after"} {
		for {
			a := next(t, wb)
			a.Ack(t.Context()) // or it comes again, if there is no connection yet
			if string(a.Frame) == text {
				break
			}
		}
	}
	until(t, wb, func(s link.State) bool { return s.Connected && s.Err == "" })
	if s := wb.State(); s.Queue != queue {
		t.Errorf("the queue was %s and is %s", queue, s.Queue)
	}
}

// After the hub lost its data, the queue has another name, and works.
func TestHubIsWiped(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	wa, wb := b.wire("a"), b.wire("b")
	old := wb.State().Queue
	b.stop()
	must(t, os.RemoveAll(filepath.Join(b.dir, "jetstream")))
	b.start()
	until(t, wb, func(s link.State) bool { return s.Connected && s.Queue != old })
	send(t, wa, "b", "1", "new")
	want(t, wb, "a", "new")
}

func TestDialWithoutHub(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	b.stop()
	wa := b.dial(b.options("a"))
	until(t, wa, func(s link.State) bool { return !s.Connected && strings.Contains(s.Err, "cannot be reached") })
	b.start()
	until(t, wa, func(s link.State) bool { return s.Connected && s.Queue != "" && s.Err == "" })
}

// A full queue refuses frames and reports it, and accepts frames again when there is room.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b", "c")
	wa, wc := b.wire("a"), b.wire("c")
	nc, js := b.attacker("a") // faster
	for range admin.MaxWaiting {
		if _, err := js.PublishAsync("tb.m.b.a", []byte("junk")); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-time.After(patience):
		t.Fatal("the queue does not fill")
	}
	nc.Close()
	if err := store(t.Context(), wa, "b", "1", "too much"); !errors.Is(err, link.ErrFull) {
		t.Fatalf("got %v", err)
	}
	send(t, wc, "b", "2", "of another") // each sender has room of its own
	wb := b.wire("b")                   // discards the junk
	want(t, wb, "c", "of another")
	if s := wb.State(); s.Unreadable < admin.MaxWaiting { // what is acknowledged late comes again, and counts again
		t.Errorf("%d unreadable", s.Unreadable)
	}
	send(t, wa, "b", "1", "room again")
	want(t, wb, "a", "room again")
}

// A second service with the same identity gets no frames, reports that, and takes over when the
// first one is gone.
func TestTwin(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a", "b")
	wa, first := b.wire("a"), b.wire("b")
	o := b.options("b")
	o.Unpin = true // as a clone does
	second := b.dial(o)
	until(t, second, func(s link.State) bool { return s.Err == link.ErrTwin.Error() })
	for i := range 50 {
		send(t, wa, "b", fmt.Sprint(i), fmt.Sprint(i))
	}
	for i := range 50 {
		want(t, first, "a", fmt.Sprint(i))
	}
	if s := first.State(); s.Err != "" {
		t.Errorf("the first one says %q", s.Err)
	}
	// On a busy machine, the second one may not have heard the first one for a while.
	until(t, second, func(s link.State) bool { return s.Err == link.ErrTwin.Error() && s.Waiting == -1 })
	first.Close()
	second.HearsNobody()
	send(t, wa, "b", "last", "for the second")
	want(t, second, "a", "for the second")
	if s := second.State(); s.Err != "" {
		t.Errorf("after it took over: %q", s.Err)
	}
}

// Services that started at once, and both count as the older one, do not flood the hub.
func TestTwinsDoNotFlood(t *testing.T) {
	if n := nats.Answers(100); n != 1 {
		t.Errorf("%d answers", n)
	}
}

// The error of a machine that the hub does not know, or knows under another name, says what to do.
func TestNotAdded(t *testing.T) {
	t.Parallel()
	b := newBench(t, "a")
	b.keys["b"] = newKey(t)
	wb := b.dial(b.options("b"))
	s := until(t, wb, func(s link.State) bool { return strings.Contains(s.Err, "does not know") })
	if add := "teambridge-hub add " + b.keys["b"].Card("b").String(); !strings.Contains(s.Err, add) {
		t.Errorf("%q does not say %q", s.Err, add)
	}
	b.keys["c"] = b.keys["a"]
	wc := b.dial(b.options("c"))
	until(t, wc, func(s link.State) bool { return s.Connected && strings.Contains(s.Err, "under another name") })
	b.add("b")
	until(t, wb, func(s link.State) bool { return s.Queue != "" && s.Err == "" })
	must(t, hub.Remove(t.Context(), b.dir, "b"))
	until(t, wb, func(s link.State) bool { return !s.Connected && strings.Contains(s.Err, "does not know") })
}
