package client_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/relay/relaytest/killtest"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
	"teambridge/teams/winetest"
)

func TestMain(m *testing.M) { os.Exit(killtest.Tests(m)) }

// patience limits the wait of a test for an event.
const patience = 3 * time.Minute

// The captured teams.
const (
	older = teamstest.Older
	newer = teamstest.Newer
)

// world is a Claude directory with a captured team of an older and of a newer version.
type world struct {
	*teamstest.Fixture
	t testing.TB
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{teamstest.Captured(t, teamstest.OlderVersion, teamstest.NewerVersion), t}
}

// serve runs a service, and returns its addresses and a function that ends it, which
// the test calls at its end.
func (w *world) serve(change ...func(*server.Options)) (addrs []string, end func()) {
	w.t.Helper()
	opts := server.Options{
		Root: w.Root, State: w.State, Version: api.Version{Version: "v", Go: "go", OS: "os", Arch: "arch"},
		Log: slog.New(slog.DiscardHandler), Lock: teamstest.Patient,
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := server.New(opts)
	must(w.t, err)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-over:
		w.t.Fatalf("the service ended: %v", err)
	case <-time.After(patience):
		w.t.Fatal("the service is not ready")
	}
	end = sync.OnceFunc(func() {
		stop()
		select {
		case err := <-over:
			if err != nil {
				w.t.Errorf("the service ended with: %v", err)
			}
		case <-time.After(patience):
			w.t.Error("the service does not end")
		}
	})
	w.t.Cleanup(end)
	return s.Addrs(), end
}

// find returns the client that finds the service.
func (w *world) find() *client.Client {
	w.t.Helper()
	c, err := client.Find(w.State, w.Root.Path())
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// both makes a service listen at its socket and over TCP.
func (w *world) both(o *server.Options) {
	winetest.SkipUnix(w.t, onPort)
	o.Listen = []string{"unix:" + api.SocketPath(w.State, w.Root.Path()), "127.0.0.1:0"}
}

// onPort is the reason why a test that needs a socket is skipped on Windows.
const onPort = "a service listens on a port"

// cutter passes connections on, and cuts each after a number of bytes of the answers, or never (0).
type cutter struct {
	path string
	mu   sync.Mutex
	cuts []int // of the next connections; the last one is for all further ones
	made int   // connections
}

func newCutter(t *testing.T, to string, cuts ...int) *cutter {
	t.Helper()
	winetest.SkipUnix(t, onPort)
	dir, err := os.MkdirTemp("", "tb")
	must(t, err)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	must(t, err)
	c := &cutter{path: filepath.Join(dir, "s"), cuts: cuts}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.pass(ctx, in, strings.TrimPrefix(to, "unix:")) })
		}
	})
	t.Cleanup(func() {
		stop()
		_ = l.Close()
		all.Wait()
		_ = os.RemoveAll(dir)
	})
	return c
}

func (c *cutter) pass(ctx context.Context, in net.Conn, to string) {
	defer in.Close()
	out, err := new(net.Dialer).DialContext(ctx, "unix", to)
	if err != nil {
		return
	}
	defer out.Close()
	c.mu.Lock()
	limit := c.cuts[min(c.made, len(c.cuts)-1)]
	c.made++
	c.mu.Unlock()
	var both sync.WaitGroup
	end := context.AfterFunc(ctx, func() { _ = in.Close(); _ = out.Close() })
	defer end()
	both.Go(func() { _, _ = io.Copy(out, in); _ = out.Close() })
	if limit == 0 {
		_, _ = io.Copy(in, out)
	} else {
		_, _ = io.CopyN(in, out, int64(limit))
	}
	_ = in.Close()
	_ = out.Close()
	both.Wait()
}

// count returns the number of connections so far.
func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

var must = errtest.Must
