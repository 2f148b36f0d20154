package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
)

// verbatim asks with a request line and a header that no client would send, and returns
// the status and the body.
func (r *running) verbatim(t *testing.T, request string) (status int, body string) {
	t.Helper()
	c, err := net.Dial("unix", api.SocketPath(r.world.State, r.world.Root.Path()))
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", request, err)
	}
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body) // it can be cut off if the request was not read to its end
	return res.StatusCode, string(data)
}

// A path is never interpreted: it leads to no other file, and to no other team or member.
func TestHostilePaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := filepath.Join(w.Root.Path(), "secret.json")
	must(t, os.WriteFile(secret, []byte(`[{"from":"x","text":"hunter2","timestamp":"x"}]`), 0o600))
	r := w.start(t)
	for _, path := range []string{
		"/v1/teams/../../secret.json", "/v1/teams/..%2f..%2fsecret.json", "/v1/teams/%2e%2e", "/v1/teams/%2e%2e%2fteams%2fmyteam",
		"/v1/teams/myteam%00", "/v1/teams/myteam%2f..%2fmyteam", "/v1/teams/myteam/../myteam", "//v1/teams", "/v1//teams", "/v1/teams/", "/v1/teams/myteam/",
		"/v1/teams/myteam/members/../../../secret", "/v1/teams/.", "/v1/teams/%20", "/v1/teams/CON", "/v1/teams/myteam.", "/v1/teams/MYTEAM",
		"/ui/../../secret.json", "/../secret.json", "/v1/teams/" + strings.Repeat("x", 8<<10), "/%", "/v1/teams/%zz", "/v1/teams/\\..\\secret",
		"http://evil.example/v1/teams", "*",
	} {
		for _, rest := range []string{"", "/members", "/status", "/messages"} {
			status, body := r.verbatim(t, "GET "+path+rest+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			known := path == "http://evil.example/v1/teams" && rest == "" // on the socket any host is accepted
			if !known && status < 300 || status >= 500 || strings.Contains(body, "hunter2") {
				t.Errorf("%.60s%s: %d %s", path, rest, status, body)
			}
		}
	}
	const message = `{"text":"x","force":true}`
	for _, member := range []string{"..%2f..%2fsecret", "%2e%2e", "..", ".hidden", "worker.json%2f..", "a%2fb", "a%5cb", "worker%00", "worker%0a", "CON", "x.", "%20", strings.Repeat("x", 65)} {
		status, body := r.verbatim(t, fmt.Sprintf("POST /v1/teams/%s/members/%s/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			older, member, len(message), message))
		if status < 300 || status >= 500 {
			t.Errorf("to %s: %d %s", member, status, body)
		}
	}
	data, err := os.ReadFile(secret)
	if err != nil || !strings.Contains(string(data), "hunter2") || len(data) > 60 {
		t.Errorf("the file outside of the teams is %q, %v", data, err)
	}
	boxes, err := os.ReadDir(filepath.Join(w.Root.Path(), "teams", older, "inboxes"))
	if err != nil || len(boxes) != 3 {
		t.Errorf("the inboxes are %v, %v", boxes, err)
	}
}

// Invalid, inconsistent and endless requests are refused.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	to := "/v1/teams/" + older + "/members/worker/messages"
	path := w.Inbox(older, "worker").Path()
	before, err := os.ReadFile(path)
	must(t, err)
	for _, c := range []struct {
		request string
		want    int
	}{
		{"GET /v1/teams HTTP/1.1\r\nConnection: close\r\n\r\n", 400}, // no host
		{"GET /v1/teams HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", 400},
		{"NONSENSE\r\n\r\n", 400},
		{"GET /v1/teams HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 403}, // the socket is forwarded to a port
		{"GET /v1/teams HTTP/9.9\r\nHost: x\r\n\r\n", 505},
		{"GET /v1/teams HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", 431},
		{"TRACE /v1/teams HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405},
		{"CONNECT evil.example:80 HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 403},
		{"POST " + to + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: nonsense\r\n\r\n{}", 501},
		{"POST " + to + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
		// Bytes after one request are not another request.
		{"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 30\r\n\r\nGET /v1/teams HTTP/1.1\r\nHost: x", 400},
	} {
		if status, body := r.verbatim(t, c.request); status != c.want {
			t.Errorf("%.80q: %d %s, want %d", c.request, status, body, c.want)
		}
	}
	for _, body := range []string{
		`{"text":"x"}{"text":"y"}`, `{"text":"x"} x`, `[]`, `null`, `"x"`, `{"text":"x"`, `{"text":1}`, `{"text":"x","unknown":1}`, `{"text":"x","force":"yes"}`, "\x00", "",
	} {
		a := r.ask(t, "POST", to, body, "Content-Type", "application/json")
		if a.status != http.StatusBadRequest && a.status != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d %s", body, a.status, a.body)
		}
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the inbox was changed: %v", err)
	}
}

// Two hundred idle connections do not keep others from getting answers.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t)
	for n := range 200 {
		c, err := net.Dial("unix", api.SocketPath(r.world.State, r.world.Root.Path()))
		must(t, err)
		defer c.Close()
		if n%2 == 0 { // half of them in the middle of a request
			if _, err := io.WriteString(c, "GET /v1/teams HTTP/1.1\r\nHost"); err != nil {
				t.Fatal(err)
			}
		}
	}
	get[[]api.Team](t, r, "/v1/teams")
}

// Connections without a token, however many, neither keep out clients that have it, nor end their connections.
func TestConnectionsOfStrangers(t *testing.T) {
	t.Parallel()
	const limit = 8
	began := time.Now()
	r := newWorld(t).start(t, tcp, func(s *Server) { s.limits.connections = limit })
	token, _ := r.tokens.now()
	here := r.Addrs()[1]
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func() (again bool) {
		t.Helper()
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { again = c.Reused }})
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+here+"/v1/teams", nil)
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
		must(t, err)
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s, %v", res.Status, err)
		}
		return again
	}
	ask()
	var strangers []net.Conn
	for _, says := range []string{
		"",
		"GET /v1/teams HTTP/1.1\r\nHost",
		"GET /healthz HTTP/1.1\r\nHost: " + here + "\r\n\r\n",
		"GET /v1/teams HTTP/1.1\r\nHost: " + here + "\r\nAuthorization: Bearer x\r\n\r\n",
		"POST /v1/attention/dismiss HTTP/1.1\r\nHost: " + here + "\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
	} {
		for range 2 * limit {
			c, err := net.Dial("tcp", here)
			must(t, err)
			strangers = append(strangers, c)
			_, _ = io.WriteString(c, says) // it may be closed already
		}
		if !ask() {
			t.Errorf("%q: the connection of a person was closed", says)
		}
		transport.CloseIdleConnections()
		if ask() {
			t.Errorf("%q: a closed connection was used", says)
		}
	}
	// A client without a token has to connect again for each request.
	res, err := http.Get("http://" + here + "/healthz")
	must(t, err)
	res.Body.Close()
	if !res.Close {
		t.Error("a connection without a token stays open")
	}
	for _, c := range strangers {
		c.Close() // otherwise the service would wait 5 s for their requests
	}
	r.end(t)
	// Once a minute, which a busy machine may need for this.
	if n, most := strings.Count(r.logs.String(), "too many connections without a token"), 1+int(time.Since(began)/time.Minute); n == 0 || n > most {
		t.Errorf("the log says it %d times, want at most %d: %s", n, most, r.logs)
	}
}

