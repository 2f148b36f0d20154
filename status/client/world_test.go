package client_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// patience is how long a test waits for what has to come.
const patience = time.Minute

// patient is how long locks are waited for and held at most.
var patient = lockedfile.Options{Wait: time.Minute, Hold: time.Minute}

// The teams of the fixtures.
const (
	older = "myteam"           // of an older version
	newer = "session-2de3961d" // of the second
)

// world is a Claude directory with a team of an older and of a newer version, and a place for
// teambridge's own files.
type world struct {
	t     testing.TB
	root  *teams.Root
	state string // short enough for a socket
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir := t.TempDir()
	for _, captured := range []string{"claude-2.1.80", "claude-2.1.329"} {
		if err := os.CopyFS(filepath.Join(dir, "teams"), os.DirFS(filepath.Join("..", "..", "testdata", captured, "teams"))); err != nil {
			t.Fatal(err)
		}
	}
	state, err := os.MkdirTemp("", "tb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	root, err := teams.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return &world{t, root, state}
}

// inbox opens an inbox from outside of the service.
func (w *world) inbox(team, name string) *inbox.Inbox {
	w.t.Helper()
	open, err := w.root.Team(team)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = open.Close() })
	box, err := inbox.Open(open, name, lockedfile.New(lockedfile.Options{Dir: filepath.Join(w.state, "locks"), Wait: patient.Wait, Hold: patient.Hold}))
	if err != nil {
		w.t.Fatal(err)
	}
	return box
}

// say puts a message into an inbox as somebody else would.
func (w *world) say(team, from, to, text string) {
	w.t.Helper()
	if _, err := w.inbox(team, to).Append(w.t.Context(), inbox.Message{From: from, Text: text}, inbox.AppendOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// serve runs a service, and returns where it listens and how to end it. It is ended
// with the test at the latest.
func (w *world) serve(change ...func(*server.Options)) (addrs []string, end func()) {
	w.t.Helper()
	opts := server.Options{
		Root: w.root, State: w.state, Version: api.Version{Version: "v", Go: "go", OS: "os", Arch: "arch"},
		Log: slog.New(slog.DiscardHandler), Lock: patient,
	}
	for _, f := range change {
		f(&opts)
	}
	s, err := server.New(opts)
	if err != nil {
		w.t.Fatal(err)
	}
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
	c, err := client.Find(w.state, w.root.Path())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// both makes a service listen at its socket and over TCP.
func (w *world) both(o *server.Options) {
	o.Listen = []string{"unix:" + api.SocketPath(w.state, w.root.Path()), "127.0.0.1:0"}
}

// cutter passes connections on, and cuts each after so many bytes of the answers,
// or never (0).
type cutter struct {
	path string
	mu   sync.Mutex
	cuts []int // of the next connections; the last one is for all further ones
	made int   // connections
}

func newCutter(t *testing.T, to string, cuts ...int) *cutter {
	t.Helper()
	dir, err := os.MkdirTemp("", "tb")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
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
	both.Go(func() { _, _ = copyUp(out, in, 0); _ = out.Close() })
	_, _ = copyUp(in, out, limit)
	_ = in.Close()
	_ = out.Close()
	both.Wait()
}

// copyUp copies, at most so many bytes if that is not 0.
func copyUp(to, from net.Conn, limit int) (n int, err error) {
	buf := make([]byte, 4<<10)
	for limit == 0 || n < limit {
		part := buf
		if limit > 0 {
			part = buf[:min(len(buf), limit-n)]
		}
		k, err := from.Read(part)
		if k > 0 {
			if _, err := to.Write(part[:k]); err != nil {
				return n, err
			}
			n += k
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// count is how many connections there were.
func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}
