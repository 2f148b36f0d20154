package server

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams/atomicfile"
)

// paged makes a service serve a page that shows the client's identity.
func paged(s *Server) {
	s.opts.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "the page, person %v", bridge.Person(r.Context()))
	})
}

// visiting opens an address like a browser with cookies, and follows no redirect.
func visiting(t *testing.T, method, address string, cookies ...*http.Cookie) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	must(t, err)
	for _, c := range cookies {
		req.AddCookie(c)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	res, err := client.Do(req)
	must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	must(t, err)
	return res, string(data)
}

// A code signs one browser in, once, with a cookie that the next service also
// accepts, and that no script, no other site and no proxy can see.
func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, tcp, paged)
	in := of[api.SignIn](t, r.ask(t, "POST", "/v1/sign-in", ""), http.StatusCreated)
	here := "http://" + r.Addrs()[1]
	if u, err := url.Parse(in.URL); err != nil || !strings.HasPrefix(in.URL, here+"/?code=") || len(u.Query().Get("code")) != 43 {
		t.Fatalf("%s, %v", in.URL, err)
	}
	// A HEAD request, as by programs that show previews, does not use the address up.
	if res, _ := visiting(t, "HEAD", in.URL); res.StatusCode != http.StatusOK || len(res.Cookies()) > 0 {
		t.Errorf("HEAD: %s, %v", res.Status, res.Cookies())
	}
	res, body := visiting(t, "GET", in.URL)
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || to != "/" || strings.Contains(body, "code=") {
		t.Errorf("%s to %s: %s", res.Status, to, body)
	}
	if len(res.Cookies()) != 1 {
		t.Fatalf("cookies %v", res.Cookies())
	}
	cookie := res.Cookies()[0]
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Domain != "" ||
		cookie.MaxAge != int(cookieLife.Seconds()) {
		t.Errorf("cookie %+v", cookie)
	}
	if res, body := visiting(t, "GET", here+"/", cookie); res.StatusCode != http.StatusOK || body != "the page, person true" {
		t.Errorf("the page: %s %s", res.Status, body)
	}
	if res, body := visiting(t, "GET", here+"/v1/teams", cookie); res.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %s %s", res.Status, body)
	}
	// A cookie cannot be renewed without end by getting another one.
	if res, body := visiting(t, "POST", here+"/v1/sign-in", cookie); res.StatusCode != http.StatusForbidden {
		t.Errorf("a code for a cookie: %s %s", res.Status, body)
	}

	// Not twice, and not with another code.
	for _, address := range []string{in.URL, here + "/?code=x"} {
		res, _ := visiting(t, "GET", address)
		if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || to != "/#/expired" || len(res.Cookies()) > 0 {
			t.Errorf("%s: %s to %s, %v", address, res.Status, to, res.Cookies())
		}
	}
	// A browser that is signed in already is let in.
	if res, _ := visiting(t, "GET", in.URL, cookie); res.Header.Get("Location") != "/" {
		t.Errorf("signed in already: %s to %s", res.Status, res.Header.Get("Location"))
	}

	token, _ := r.tokens.now()
	for name, value := range map[string]string{
		"nothing":          "",
		"another seal":     cookie.Value[:len(cookie.Value)-2] + "xx",
		"no seal":          strings.Join(strings.Split(cookie.Value, ".")[:2], "."),
		"a later end":      "9" + cookie.Value,
		"sealed, no time":  "x." + r.sign(token, "x"),
		"one that is over": r.cookie(token, time.Now().Add(-time.Second)),
	} {
		if res, _ := visiting(t, "GET", here+"/v1/teams", &http.Cookie{Name: cookie.Name, Value: value}); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("a cookie with %s: %s", name, res.Status)
		}
	}

	r.end(t)
	r = w.start(t, tcp, paged)
	here = "http://" + r.Addrs()[1]
	if res, body := visiting(t, "GET", here+"/v1/teams", cookie); res.StatusCode != http.StatusOK {
		t.Errorf("with the cookie, of the next service: %s %s", res.Status, body)
	}
	r.end(t)
	must(t, os.Remove(api.TokenPath(w.State)))
	r = w.start(t, tcp, paged)
	if res, _ := visiting(t, "GET", "http://"+r.Addrs()[1]+"/v1/teams", cookie); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with the cookie of a token that is no more: %s", res.Status)
	}
	other := newWorld(t).start(t, tcp, paged)
	if res, _ := visiting(t, "GET", "http://"+other.Addrs()[1]+"/v1/teams", cookie); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("with the cookie of another service: %s", res.Status)
	}
}

