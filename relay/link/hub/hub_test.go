package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/link"
	"teambridge/relay/link/nats"
	"teambridge/teams/errtest"
)

const patience = 3 * time.Minute

var must = errtest.Must

func newKey(t *testing.T) *nats.Key {
	t.Helper()
	k, err := nats.NewKey()
	must(t, err)
	return k
}

// open opens a hub that polls often.
func open(t *testing.T, o Options) *Hub {
	t.Helper()
	o.Listen, o.poll = "127.0.0.1:0", 10*time.Millisecond
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	h, err := Open(t.Context(), o)
	must(t, err)
	return h
}

// run runs a hub until the end of the test, or until stop.
func run(t *testing.T, h *Hub) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- h.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func add(t *testing.T, dir, name string, k *nats.Key, o AddOptions) {
	t.Helper()
	must(t, Add(t.Context(), dir, k.Card(name), o))
}

// dial returns the wire of a machine.
func dial(t *testing.T, h *Hub, name string, keys map[string]*nats.Key) *nats.Wire {
	t.Helper()
	return dialAt(t, "nats://"+h.Addr().String(), name, keys)
}

func dialAt(t *testing.T, url, name string, keys map[string]*nats.Key) *nats.Wire {
	t.Helper()
	w, err := nats.Dial(t.Context(), nats.Options{Name: name, Key: keys[name], Hub: url, Unpin: true,
		Card: func(peer string) (nats.Card, bool) {
			k, ok := keys[peer]
			if !ok {
				return nats.Card{}, false
			}
			return k.Card(peer), true
		}})
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

func until(t *testing.T, w *nats.Wire, what string, ok func(link.State) bool) link.State {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if s := w.State(); ok(s) {
			return s
		}
		if _, err := w.Next(ctx); err != nil {
			t.Fatalf("not %s: %+v", what, w.State())
		}
	}
}

func reads(s link.State) bool   { return s.Connected && s.Queue != "" && s.Err == "" }
func refused(s link.State) bool { return !s.Connected && strings.Contains(s.Err, "does not know") }

