package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/status/client"
)

// A follower that is cut off at every place, with restarts of the service, gets the same events as one that is
// never cut off: each once, in order.
func TestEventsGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addrs, end := w.serve()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := w.find()
	p, err := c.Messages(ctx, older, client.MessageQuery{})
	must(t, err)
	const many = 40
	// An answer begins with about 700 bytes of header, then 1 to 3 KB of snapshot, and
	// a message takes 600.
	var cuts []int
	for n := range 60 {
		cuts = append(cuts, 200+n*211)
	}
	cuts = append(cuts, 0)
	cut := newCutter(t, addrs[0], cuts...)
	through, err := client.New(client.Options{Socket: cut.path})
	must(t, err)
	client.Hurry(through)
	seen := make(chan string, 10*many)
	followed := make(chan error, 1)
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(seen)
		for e, err := range through.Events(following, older, client.After(p.Seq)) {
			if err != nil {
				followed <- err
				return
			}
			if e.Message != nil {
				seen <- e.Message.Message.Text
			}
		}
		followed <- nil
	}()
	var want, got []string
	say := func(from, to int) {
		for n := from; n < to; n++ {
			text := fmt.Sprintf("message %d %s", n, strings.Repeat("☃", n))
			w.Send(older, "worker", "user", text)
			want = append(want, text)
		}
	}
	say(0, many/2)
	end()
	say(many/2, many*3/4) // without a service
	w.serve()
	say(many*3/4, many)
	for len(got) < len(want) {
		select {
		case text := <-seen:
			got = append(got, text)
		case <-ctx.Done():
			t.Fatalf("after %d of %d, and %d connections", len(got), len(want), cut.count())
		}
	}
	stop()
	if err := <-followed; err != nil {
		t.Error(err)
	}
	for text := range seen {
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("followed %q\nwant     %q", got, want)
	}
	if cut.count() < 20 {
		t.Errorf("it was cut off %d times only", cut.count())
	}
}

// script answers each stream with one text, the last one again and again.
func script(t *testing.T, status int, streams ...string) (c *client.Client, asked func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		n := min(len(all), len(streams)-1)
		all = append(all, r.URL.Query().Get("after"))
		mu.Unlock()
		w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: api.ProblemType}[status == 200])
		w.WriteHeader(status)
		_, _ = io.WriteString(w, streams[n])
		if n == len(streams)-1 && status == 200 {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	c, err := client.New(client.Options{Address: h.Listener.Addr().String(), Silence: patience})
	must(t, err)
	client.Hurry(c)
	t.Cleanup(func() { c.Close(); h.CloseClientConnections(); h.Close() })
	return c, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

const snapshot = "event: snapshot\nid: a-%d\ndata: {\"teams\":[],\"status\":[]}\n\n"

func message(seq int) string {
	return fmt.Sprintf("event: message\nid: a-%d\ndata: {\"seq\":%d,\"change\":\"appeared\",\"message\":{\"text\":\"m%d\"}}\n\n", seq, seq, seq)
}

func TestEventsAsTheyCome(t *testing.T) {
	t.Parallel()
	c, asked := script(t, 200,
		fmt.Sprintf(snapshot, 4)+": alive\n\n"+message(5)+"event: news\nid: a-6\ndata: {\"a\":1}\n\nevent: message\nid: a-7\ndata: {\"seq\":7,", // cut off
		fmt.Sprintf(snapshot, 6)+message(6)+message(7),
		"", // accepted, and ended
		"event: reset\nid: b-2\ndata: {\"seq\":2}\n\n"+strings.ReplaceAll(message(3), "id: a", "id: b"),
		strings.ReplaceAll(fmt.Sprintf(snapshot, 3)+strings.ReplaceAll(message(4), "\n", "\r\n"), "id: a", "id: b"),
	)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	for e, err := range c.Events(ctx, "", client.Now) {
		must(t, err)
		switch {
		case e.Message != nil:
			got = append(got, e.Message.Message.Text)
		case e.Reset != nil, e.Snapshot != nil, e.Name == "news":
			got = append(got, e.Name)
		}
		if e.Seq == 4 && e.Message != nil {
			break
		}
	}
	want := []string{"snapshot", "m5", "news", "snapshot", "m7", "reset", "m3", "snapshot", "m4"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if want := []string{"", "a-6", "a-7", "a-7", "b-3"}; !slices.Equal(asked(), want) {
		t.Errorf("it went on behind %q, want %q", asked(), want)
	}
}

// An error that a retry cannot repair ends the events.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		stream string
	}{
		{401, `{"code":"unauthorized","status":401}`},
		{404, `{"code":"no_route","status":404}`},
		{200, "event: message\nid: x\n\n"},
		{200, "event: message\ndata: {}\n\n"},
		{200, "event: message\nid: 1\ndata: [\n\n"},
	} {
		asks, asked := script(t, c.status, c.stream)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		var end error
		for _, err := range asks.Events(ctx, "", client.Now) {
			end = err
		}
		if end == nil || len(asked()) != 1 {
			t.Errorf("%s: %v after %d times", c.stream, end, len(asked()))
		}
		cancel()
	}
}

// A silent stream is broken.
func TestSilence(t *testing.T) {
	t.Parallel()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, snapshot, 1)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer h.Close()
	c, err := client.New(client.Options{Address: h.Listener.Addr().String(), Silence: 20 * time.Millisecond})
	must(t, err)
	var end error
	for _, err := range c.Stream(t.Context(), "", client.Now) {
		end = err
	}
	if !errors.Is(end, client.ErrUnreachable) || !strings.Contains(end.Error(), "nothing was received") {
		t.Errorf("it ended with %v", end)
	}
	c.Close()
}

// A service that is ending is asked again.
func TestEventsOfABusyService(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var n atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 3 {
			cancel()
		}
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"unavailable","status":503}`)
	}))
	defer h.Close()
	c, err := client.New(client.Options{Address: h.Listener.Addr().String()})
	must(t, err)
	client.Hurry(c)
	for e, err := range c.Events(ctx, "", client.Now) {
		t.Errorf("%+v, %v", e, err)
	}
	if n.Load() < 3 {
		t.Errorf("it was asked %d times", n.Load())
	}
	c.Close()
}
