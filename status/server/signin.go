package server

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"teambridge/status/api"
)

// A browser has no place for the token that is safe from scripts and that it
// sends by itself, but for a cookie. So that the token need not be typed, whoever
// is signed in without a cookie can have a code, which a browser trades for one.

const (
	codeLife   = time.Minute        // from asking for a code to its use
	cookieLife = 7 * 24 * time.Hour // then the page says that it wants to be signed in again
	mostCodes  = 16                 // that wait to be used; of more, the oldest are forgotten
)

// codes are the ones that were given out and not used yet, as their digests.
type codes struct {
	mu   sync.Mutex
	list []oneTime
}

type oneTime struct {
	digest [sha256.Size]byte
	until  time.Time
}

// give returns a new code, and until when it can be used.
func (c *codes) give(now time.Time) (code string, until time.Time) {
	code, until = secret(), now.Add(codeLife)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, oneTime{sha256.Sum256([]byte(code)), until})
	if n := len(c.list); n > mostCodes {
		c.list = slices.Delete(c.list, 0, n-mostCodes)
	}
	return code, until
}

// use reports whether a code is good. It is not another time.
func (c *codes) use(code string, now time.Time) bool {
	digest := sha256.Sum256([]byte(code))
	c.mu.Lock()
	defer c.mu.Unlock()
	n := slices.IndexFunc(c.list, func(o oneTime) bool { return subtle.ConstantTimeCompare(o.digest[:], digest[:]) == 1 })
	if n < 0 {
		return false
	}
	good := now.Before(c.list[n].until)
	c.list = slices.Delete(c.list, n, n+1)
	return good
}

// cookieName has the Claude directory in it: a browser sends the cookies of one
// address to all of its ports, so two services must not have one of the same name.
func (s *Server) cookieName() string {
	sum := sha256.Sum256([]byte(s.opts.Root.Path()))
	return "teambridge-" + hex.EncodeToString(sum[:6])
}

// cookie returns the value that signs a browser in until then. It is a word of the
// token, so that it is good for the next service of this directory too, and for
// none once the token was removed.
func (s *Server) cookie(until time.Time) string {
	claim := strconv.FormatInt(until.Unix(), 10) + "." + secret()
	return claim + "." + s.seal(claim)
}

func (s *Server) seal(claim string) string {
	mac := hmac.New(sha256.New, []byte(s.token))
	mac.Write([]byte("page of " + s.opts.Root.Path() + "\x00" + claim))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// hasCookie reports whether r comes from a browser that is signed in.
func (s *Server) hasCookie(r *http.Request, now time.Time) bool {
	if s.token == "" {
		return false
	}
	for _, c := range r.CookiesNamed(s.cookieName()) {
		end := strings.LastIndexByte(c.Value, '.')
		if end < 0 || !hmac.Equal([]byte(s.seal(c.Value[:end])), []byte(c.Value[end+1:])) {
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

// signIn gives out a code, as an address that opens the page signed in.
func (s *Server) signIn(w http.ResponseWriter, r *http.Request) error {
	if cookie, _ := r.Context().Value(cookieKey{}).(bool); cookie {
		// Else who has got hold of a cookie could go on for ever.
		return api.Decide(api.CodeForbidden, "run: teambridge ui", "a page cannot sign another one in")
	}
	host := ""
	for i, a := range s.listen {
		if a.network == "tcp" {
			host = s.addrs[i]
			break
		}
	}
	if s.opts.Page == nil || host == "" {
		return api.Decide(api.CodeRefused, "end it, and start it so: teambridge serve --listen 127.0.0.1:7420",
			"a browser cannot open the page: the service listens on a unix socket alone")
	}
	code, until := s.codes.give(time.Now())
	return write(w, http.StatusCreated, api.SignIn{URL: "http://" + host + "/?code=" + code, Until: until.UTC()})
}

// page answers GET /: the page or, with a code, a cookie and the way to the page
// without the code.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	code := r.URL.Query().Get("code")
	if code == "" || r.Method != http.MethodGet {
		s.opts.Page.ServeHTTP(w, r)
		return
	}
	to, now := "/", time.Now()
	switch {
	case s.codes.use(code, now) && s.token != "":
		http.SetCookie(w, &http.Cookie{
			Name: s.cookieName(), Value: s.cookie(now.Add(cookieLife)), Path: "/", MaxAge: int(cookieLife.Seconds()),
			HttpOnly: true, SameSite: http.SameSiteStrictMode,
		})
	case !Person(r.Context()):
		to = "/#/expired"
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}
