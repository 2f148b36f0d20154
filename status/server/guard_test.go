package server

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"teambridge/status/api"
	"teambridge/status/api/op"
	"teambridge/status/bridge"
	"teambridge/teams/atomicfile"
	"teambridge/teams/lockedfile"
)

// tcp makes a service listen on a loopback address, too.
func tcp(s *Server) { s.listen = append(s.listen, address{"tcp", "127.0.0.1:0"}) }

// overTCP asks over TCP.
func (r *running) overTCP(t *testing.T, method, path string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Addrs()[1]+path, nil)
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Add(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return r.do(t, client, req)
}

// Over TCP, requests need the token, and requests that another site's page could send
// get no answer.
func TestWhoMayAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, tcp)
	data, err := os.ReadFile(api.TokenPath(w.State))
	must(t, err)
	token := strings.TrimSpace(string(data))
	auth := "Bearer " + token
	here := r.Addrs()[1]
	_, port, _ := net.SplitHostPort(here)
	for name, c := range map[string]struct {
		path   string
		header []string
		want   api.Code // "": answered
	}{
		"the token":                    {"/v1/teams", []string{"Authorization", auth}, ""},
		"the token, lower-case scheme": {"/v1/teams", []string{"Authorization", "bearer " + token}, ""},
		"localhost":                    {"/v1/teams", []string{"Authorization", auth, "Host", "localhost:" + port}, ""},
		"IPv6":                         {"/v1/teams", []string{"Authorization", auth, "Host", "[::1]:" + port}, ""},
		"a forwarded port":             {"/v1/teams", []string{"Authorization", auth, "Host", "localhost:9"}, ""},
		"its own page":                 {"/v1/teams", []string{"Authorization", auth, "Origin", "http://" + here, "Sec-Fetch-Site", "same-origin"}, ""},
		"typed by the user":            {"/v1/teams", []string{"Authorization", auth, "Sec-Fetch-Site", "none"}, ""},
		"health needs no token":        {"/healthz", nil, ""},

		"no token":                  {"/v1/teams", nil, api.CodeUnauthorized},
		"another token":             {"/v1/teams", []string{"Authorization", auth + "x"}, api.CodeUnauthorized},
		"a part of the token":       {"/v1/teams", []string{"Authorization", auth[:len(auth)-1]}, api.CodeUnauthorized},
		"an empty token":            {"/v1/teams", []string{"Authorization", "Bearer "}, api.CodeUnauthorized},
		"another scheme":            {"/v1/teams", []string{"Authorization", "Basic " + token}, api.CodeUnauthorized},
		"no token for the events":   {"/v1/events", nil, api.CodeUnauthorized},
		"no token for the document": {"/openapi.json", nil, api.CodeUnauthorized},

		"another host":            {"/v1/teams", []string{"Authorization", auth, "Host", "evil.example"}, api.CodeForbidden},
		"another host's health":   {"/healthz", []string{"Host", "evil.example:" + port}, api.CodeForbidden},
		"a host like ours":        {"/v1/teams", []string{"Authorization", auth, "Host", "127.0.0.1.evil.example"}, api.CodeForbidden},
		"another origin":          {"/v1/teams", []string{"Authorization", auth, "Origin", "http://evil.example"}, api.CodeForbidden},
		"another port's origin":   {"/v1/teams", []string{"Authorization", auth, "Origin", "http://127.0.0.1:9"}, api.CodeForbidden},
		"no origin to speak of":   {"/v1/teams", []string{"Authorization", auth, "Origin", "null"}, api.CodeForbidden},
		"two origins":             {"/v1/teams", []string{"Authorization", auth, "Origin", "http://" + here, "Origin", "http://evil.example"}, api.CodeForbidden},
		"an origin of encryption": {"/v1/teams", []string{"Authorization", auth, "Origin", "https://" + here}, api.CodeForbidden},
		"another site":            {"/v1/teams", []string{"Authorization", auth, "Sec-Fetch-Site", "cross-site"}, api.CodeForbidden},
		"another port":            {"/v1/teams", []string{"Authorization", auth, "Sec-Fetch-Site", "same-site"}, api.CodeForbidden},
	} {
		a := r.overTCP(t, "GET", c.path, c.header...)
		if c.want != "" {
			problem(t, a, c.want)
		} else if a.status != http.StatusOK {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if t.Failed() {
			t.Fatalf("%s: %d %s", name, a.status, a.body)
		}
		if csp := a.header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: without security headers: %v", name, a.header)
		}
	}
	// On the socket any host is accepted, and another site's page is still refused.
	if a := r.ask(t, "GET", "/v1/teams", "", "Host", "anything"); a.status != http.StatusOK {
		t.Errorf("on the socket: %d %s", a.status, a.body)
	}
	problem(t, r.ask(t, "GET", "/v1/teams", "", "Origin", "http://evil.example"), api.CodeForbidden)
	problem(t, r.ask(t, "POST", "/v1/teams/"+older+"/members/worker/messages", `{"text":"x"}`, "Sec-Fetch-Site", "cross-site"), api.CodeForbidden)
}