// A file can be opened in place of the URL. It is removed with the code.
func TestSignInFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	home := t.TempDir()
	left, foreign := filepath.Join(home, "teambridge-sign-in-1.html"), filepath.Join(home, "mine.html")
	for _, path := range []string{left, foreign} {
		must(t, os.WriteFile(path, nil, 0o600))
		old := time.Now().Add(-2 * codeLife)
		must(t, os.Chtimes(path, old, old))
	}
	r := w.start(t, tcp, paged, func(s *Server) { s.opts.Home = home })
	request := func() api.SignIn {
		t.Helper()
		in := of[api.SignIn](t, r.ask(t, "POST", "/v1/sign-in?file=true", ""), http.StatusCreated)
		data, err := os.ReadFile(in.File)
		if err != nil || filepath.Dir(in.File) != home || !strings.Contains(string(data), in.URL) {
			t.Fatalf("%s: %s, %v", in.File, data, err)
		}
		if info, err := os.Stat(in.File); err != nil || atomicfile.Exposed(info) {
			t.Errorf("%v, %v: others can read it", info.Mode(), err)
		}
		return in
	}
	gone := func(what, path string) {
		t.Helper()
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file of %s: %v", what, err)
		}
	}
	if in := of[api.SignIn](t, r.ask(t, "POST", "/v1/sign-in", ""), http.StatusCreated); in.File != "" {
		t.Errorf("a file that nobody wanted: %s", in.File)
	}
	in := request()
	if res, _ := visiting(t, "GET", in.URL); len(res.Cookies()) != 1 {
		t.Errorf("%s, cookies %v", res.Status, res.Cookies())
	}
	gone("a code that was used", in.File)
	first := request()
	for range maxCodes {
		in = request()
	}
	gone("a code that was forgotten", first.File)
	r.end(t)
	gone("a service that ended", in.File)
	gone("a service that was killed", left)
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
}

