package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/teams/winetest"
)

// pipe returns a client with one connection at a time to a socket, and the number of connections.
func (w *world) pipe(address string, before ...func()) (*client.Client, *atomic.Int64) {
	w.t.Helper()
	winetest.SkipUnix(w.t, onPort)
	dialed := &atomic.Int64{}
	c, err := client.New(client.Options{
		Pipe: true, Where: "the other machine", Dial: func(ctx context.Context) (net.Conn, error) {
			dialed.Add(1)
			for _, f := range before {
				f()
			}
			return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(address, "unix:"))
		},
	})
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c, dialed
}

// Requests and streams share one connection, even if all of them begin at once.
func TestPipeIsOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addrs, _ := w.serve()
	var asking sync.WaitGroup // callers that are about to ask, for which a connection waits
	asking.Add(50)
	c, dialed := w.pipe(addrs[0], asking.Wait)
	ctx, stop := context.WithCancel(t.Context())
	var all, begun sync.WaitGroup
	for range 3 {
		begun.Add(1)
		all.Go(func() {
			first := sync.OnceFunc(begun.Done)
			defer first()
			for _, err := range c.Events(ctx, "", client.Now) {
				if first(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	var asked sync.WaitGroup
	for i := range 50 {
		asked.Go(func() {
			asking.Done()
			if _, err := c.Send(t.Context(), older, "worker", fmt.Sprint("m-", i), api.NewMessage{Text: "x"}); err != nil {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	asked.Wait()
	stop()
	all.Wait()
	if n := dialed.Load(); n != 1 {
		t.Errorf("there were %d connections", n)
	}
}

// When the pipe is cut, a request fails and says whether it was possibly carried out, the next one connects
// again, and a stream continues without a gap or a repeat.
func TestPipeIsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addrs, _ := w.serve()
	for cut := 1; cut < 400; cut += 13 { // bytes of the answers: settings, headers, and the body
		k := newCutter(t, addrs[0], cut, 0)
		c, _ := w.pipe(k.path)
		id := fmt.Sprint("m-", cut)
		_, err := c.Send(t.Context(), older, "worker", id, api.NewMessage{Text: id})
		u, ok := errors.AsType[*client.UnreachableError](err)
		if err != nil && (!ok || !u.Sent) {
			t.Fatalf("cut after %d: %v", cut, err)
		}
		if _, err := c.Send(t.Context(), older, "worker", id, api.NewMessage{Text: id}); err != nil {
			t.Errorf("after a cut after %d, again: %v", cut, err)
		}
	}
	rows, err := w.find().Read(t.Context(), older, api.Reading{Inboxes: []string{"worker"}})
	must(t, err)
	seen := map[string]int{}
	for _, m := range rows.Messages {
		seen[m.ID]++
	}
	for cut := 1; cut < 400; cut += 13 {
		if n := seen[fmt.Sprint("m-", cut)]; n != 1 {
			t.Errorf("the message that was cut after %d is there %d times", cut, n)
		}
	}

	k := newCutter(t, addrs[0], 3000, 9000, 5000, 0)
	broke := 0
	c, err := client.New(client.Options{
		Pipe: true, Where: "the other machine", Broken: func(error) { broke++ },
		Dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "unix", k.path) },
	})
	must(t, err)
	client.Hurry(c)
	defer c.Close()
	got, last := 0, int64(0)
	for e, err := range c.Events(t.Context(), older, client.After(0)) {
		must(t, err)
		if e.Message == nil {
			continue
		}
		if e.Seq <= last {
			t.Errorf("event %d comes after %d", e.Seq, last)
		}
		last = e.Seq
		if strings.HasPrefix(e.Message.Message.ID, "m-") && e.Message.Change == api.Appeared {
			if got++; got == 31 {
				break
			}
		}
	}
	if got != 31 || broke != 3 || k.count() != 4 {
		t.Errorf("%d messages came, it broke %d times, with %d connections", got, broke, k.count())
	}
}