// A client that passes the guard is a person.
func TestPerson(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, func(s *Server) {
		s.opts.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if bridge.Person(r.Context()) {
				w.WriteHeader(http.StatusTeapot)
			}
		})
	}, tcp)
	res, err := r.client.Get("http://teambridge/")
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusTeapot {
		t.Errorf("on the socket: %d", res.StatusCode)
	}
	if res, err = http.Get("http://" + r.Addrs()[1] + "/ui/x"); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("without a token: %d", res.StatusCode)
	}
}

// An agent reads, and writes in its own name; all else is for persons.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var s *Server
	r := w.start(t, func(started *Server) { s = started })
	const agent = "1"
	allowed := 0
	for _, route := range s.routes() {
		of := regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(route.Path, "x")
		body := ""
		if route.Method == "POST" && !route.bare {
			body = "{}"
		}
		a := r.ask(t, route.Method, of, body, api.AgentHeader, agent)
		var p api.Problem
		_ = json.Unmarshal(a.body, &p) // a success has none
		if forbidden := p.Code == api.CodeForbidden; forbidden == (route.Who != op.Persons) {
			t.Errorf("%s %s: %d %s", route.Method, route.Path, a.status, a.body)
		}
		if route.Who == op.Agents {
			allowed++
			if route.Changes && !slices.Contains([]string{"/v1/teams/{team}/members/{member}/messages", "/v1/teams/{team}/members/{member}/ask", "/v1/reply"}, route.Path) {
				t.Errorf("agents may do %s %s", route.Method, route.Path)
			}
		}
	}
	if allowed < 10 {
		t.Errorf("agents may do %d things", allowed)
	}
	for _, from := range []string{"", "user", "operator"} {
		problem(t, r.ask(t, "POST", path(older, "worker"), `{"text":"x","from":"`+from+`"}`, api.AgentHeader, agent), api.CodeRefused)
	}
	sent := of[api.Sent](t, r.ask(t, "POST", path(older, "worker"), `{"text":"x","from":"ann@elsewhere"}`, api.AgentHeader, agent), http.StatusCreated)
	if sent.State != api.Verified || sent.Delivery != "" {
		t.Errorf("sent %+v", sent)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t)
	a := r.ask(t, "DELETE", "/v1/teams", "")
	problem(t, a, api.CodeMethod)
	if allow := a.header.Get("Allow"); allow != "GET, HEAD" {
		t.Errorf("Allow: %s", allow)
	}
	problem(t, r.ask(t, "POST", "/v1/teams/"+older, `{}`), api.CodeMethod)
	problem(t, r.ask(t, "GET", "/v1/nothing", ""), api.CodeNoRoute)
	problem(t, r.ask(t, "GET", "/", ""), api.CodeNoRoute)
	problem(t, r.ask(t, "GET", "/v1/teams", `{"x":1}`), api.CodeBody)
	for _, path := range []string{"/v1/events", "/v1/tasks?follow=true", "/v1/teams"} { // the first two have no end
		if a := r.ask(t, "HEAD", path, ""); a.status != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, a.status)
		}
	}
}

// A read-only service changes nothing, whatever the request.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, func(s *Server) { s.opts.ReadOnly = true })
	names := regexp.MustCompile(`\{[a-z]+\}`)
	refused := 0
	for _, route := range r.routes() {
		if !route.Changes {
			if route.Method != "GET" && route.Path != "/v1/sign-in" {
				t.Errorf("%s %s is not said to change anything", route.Method, route.Path)
			}
			continue
		}
		problem(t, r.ask(t, route.Method, names.ReplaceAllString(strings.Replace(route.Path, "{team}", older, 1), "worker"), ""), api.CodeReadOnly)
		refused++
	}
	if refused < 20 {
		t.Errorf("%d routes are refused", refused)
	}
	get[[]api.Team](t, r, "/v1/teams")
	if v := get[api.ServiceVersion](t, r, "/v1/version"); !v.ReadOnly {
		t.Errorf("it does not say so: %+v", v)
	}
}