// The list of machines changes only by Add and Remove, and is never half written.
func TestAddRemoveList(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	ctx := t.Context()
	if all, err := List(dir); err != nil || len(all) != 0 {
		t.Errorf("at first: %v, %v", all, err)
	}
	a, b := newKey(t), newKey(t)
	add(t, dir, "a", a, AddOptions{})
	add(t, dir, "a", a, AddOptions{}) // again
	if err := Add(ctx, dir, b.Card("a"), AddOptions{}); !errors.Is(err, ErrOther) {
		t.Errorf("another a: %v", err)
	}
	if err := Add(ctx, dir, a.Card("b"), AddOptions{}); err == nil || !strings.Contains(err.Error(), "keys of a") {
		t.Errorf("the same under another name: %v", err)
	}
	if err := Add(ctx, dir, nats.Card{Name: "x.y"}, AddOptions{}); err == nil {
		t.Error("x.y was added")
	}
	end := time.Now().Add(time.Hour).UTC()
	add(t, dir, "a", b, AddOptions{Replace: true, Expires: end})
	all, err := List(dir)
	if err != nil || len(all) != 1 || all[0].Card != b.Card("a") || !all[0].Expires.Equal(end) || all[0].Added.IsZero() {
		t.Errorf("got %+v, %v", all, err)
	}
	if err := Remove(ctx, dir, "b"); !errors.Is(err, ErrNone) {
		t.Errorf("remove b: %v", err)
	}
	if err := Remove(ctx, dir, "a"); err != nil {
		t.Error(err)
	}
	if all, err := List(dir); err != nil || len(all) != 0 {
		t.Errorf("at last: %v, %v", all, err)
	}
	// Many at once.
	var wg sync.WaitGroup
	for i := range 20 {
		k := newKey(t)
		wg.Go(func() {
			if err := Add(ctx, dir, k.Card(fmt.Sprint("m", i)), AddOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all, err := List(dir); err != nil || len(all) != 20 {
		t.Errorf("%d machines, %v", len(all), err)
	}
	for _, text := range []string{"x", `{"machines":[{"card":"a"}]}`, ""} {
		must(t, os.WriteFile(filepath.Join(dir, "machines.json"), []byte(text), 0o600))
		if _, err := List(dir); err == nil || !strings.Contains(err.Error(), "corrupt") {
			t.Errorf("%q: %v", text, err)
		}
		if err := Add(ctx, dir, a.Card("a"), AddOptions{}); err == nil {
			t.Errorf("%q was overwritten", text)
		}
	}
}

// A machine and its queue are added and removed while the hub runs, without an effect on others.
func TestMachinesComeAndGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := map[string]*nats.Key{"a": newKey(t), "b": newKey(t), "c": newKey(t)}
	add(t, dir, "a", keys["a"], AddOptions{})
	h := open(t, Options{Dir: dir})
	stop := run(t, h)
	a, b := dial(t, h, "a", keys), dial(t, h, "b", keys)
	since := until(t, a, "connected", reads).Since
	until(t, b, "refused", refused)
	add(t, dir, "b", keys["b"], AddOptions{})
	queue := until(t, b, "let in", reads).Queue
	must(t, Remove(t.Context(), dir, "b"))
	until(t, b, "put out", refused)
	// Frames for it are lost when it is removed; its new queue is another one.
	add(t, dir, "b", keys["b"], AddOptions{})
	until(t, b, "let in again with another queue", func(s link.State) bool { return reads(s) && s.Queue != queue })
	publish(t, a, "b", "1")
	if got := frame(t, b); got != "1" {
		t.Errorf("got %q", got)
	}
	// Another machine takes the name.
	old := keys["b"]
	queue = b.State().Queue
	b.Close()
	publish(t, a, "b", "for the old one")
	keys["b"] = newKey(t)
	add(t, dir, "b", keys["b"], AddOptions{Replace: true})
	b = dial(t, h, "b", keys)
	// It can be let in before the queue is another one.
	until(t, b, "let in with another queue", func(s link.State) bool { return reads(s) && s.Queue != queue })
	publish(t, a, "b", "for the new one")
	if got := frame(t, b); got != "for the new one" {
		t.Errorf("got %q", got)
	}
	gone := dial(t, h, "b", map[string]*nats.Key{"b": old})
	until(t, gone, "refused", refused)
	if s := a.State(); s.Since != since || !s.Connected {
		t.Errorf("a was disconnected: %+v", s)
	}
	// A list that cannot be read changes nothing.
	must(t, os.WriteFile(filepath.Join(dir, "machines.json"), []byte("x"), 0o600))
	publish(t, a, "b", "2")
	for got := frame(t, b); got != "2"; got = frame(t, b) {
		if got != "for the new one" { // a wire may repeat frames
			t.Fatalf("got %q", got)
		}
	}
	stop()
	if _, err := Open(t.Context(), Options{Dir: dir, Listen: "127.0.0.1:0"}); err == nil {
		t.Error("started with a corrupt list")
	}
	must(t, os.Remove(filepath.Join(dir, "machines.json")))
	// The start removes queues of machines that were removed while the hub did not run.
	h = open(t, Options{Dir: dir})
	if names, err := h.queues.Queues(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("queues %v, %v", names, err)
	}
	h.Close()
}

func publish(t *testing.T, w *nats.Wire, peer, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, w.Publish(ctx, peer, text, []byte(text)))
}

func frame(t *testing.T, w *nats.Wire) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		a, err := w.Next(ctx)
		if err != nil {
			t.Fatalf("no frame: %+v", w.State())
		}
		if a.Frame != nil {
			a.Ack(ctx)
			return string(a.Frame)
		}
	}
}

// A machine that has expired by the clock of the hub is removed with its queue.
func TestExpiry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	now := time.Now()
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	keys := map[string]*nats.Key{"a": newKey(t), "ci": newKey(t)}
	add(t, dir, "a", keys["a"], AddOptions{})
	add(t, dir, "ci", keys["ci"], AddOptions{Expires: now.Add(2 * time.Hour)})
	h := open(t, Options{Dir: dir, now: clock})
	run(t, h)
	a, ci := dial(t, h, "a", keys), dial(t, h, "ci", keys)
	until(t, a, "connected", reads)
	until(t, ci, "connected", reads)
	mu.Lock()
	now = now.Add(2*time.Hour - time.Second)
	mu.Unlock()
	publish(t, a, "ci", "in time")
	if got := frame(t, ci); got != "in time" {
		t.Errorf("got %q", got)
	}
	mu.Lock()
	now = now.Add(time.Second)
	mu.Unlock()
	until(t, ci, "put out", refused)
	if all, err := List(dir); err != nil || len(all) != 1 || all[0].Card.Name != "a" {
		t.Errorf("%+v, %v", all, err)
	}
	if !reads(a.State()) {
		t.Errorf("%+v", a.State())
	}
}

