package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/teams/errtest"
	"teambridge/teams/teamstest"
)

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
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{teamstest.Captured(t, teamstest.OlderVersion, teamstest.NewerVersion)}
}

type running struct {
	*Server
	world  *world
	doc    *reference
	client *http.Client // over the socket
	logs   *bytes.Buffer

	stop context.CancelFunc
	over chan error
}

// start starts a service after some changes of its options. It is ended with the
// test, or by end.
func (w *world) start(t testing.TB, change ...func(*Server)) *running {
	t.Helper()
	logs := &bytes.Buffer{}
	s, err := New(Options{
		Root: w.Root, State: w.State, Version: api.Version{Version: "v", Go: "go", OS: "os", Arch: "arch"},
		Log:  slog.New(slog.NewTextHandler(logs, nil)),
		Lock: teamstest.Patient,
	})
	must(t, err)
	s.core.Gather, s.limits.request = 10*time.Millisecond, patience
	for _, f := range change {
		f(s)
	}
	socket := api.SocketPath(w.State, w.Root.Path())
	r := &running{
		Server: s, world: w, doc: read(t), logs: logs, over: make(chan error, 1),
		client: &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", socket)
			},
		}},
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	go func() { r.over <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-r.over:
		t.Fatalf("the service ended: %v", err)
	case <-time.After(patience):
		t.Fatal("the service is not ready")
	}
	t.Cleanup(func() {
		r.end(t)
		if t.Failed() {
			t.Logf("log:\n%s", logs)
		}
	})
	return r
}

func (r *running) end(t testing.TB) {
	t.Helper()
	r.client.CloseIdleConnections()
	r.stop()
	select {
	case err := <-r.over:
		if err != nil {
			t.Errorf("the service ended with: %v", err)
		}
		r.over <- nil
	case <-time.After(patience):
		t.Error("the service does not end")
	}
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask asks over the socket, and checks the answer against the document.
func (r *running) ask(t testing.TB, method, path, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://teambridge"+path, strings.NewReader(body))
	must(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	return r.do(t, r.client, req)
}

func (r *running) do(t testing.TB, client *http.Client, req *http.Request) answer {
	t.Helper()
	res, err := client.Do(req)
	must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	if req.Method != http.MethodHead {
		r.doc.conforms(t, req.Method, r.pattern(req), res.StatusCode, res.Header.Get("Content-Type"), data)
	}
	return answer{res.StatusCode, res.Header, data}
}

// pattern is the path of the document that a request is for.
func (r *running) pattern(req *http.Request) string {
	mux := http.NewServeMux()
	for _, route := range r.routes() {
		mux.Handle(route.Method+" "+route.Path, http.NotFoundHandler())
	}
	_, pattern := mux.Handler(req)
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// get requests an answer with status 200.
func get[T any](t testing.TB, r *running, path string) T {
	t.Helper()
	return of[T](t, r.ask(t, "GET", path, ""), http.StatusOK)
}

// of reads an answer that must have a status.
func of[T any](t testing.TB, a answer, status int) T {
	t.Helper()
	var v T
	if a.status != status {
		t.Fatalf("%d, want %d: %s", a.status, status, a.body)
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// problem reads an answer that must be an error.
func problem(t testing.TB, a answer, code api.Code) api.Problem {
	t.Helper()
	p := of[api.Problem](t, a, code.HTTP())
	if p.Code != code || p.Status != a.status {
		t.Errorf("%s %d, want %s: %s", p.Code, p.Status, code, a.body)
	}
	if strings.Contains(p.Hint, "teambridge ") {
		t.Errorf("the hint is a command: %s", p.Hint)
	}
	return p
}

type event struct {
	name, id string
	data     []byte
}

// events is a stream that is read.
type events struct {
	t    testing.TB
	doc  *reference
	body io.ReadCloser
	in   *bufio.Reader
	past string // comments that came
}

// listen begins a stream.
func (r *running) listen(t testing.TB, query, last string) *events {
	t.Helper()
	return r.stream(t, "/v1/events"+query, last)
}

func (r *running) stream(t testing.TB, path, last string) *events {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://teambridge"+path, nil)
	must(t, err)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := r.client.Do(req)
	must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	if media := res.Header.Get("Content-Type"); res.StatusCode != http.StatusOK || media != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, media)
	}
	return &events{t: t, doc: r.doc, body: res.Body, in: bufio.NewReader(res.Body)}
}

// next returns the next event, checked against the document; io.EOF at the end.
func (e *events) next() (event, error) {
	e.t.Helper()
	var ev event
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return ev, err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			ev.name = value
		case "id":
			ev.id = value
		case "data":
			ev.data = []byte(value)
		case "":
			if value != "" {
				e.past += value
				continue
			}
			if ev.name == "" {
				continue
			}
			name := map[string]string{
				api.EventSnapshot: "Snapshot", api.EventMessage: "MessageEvent", api.EventReceipt: "Receipt", api.EventRelay: "RelayEvent", api.EventReset: "Reset",
				api.EventEnvelope: "Envelope", api.EventQuestion: "QuestionEvent",
			}[ev.name]
			if err := e.doc.check(ev.data, "components", "schemas", name); err != nil {
				e.t.Errorf("%s: %v in %s", ev.name, err, ev.data)
			}
			return ev, nil
		}
	}
}

// until reads events up to a wanted one, and returns it.
func (e *events) until(name string, wanted func(event) bool) event {
	e.t.Helper()
	for {
		ev, err := e.next()
		if err != nil {
			e.t.Fatalf("waiting for %s: %v", name, err)
		}
		if ev.name == name && (wanted == nil || wanted(ev)) {
			return ev
		}
	}
}

func as[T any](t testing.TB, e event) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(e.data, &v); err != nil {
		t.Fatalf("%v: %s", err, e.data)
	}
	return v
}

var must = errtest.Must
