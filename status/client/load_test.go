package client_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/relay/relaytest/simagent"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/teams/teamstest"
	"teambridge/teams/winetest"
)

// Under load the service keeps neither goroutines nor descriptors, and its memory does not grow: messages to an
// agent that takes them, questions, streams that come and go, some without a reader.
//
// TEAMBRIDGE_LOAD is how long the load lasts (default 1s; memory is checked from 1m on, and 10m gives figures).
func TestLoad(t *testing.T) {
	load := time.Second
	if text := os.Getenv("TEAMBRIDGE_LOAD"); text != "" {
		var err error
		if load, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	w := newWorld(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	team, err := simagent.Create(ctx, simagent.TeamOptions{
		Root: w.Root.Path(), Name: "busy", Poll: 20 * time.Millisecond, Members: []simagent.Member{{Name: "worker", Absent: true}},
		Report: func(error) {},
	})
	must(t, err)
	// Takes all waiting messages, as an agent does; a simulated agent would keep them.
	box := w.Inbox(team.Name(), "worker")
	var agents sync.WaitGroup
	agents.Go(func() {
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			select {
			case <-tick.C:
				_, _ = teamstest.Take(ctx, box, teamstest.All) // it comes again
			case <-ctx.Done():
				tick.Stop()
				return
			}
		}
	})
	defer agents.Wait()
	defer cancel()
	winetest.SkipUnix(t, onPort)
	addrs, _ := w.serve()
	// The baseline, after every request was made once, since some files are opened at the first use.
	c := w.client(addrs[0])
	if _, err := c.Send(ctx, "busy", "worker", "", api.NewMessage{Text: "the first message"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Messages(ctx, "busy", client.MessageQuery{With: "worker"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.History(ctx, client.SearchQuery{Words: "message"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(ctx, "busy"); err != nil {
		t.Fatal(err)
	}
	for _, err := range c.Events(ctx, "busy", client.After(0)) {
		must(t, err)
		break
	}
	c.Close()
	begin := settle(t, usage{goroutines: 1 << 20, files: 1 << 20})

	end := time.Now().Add(load)
	// busy runs n goroutines that each call do again and again, at a pace.
	busy := func(n int, pace time.Duration, do func(c *client.Client, k int) error) func() error {
		return func() error {
			var all sync.WaitGroup
			errs := make(chan error, n)
			for range n {
				all.Go(func() {
					c := w.client(addrs[0])
					defer c.Close()
					tick := time.NewTicker(pace)
					defer tick.Stop()
					for k := 0; time.Now().Before(end); k++ {
						if err := do(c, k); err != nil {
							errs <- err
							return
						}
						<-tick.C
					}
				})
			}
			all.Wait()
			close(errs)
			return <-errs
		}
	}
	var sent, told, asked atomic.Int64
	loads := []func() error{
		busy(2, 10*time.Millisecond, func(c *client.Client, k int) error {
			_, err := c.Send(ctx, "busy", "worker", "", api.NewMessage{Text: fmt.Sprintf("message %d", k)})
			sent.Add(1)
			return err
		}),
		busy(1, 20*time.Millisecond, func(c *client.Client, k int) error {
			_, err := c.Messages(ctx, "busy", client.MessageQuery{With: "worker"})
			if err == nil {
				_, err = c.History(ctx, client.SearchQuery{Words: "message"})
			}
			if err == nil {
				_, err = c.Status(ctx, "busy")
			}
			asked.Add(3)
			return err
		}),
		busy(2, time.Millisecond, func(*client.Client, int) error { // streams without a reader
			c, err := new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(addrs[0], "unix:"))
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = fmt.Fprint(c, "GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\n\r\n")
			<-time.After(200 * time.Millisecond)
			return err
		}),
		busy(4, time.Millisecond, func(c *client.Client, k int) error { // streams that come and go
			following, stop := context.WithTimeout(ctx, time.Duration(k%7)*30*time.Millisecond)
			defer stop()
			for range c.Events(following, "busy", client.Now) {
				told.Add(1)
			}
			return nil
		}),
	}
	var all sync.WaitGroup
	for _, run := range loads {
		all.Go(func() {
			if err := run(); err != nil {
				t.Error(err)
			}
		})
	}
	var middle []usage // after each fifth
	for load >= time.Minute && len(middle) < 4 {
		<-time.After(load / 5)
		middle = append(middle, measure())
	}
	all.Wait()
	last := measure()
	after := settle(t, begin)
	t.Logf("%s: %d messages, %d questions, %d events\nidle before     %s\nafter fifths    %s\nat the end      %s\nidle afterwards %s",
		load, sent.Load(), asked.Load(), told.Load(), begin, middle, last, after)
	if load >= time.Minute && (after.heap > begin.heap+16<<20 || after.resident > middle[0].resident+32<<10) {
		t.Errorf("memory has grown")
	}
}

// usage returns the resources of this process: the service, and its clients.
type usage struct {
	goroutines, files int
	heap              uint64
	resident          int // KiB; SQLite has its memory elsewhere than in the heap
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %.1f MiB of heap, %d MiB resident", u.goroutines, u.files, float64(u.heap)/(1<<20), u.resident>>10)
}

func measure() usage {
	debug.FreeOSMemory() // so that resident memory is in use
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd") // none on systems without it
	status, _ := os.ReadFile("/proc/self/status")
	resident := 0
	if _, text, ok := strings.Cut(string(status), "VmRSS:"); ok {
		_, _ = fmt.Sscan(text, &resident)
	}
	return usage{runtime.NumGoroutine(), len(files), m.HeapAlloc, resident}
}

// settle waits until there are no more goroutines and files than that.
func settle(t *testing.T, most usage) usage {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(patience); ; {
		u := measure()
		if u.goroutines <= most.goroutines && u.files <= most.files {
			return u
		}
		select {
		case <-tick.C:
		case <-over:
			buf := make([]byte, 1<<20)
			t.Fatalf("%s are left, and there were %s before\n%s", u, most, buf[:runtime.Stack(buf, true)])
		}
	}
}

// client returns a client of a socket.
func (w *world) client(addr string) *client.Client {
	c, err := client.New(client.Options{Socket: addr[len("unix:"):]})
	if err != nil {
		panic(err) // a mistake in the test
	}
	return c
}