// Removing or replacing the token ends all sessions, without a restart.
func TestTokenRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(t, tcp, paged)
	here, path := "http://"+r.Addrs()[1], api.TokenPath(w.State)
	read := func() string {
		t.Helper()
		data, err := os.ReadFile(path)
		must(t, err)
		return strings.TrimSpace(string(data))
	}
	signIn := func() *http.Cookie {
		t.Helper()
		res, _ := visiting(t, "GET", of[api.SignIn](t, r.ask(t, "POST", "/v1/sign-in", ""), http.StatusCreated).URL)
		if len(res.Cookies()) != 1 {
			t.Fatalf("%s, cookies %v", res.Status, res.Cookies())
		}
		return res.Cookies()[0]
	}
	open := func(cookie *http.Cookie) io.Reader {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), "GET", here+"/v1/events", nil)
		must(t, err)
		req.AddCookie(cookie)
		res, err := (&http.Client{Transport: &http.Transport{}}).Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res.Body
	}
	want := func(what, token string, cookie *http.Cookie, want int) {
		t.Helper()
		if got := r.raw(t, "/v1/teams", "Authorization", "Bearer "+token); got != want {
			t.Errorf("%s, the token: %d, want %d", what, got, want)
		}
		if res, _ := visiting(t, "GET", here+"/v1/teams", cookie); res.StatusCode != want {
			t.Errorf("%s, the cookie: %d, want %d", what, res.StatusCode, want)
		}
	}
	token, cookie, stream := read(), signIn(), open(signIn())
	code := of[api.SignIn](t, r.ask(t, "POST", "/v1/sign-in", ""), http.StatusCreated).URL
	want("at first", token, cookie, http.StatusOK)

	must(t, os.Remove(path))
	want("removed", token, cookie, http.StatusUnauthorized)
	if res, _ := visiting(t, "GET", code); res.Header.Get("Location") != "/#/expired" {
		t.Errorf("a code of the token that was removed: to %s, %v", res.Header.Get("Location"), res.Cookies())
	}
	if _, err := io.ReadAll(stream); err != nil { // ends, or the test does not
		t.Errorf("the stream: %v", err)
	}
	token, cookie = read(), signIn()
	want("a new one", token, cookie, http.StatusOK)

	replaced := strings.Repeat("x", 43)
	must(t, os.WriteFile(path, []byte(replaced), 0o600))
	want("replaced", token, cookie, http.StatusUnauthorized)
	cookie = signIn()
	want("the one in its place", replaced, cookie, http.StatusOK)

	stream = open(cookie)
	must(t, os.WriteFile(path, []byte("short"), 0o600))
	want("one that is too short", replaced, cookie, http.StatusUnauthorized)
	want("one that is too short itself", "short", cookie, http.StatusUnauthorized)
	if _, err := io.ReadAll(stream); err != nil {
		t.Errorf("the stream: %v", err)
	}
	problem(t, r.ask(t, "POST", "/v1/sign-in", ""), api.CodeRefused)
}

// Codes expire after a minute, and their number is limited.
func TestCodes(t *testing.T) {
	t.Parallel()
	var c codes
	now := time.Now()
	code, until := c.issue("token", now)
	if until.Sub(now) != codeLife || c.use(code, "token", until) || c.use(code, "token", now) {
		t.Error("a code is good after its time")
	}
	first, _ := c.issue("token", now)
	for range maxCodes {
		code, _ = c.issue("token", now)
	}
	if c.use(first, "token", now) || !c.use(code, "token", now) || c.use(code, "token", now) || len(c.list) != maxCodes-1 {
		t.Errorf("%d codes are kept", len(c.list))
	}
}

// Without a listener that a browser can reach, there is no URL to sign in.
func TestSignInWithoutAddress(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, paged)
	if p := problem(t, r.ask(t, "POST", "/v1/sign-in", ""), api.CodeRefused); !strings.Contains(p.Command, "--listen") || p.Hint != "" {
		t.Errorf("hint %q, command %q", p.Hint, p.Command)
	}
	// The socket needs no cookie, nor a token to make one.
	res, err := r.client.Get("http://teambridge/?code=x")
	must(t, err)
	data, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || string(data) != "the page, person true" || res.Request.URL.RawQuery != "" {
		t.Errorf("%s: %s, %v", res.Request.URL, data, err)
	}
}

// Any site may have a link to the page, but cannot send other requests.
func TestLinks(t *testing.T) {
	t.Parallel()
	r := newWorld(t).start(t, tcp, paged)
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for path, want := range map[string]int{"/": http.StatusOK, "/ui/x": http.StatusForbidden, "/v1/teams": http.StatusForbidden} {
		if got := r.raw(t, path, link...); got != want {
			t.Errorf("a link to %s: %d, want %d", path, got, want)
		}
	}
	for name, header := range map[string][]string{
		"a frame":        {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		"a script":       {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"},
		"with an origin": append([]string{"Origin", "http://evil.example"}, link...),
	} {
		if got := r.raw(t, "/", header...); got != http.StatusForbidden {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// raw makes a request over TCP that the document does not have, and returns the status.
func (r *running) raw(t *testing.T, path string, header ...string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.Addrs()[1]+path, nil)
	must(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	must(t, err)
	res.Body.Close()
	return res.StatusCode
}