// A server that no longer stores anything is restarted. A machine then goes on.
func TestProbe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := map[string]*nats.Key{"a": newKey(t), "b": newKey(t)}
	add(t, dir, "a", keys["a"], AddOptions{})
	add(t, dir, "b", keys["b"], AddOptions{})
	h := open(t, Options{Dir: dir, probe: 50 * time.Millisecond})
	addr := h.Addr().String()
	a, b := dial(t, h, "a", keys), dial(t, h, "b", keys)
	first := h.server
	run(t, h)
	until(t, a, "connected", reads)
	queue := until(t, b, "connected", reads).Queue
	publish(t, a, "b", "before")
	if err := first.DisableJetStream(); err != nil { // as it does when the disk is full
		t.Fatal(err)
	}
	until(t, b, "disconnected", func(s link.State) bool { return !s.Connected })
	if s := until(t, b, "back", reads); s.Queue != queue {
		t.Errorf("the queue was %s and is %s", queue, s.Queue)
	}
	if got := frame(t, b); got != "before" {
		t.Errorf("got %q", got)
	}
	var out bytes.Buffer
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		out.Reset()
		must(t, h.WriteMetrics(t.Context(), &out))
		// A machine can be back before the start is over.
		if !strings.Contains(out.String(), "teambridge_hub_restarts_total 0\n") || time.Now().After(end) {
			break
		}
	}
	if got := h.Addr().String(); got != addr {
		t.Errorf("it listens on %s, and did on %s", got, addr)
	}
	for _, want := range []string{"teambridge_hub_restarts_total 1\n", "teambridge_hub_up 1\n", `teambridge_hub_machine_connected{machine="b"} 1`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys := map[string]*nats.Key{"a": newKey(t), "b": newKey(t), "c": newKey(t)}
	for name, k := range keys {
		add(t, dir, name, k, AddOptions{})
	}
	h := open(t, Options{Dir: dir, MaxBytes: 1 << 22})
	run(t, h)
	a := dial(t, h, "a", keys)
	until(t, a, "connected", reads)
	publish(t, a, "b", "1")
	publish(t, a, "b", "2")
	c := dial(t, h, "c", keys)
	until(t, c, "connected", reads)
	publish(t, c, "b", "3")
	var out bytes.Buffer
	must(t, h.WriteMetrics(t.Context(), &out))
	for _, want := range []string{
		"teambridge_hub_machines 3\n", `teambridge_hub_machine_connected{machine="a"} 1`, `teambridge_hub_machine_connected{machine="b"} 0`,
		`teambridge_hub_waiting_frames{machine="a"} 0`, `teambridge_hub_waiting_frames{machine="b"} 3`,
		`teambridge_hub_waiting_most_frames{machine="a"} 0`, `teambridge_hub_waiting_most_frames{machine="b"} 2`, "teambridge_hub_sender_limit_frames 1000\n",
		"teambridge_hub_stream_limit_bytes 4194304\n", "# TYPE teambridge_hub_probe_failures_total counter\n", `teambridge_hub_waiting_oldest_seconds{machine="b"} `,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %s in\n%s", want, &out)
		}
	}
}

// Only one hub uses a directory, and it can be found there as long as it runs.
func TestOneHub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Find(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	h := open(t, Options{Dir: dir})
	if c, err := Find(dir); err != nil || c.Address != h.Addr().String() || c.PID != os.Getpid() {
		t.Errorf("got %+v, %v", c, err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir, Listen: "127.0.0.1:0"}); !errors.Is(err, ErrRunning) {
		t.Errorf("a second one: %v", err)
	}
	if _, err := Find(dir); err != nil {
		t.Errorf("after a second one was refused: %v", err)
	}
	// The port of another program.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Find(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after: %v", err)
	}
	must(t, os.WriteFile(cardPath(dir), []byte(`{"address":"127.0.0.1:1"}`), 0o600))
	if _, err := Find(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was killed: %v", err)
	}
}

// A hub refuses to listen beyond loopback without a certificate, or at an invalid address.
func TestListen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Listen: "0.0.0.0:4222"}, "needs a certificate"},
		{Options{Listen: ":4222"}, "needs a certificate"},
		{Options{Listen: "4222"}, "HOST:PORT"},
		{Options{Listen: "127.0.0.1:x"}, "HOST:PORT"},
		{Options{Listen: "127.0.0.1:0", TLSCert: "x"}, "needs its key"},
		{Options{Listen: "127.0.0.1:0", TLSCert: "/does/not/exist", TLSKey: "x"}, "no such file"},
	} {
		tt.o.Dir = t.TempDir()
		if h, err := Open(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.o, err)
			if err == nil {
				h.Close()
			}
		}
	}
}