// A panic in a handler is answered, and the service continues.
func TestPanic(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, func(s *Server) {
		s.opts.Page = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oops") })
	})
	problem(t, r.ask(t, "GET", "/", ""), api.CodeError)
	get[[]api.Team](t, r, "/v1/teams")
	r.end(t)
	if log := r.logs.String(); !strings.Contains(log, "oops") {
		t.Errorf("the log has no word of it: %s", log)
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	first, _, err := token(state)
	if err != nil || len(first) != 43 {
		t.Fatalf("token %q, %v", first, err)
	}
	info, err := os.Stat(api.TokenPath(state))
	if err != nil || atomicfile.Exposed(info) {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if again, _, err := token(state); err != nil || again != first {
		t.Errorf("again %q, %v", again, err)
	}
	if left, err := filepath.Glob(filepath.Join(state, ".api*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	must(t, os.WriteFile(api.TokenPath(state), []byte("short\n"), 0o600))
	if _, _, err := token(state); err == nil {
		t.Error("a short token is taken")
	}
}

// Services that start at once have one token.
func TestTokenIsMadeOnce(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	tokens := make(chan string)
	for range 16 {
		go func() {
			got, _, err := token(state)
			if err != nil {
				t.Error(err)
			}
			tokens <- got
		}()
	}
	first := <-tokens
	for range 15 {
		if got := <-tokens; got != first {
			t.Errorf("tokens %q and %q", first, got)
		}
	}
}

// One Claude directory has one service, and the error of a second one names the first.
func TestSecondService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t)
	second, err := New(Options{Root: w.Root, State: w.State, Listen: []string{"unix:" + filepath.Join(w.State, "other.sock")}})
	must(t, err)
	second.limits.handover = time.Millisecond
	there, ok := errors.AsType[*RunningError](second.Run(t.Context()))
	if !ok || there.PID != os.Getpid() || !slices.Equal(there.Listen, r.Addrs()) {
		t.Errorf("told %+v, want process %d at %v", there, os.Getpid(), r.Addrs())
	}
	get[[]api.Team](t, r, "/v1/teams") // the first one is still there
	r.end(t)
	if _, err := api.ReadCard(w.State, w.Root.Path()); err == nil {
		t.Error("a service that ended says that it is there")
	}
	if _, err := os.Lstat(api.SocketPath(w.State, w.Root.Path())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	w.start(t)
}

// A second service is refused even if its state directory is another one, and finds
// nothing left in the Claude directory when the first has ended.
func TestOneServiceWithTwoStateDirectories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if release, err := lockedfile.HoldDir(t.Context(), 0, w.Root.Path()); errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	} else if err != nil || release() != nil {
		t.Fatal(err)
	}
	before := entries(t, w.Root.Path())
	r := w.start(t)
	other, err := New(Options{Root: w.Root, State: t.TempDir()})
	must(t, err)
	other.limits.handover = time.Millisecond
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go func() {
		select {
		case <-other.Ready(): // which it must never be
			end()
		case <-ctx.Done():
		}
	}()
	there, ok := errors.AsType[*RunningError](other.Run(ctx))
	if !ok || !there.OtherState || there.Root != w.Root.Path() {
		t.Fatalf("the second service: %+v, want a RunningError about another state directory", there)
	}
	if runtime.GOOS == "linux" && there.PID != os.Getpid() && there.PID != 0 { // 0: /proc/locks names another device
		t.Errorf("told of process %d, want %d", there.PID, os.Getpid())
	}
	r.end(t)
	if after := entries(t, w.Root.Path()); !slices.Equal(after, before) {
		t.Errorf("the Claude directory holds %q, and held %q", after, before)
	}
	w.State = t.TempDir()
	w.start(t)
}

// entries lists the names in a directory.
func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// The lock of a killed service may be held briefly by an agent that it was starting: the
// next service waits for that.
func TestWaitsForTheLockOfOneThatWasKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release, err := lockedfile.Hold(filepath.Join(w.State, "locks"), api.LockKey(w.Root.Path()))
	must(t, err)
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Root: w.Root, State: w.State})
		must(t, err)
		start := time.Now()
		err = s.Run(t.Context())
		if _, ok := errors.AsType[*RunningError](err); !ok || time.Since(start) != lockedfile.Handover {
			t.Errorf("got %v after %s, want a RunningError after %s", err, time.Since(start), lockedfile.Handover)
		}
	})
	if err := release(); err != nil {
		t.Error(err)
	}
}

func TestSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := api.SocketPath(w.State, w.Root.Path())
	l, err := net.Listen("unix", path)
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil { // as a killed one leaves it
		t.Fatal(err)
	}
	w.start(t).end(t)
	w.start(t, func(*Server) {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the socket stays: %v", err)
		}
	})
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	file := filepath.Join(w.State, "file")
	must(t, os.WriteFile(file, []byte("mine"), 0o600))
	for _, taken := range []string{file, path, filepath.Join(w.State, strings.Repeat("x", 120))} {
		if l, err := listenUnix(t.Context(), taken); err == nil {
			t.Errorf("listens at %s", taken)
			l.Close()
		}
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file is %s, %v", data, err)
	}
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1:80", "localhost:0": "127.0.0.1:0", "[::1]:80": "[::1]:80", "127.1.2.3:80": "127.1.2.3:80", "unix:/a/b": "/a/b",
		"0.0.0.0:80": "", "[::]:80": "", ":80": "", "192.0.2.1:80": "", "example.com:80": "", "80": "", "unix:": "", "": "",
	} {
		if a, err := parseAddress(text); a.name != want || (err != nil) != (want == "") {
			t.Errorf("%q: %v, %v, want %q", text, a, err, want)
		}
	}
}