// Streams without a reader end, and their events are not kept in memory.
func TestStreamsThatNobodyReads(t *testing.T) { // alone, since it looks at the heap
	w := newWorld(t)
	const rows, size, streams = 40, 90 << 10, 20
	text := strings.Repeat("x", size)
	var all []string
	for n := range rows {
		all = append(all, fmt.Sprintf(`{"from":"worker","text":"%d %s","timestamp":"2026-11-20T17:48:11.432Z","read":false}`, n, text))
	}
	must(t, os.WriteFile(w.Inbox(older, "user").Path(), []byte("["+strings.Join(all, ",")+"]"), 0o600))
	w.start(t).end(t) // everything present is recorded before it serves
	r := w.start(t, func(s *Server) { s.limits.write = time.Second })
	if page := get[api.Page](t, r, "/v1/teams/"+older+"/messages?inbox=user"); len(page.Messages) != rows {
		t.Fatalf("%d messages are recorded, want %d", len(page.Messages), rows)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for range streams {
		c, err := net.Dial("unix", api.SocketPath(w.State, w.Root.Path()))
		must(t, err)
		defer c.Close()
		if _, err := io.WriteString(c, "GET /v1/events?after=0 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil { // the answer has begun
			t.Fatal(err)
		}
	}
	// Each stream has 3.6 MB of events.
	most := uint64(0)
	for over := time.After(patience); len(r.streams) > 0; {
		most = max(most, heap())
		select {
		case <-over:
			t.Fatalf("%d streams are left", len(r.streams))
		case <-time.After(20 * time.Millisecond): // each takes two or three
		}
	}
	if whole := uint64(streams * rows * size); most > before+whole/2 {
		t.Errorf("they took %d bytes at the most, and all that they had to tell is %d", most-before, whole)
	} else {
		t.Logf("%d streams took %d KiB at the most, of %d that they had to tell", streams, (int64(most)-int64(before))>>10, whole>>10)
	}
}
