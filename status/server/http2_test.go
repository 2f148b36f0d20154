package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/status/bridge"
)

// overHTTP2 returns a client that speaks HTTP/2 without TLS to an address.
func overHTTP2(t *testing.T, network, address string) *http.Client {
	t.Helper()
	transport := &http.Transport{
		Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// The socket also accepts HTTP/2, as a person, with streams that outlast all deadlines until the
// service ends.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, func(s *Server) {
		// The pause between writes exceeds the limit of a write, which is long enough for a busy machine.
		s.limits.write, s.limits.request, s.limits.heartbeat = time.Second, time.Second, 1200*time.Millisecond
		s.opts.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if bridge.Person(r.Context()) {
				w.WriteHeader(http.StatusTeapot)
			}
		})
	})
	c := overHTTP2(t, "unix", strings.TrimPrefix(r.Addrs()[0], "unix:"))
	res, err := c.Get("http://teambridge/")
	must(t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusTeapot || res.ProtoMajor != 2 {
		t.Errorf("it is %d over %s", res.StatusCode, res.Proto)
	}
	if res, err = c.Get("http://teambridge/v1/events"); err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for in, alive := bufio.NewReader(res.Body), 0; alive < 2; {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended after %d signs of life: %v", alive, err)
		}
		if strings.Contains(line, "alive") {
			alive++
		}
	}
	r.end(t)
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
}

// Over TCP, where strangers can connect, only HTTP/1.1 is accepted.
func TestNoHTTP2OverTCP(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, tcp)
	if res, err := overHTTP2(t, "tcp", r.Addrs()[1]).Get("http://" + r.Addrs()[1] + "/healthz"); err == nil {
		res.Body.Close()
		t.Errorf("it answers over %s", res.Proto)
	}
}

// A proxy passes on only the requests of the one browser that signed in with the code.
func TestProxy(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, func(s *Server) {
		s.opts.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host+r.Header.Get("Cookie")) })
	})
	dir := t.TempDir()
	p := Proxy{To: overHTTP2(t, "unix", strings.TrimPrefix(r.Addrs()[0], "unix:")).Transport, Dirs: []string{dir}}
	ctx, stop := context.WithCancel(t.Context())
	ready, over := make(chan api.SignIn, 1), make(chan error, 1)
	go func() { over <- p.Run(ctx, func(in api.SignIn) error { ready <- in; return nil }) }()
	in := <-ready
	if !strings.HasPrefix(in.File, dir) || !strings.HasPrefix(in.URL, "http://127.0.0.1:") {
		t.Errorf("the address is %+v", in)
	}
	base, _, _ := strings.Cut(in.URL, "/?")
	host := strings.TrimPrefix(base, "http://")
	var cookie *http.Cookie
	ask := func(method, url string, header ...string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(method, url, nil)
		must(t, err)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
			if header[i] == "Host" {
				req.Host = header[i+1]
			}
		}
		if cookie != nil {
			req.AddCookie(cookie)
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		defer res.Body.Close()
		for _, c := range res.Cookies() {
			cookie = c
		}
		body, err := io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, string(body)
	}
	for _, path := range []string{"/", "/ui/page.js", "/v1/teams", "/healthz", "/?code=x"} {
		if status, body := ask("GET", base+path); status != http.StatusUnauthorized {
			t.Errorf("without a cookie, %s is %d %s", path, status, body)
		}
	}
	if status, _ := ask("GET", in.URL, "Host", "evil.example"); status != http.StatusForbidden || cookie != nil {
		t.Errorf("with another host, it is %d", status)
	}
	if status, _ := ask("GET", in.URL); status != http.StatusSeeOther || cookie == nil || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		t.Fatalf("signing in is %d, %v", status, cookie)
	}
	mine := cookie
	cookie = nil
	if status, _ := ask("GET", in.URL); status != http.StatusUnauthorized {
		t.Errorf("the second time, the code gives %d", status)
	}
	cookie = mine
	if status, body := ask("GET", base+"/ui/x"); status != http.StatusOK || body != host {
		t.Errorf("the page is %d, for %q; want %q, without a cookie", status, body, host)
	}
	if status, body := ask("GET", base+"/v1/teams", "Origin", base); status != http.StatusOK || !strings.Contains(body, older) {
		t.Errorf("the teams are %d %s", status, body)
	}
	for _, refused := range [][]string{{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Host", "evil.example"}} {
		if status, body := ask("GET", base+"/v1/teams", refused...); status != http.StatusForbidden {
			t.Errorf("with %v, it is %d %s", refused, status, body)
		}
	}
	if status, _ := ask("POST", base+"/v1/sign-in"); status != http.StatusForbidden {
		t.Errorf("another sign-in is %d", status)
	}
	r.end(t)
	if status, body := ask("GET", base+"/v1/teams"); status != http.StatusGatewayTimeout {
		t.Errorf("without the service, it is %d %s", status, body)
	}
	stop()
	if err := <-over; err != nil {
		t.Errorf("it ended with %v", err)
	}
}
