package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"teambridge/status/api"
	"teambridge/status/api/op"
	"teambridge/status/bridge"
)

// A client that is authenticated without a cookie can request a one-time code, which a browser exchanges for a cookie.
// So the person need not type the token into a browser.

const (
	codeLife   = time.Minute
	cookieLife = 7 * 24 * time.Hour // after that the page asks to sign in again
	maxCodes   = 16                 // unused codes; beyond that, the oldest are dropped
)

// codes has the digests of unused codes.
type codes struct {
	mu   sync.Mutex
	list []oneTime
}

type oneTime struct {
	digest [sha256.Size]byte
	until  time.Time
	file   string // the file that forwards to the URL with the code, removed with it; "": none
}

func (o oneTime) remove() {
	if o.file != "" {
		_ = os.Remove(o.file) // it is useless now; the next service tries again
	}
}

// issue returns a new code that is valid together with a token, and when it expires.
func (c *codes) issue(token string, now time.Time) (code string, until time.Time) {
	code, until = secret(), now.Add(codeLife)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, oneTime{digest: sha256.Sum256([]byte(code + token)), until: until})
	if n := len(c.list); n > maxCodes {
		c.drop(0, n-maxCodes)
	}
	return code, until
}

// attach adds a file to a code. The file is removed together with the code.
func (c *codes) attach(code, token, file string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(code, token)
	if n < 0 {
		oneTime{file: file}.remove()
		return
	}
	c.list[n].file = file
	time.AfterFunc(codeLife, func() { c.use(code, token, time.Now()) })
}

// clear makes all codes invalid.
func (c *codes) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(0, len(c.list))
}

func (c *codes) find(code, token string) int {
	digest := sha256.Sum256([]byte(code + token))
	return slices.IndexFunc(c.list, func(o oneTime) bool { return subtle.ConstantTimeCompare(o.digest[:], digest[:]) == 1 })
}

func (c *codes) drop(from, to int) {
	for _, o := range c.list[from:to] {
		o.remove()
	}
	c.list = slices.Delete(c.list, from, to)
}

// use reports whether a code is valid together with a token, and makes it invalid.
func (c *codes) use(code, token string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(code, token)
	if n < 0 {
		return false
	}
	valid := now.Before(c.list[n].until)
	c.drop(n, n+1)
	return valid
}

// cookieName differs between services, because a browser sends the cookies of an address to all of its ports.
func (s *Server) cookieName() string {
	sum := sha256.Sum256([]byte(s.opts.Root.Path()))
	return "teambridge-" + hex.EncodeToString(sum[:6])
}

// cookie returns the value of a cookie that is valid until a time, or until the token is removed. It stays valid if
// the service is restarted.
func (s *Server) cookie(token string, until time.Time) string {
	claim := strconv.FormatInt(until.Unix(), 10) + "." + secret()
	return claim + "." + s.sign(token, claim)
}

func (s *Server) sign(token, claim string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("page of " + s.opts.Root.Path() + "\x00" + claim))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// hasCookie reports whether r comes from a browser that is signed in.
func (s *Server) hasCookie(r *http.Request, token string, now time.Time) bool {
	if token == "" {
		return false
	}
	for _, c := range r.CookiesNamed(s.cookieName()) {
		end := strings.LastIndexByte(c.Value, '.')
		if end < 0 || !hmac.Equal([]byte(s.sign(token, c.Value[:end])), []byte(c.Value[end+1:])) {
			continue
		}
		seconds, _, _ := strings.Cut(c.Value, ".")
		if until, err := strconv.ParseInt(seconds, 10, 64); err == nil && now.Before(time.Unix(until, 0)) {
			return true
		}
	}
	return false
}

func secret() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// signIn answers with a URL that has a one-time code and, if asked to, with a file that forwards to it.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request, q *op.SignInRequest) (any, error) {
	if cookie, _ := r.Context().Value(cookieKey{}).(bool); cookie {
		// Otherwise a stolen cookie could be renewed for ever.
		return nil, api.Decide(api.CodeForbidden, "run: teambridge ui", "a page cannot sign in another one")
	}
	i := slices.IndexFunc(s.listen, func(a address) bool { return a.network == "tcp" })
	if s.opts.Page == nil || i < 0 {
		return nil, api.Decide(api.CodeRefused, "restart it with: teambridge serve --listen 127.0.0.1:7420",
			"a browser cannot open the page: the service listens only on a unix socket")
	}
	token, _ := s.tokens.now()
	if token == "" {
		return nil, api.Decide(api.CodeRefused, "remove "+api.TokenPath(s.opts.State)+": the service creates a new one", "the service has no valid token")
	}
	code, until := s.codes.issue(token, time.Now())
	in := api.SignIn{URL: "http://" + s.addrs[i] + "/?code=" + code, Until: until.UTC()}
	if q.File {
		var err error
		if in.File, err = forward(in.URL, s.opts.Home, s.opts.State); err != nil {
			return nil, err
		}
		s.codes.attach(code, token, in.File)
	}
	return nil, write(w, http.StatusCreated, in)
}

// page answers GET / with the page or, if there is a code, with a cookie and a redirect.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" || r.Method != http.MethodGet {
		s.opts.Page.ServeHTTP(w, r)
		return
	}
	to, now := "/", time.Now()
	token, _ := s.tokens.now()
	switch {
	case s.codes.use(code, token, now) && token != "":
		http.SetCookie(w, &http.Cookie{
			Name: s.cookieName(), Value: s.cookie(token, now.Add(cookieLife)), Path: "/", MaxAge: int(cookieLife.Seconds()),
			HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	case !bridge.Person(r.Context()):
		to = "/#/expired"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
