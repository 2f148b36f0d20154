package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"teambridge/status/api"
)

// The keys of what a request knows of itself.
type (
	unixKey   struct{} // bool: it came through the unix socket
	personKey struct{} // bool: see [Person]
	cookieKey struct{} // bool: a person, known by the cookie of a page
)

// Person reports whether the request that ctx belongs to comes from a person:
// from whoever can open the unix socket, has the token, or is signed in with a
// browser. What a row of an inbox says never does.
func Person(ctx context.Context) bool {
	person, _ := ctx.Value(personKey{}).(bool)
	return person
}

func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, unixKey{}, c.LocalAddr().Network() == "unix")
}

// guard lets pass what may be answered, and makes of each request one that ends.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		told := &teller{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.log.Error("a fault in the service", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				if told.status != 0 {
					panic(http.ErrAbortHandler) // half an answer is none
				}
				s.fail(told, r, errors.New("a fault in the service; its log says more"))
			}
			s.log.Debug("answered", "method", r.Method, "path", r.URL.Path, "status", told.status, "ms", time.Since(start).Milliseconds())
		}()
		secure(w.Header())
		if err := s.foreign(r); err != nil {
			s.fail(told, r, err)
			return
		}
		if s.signedIn(r) {
			r = r.WithContext(context.WithValue(r.Context(), personKey{}, true))
		} else if s.hasCookie(r, start) {
			ctx := context.WithValue(r.Context(), personKey{}, true)
			r = r.WithContext(context.WithValue(ctx, cookieKey{}, true))
		}
		next.ServeHTTP(told, r)
	})
}

// secure sets the headers of every answer. A page gets its scripts and styles, and
// speaks, only from and to here.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "+
		"base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// foreign refuses what a page of another site makes a browser ask: by the name it
// calls us (which it can make its own name mean), and by what the browser says of
// where the request comes from.
func (s *Server) foreign(r *http.Request) error {
	const hint = "ask from this machine, under a loopback address or localhost"
	if unix, _ := r.Context().Value(unixKey{}).(bool); !unix && !loopback(r.Host) {
		return api.Decide(api.CodeForbidden, hint, "the host %q is not this service", r.Host)
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		u, err := url.Parse(origins[0])
		if err != nil || len(origins) > 1 || u.Scheme != "http" || u.Host != r.Host {
			return api.Decide(api.CodeForbidden, "pages of other sites are not answered", "the request comes from %q", origins[0])
		}
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "", site == "same-origin", site == "none", visit(r):
		return nil
	default:
		return api.Decide(api.CodeForbidden, "pages of other sites are not answered", "the request comes from another site (%s)", site)
	}
}

// visit reports whether somebody follows a link to the page, which holds nothing
// and does nothing by being opened: one that a terminal in a browser has printed.
func visit(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/" &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

func loopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// signedIn reports whether a person asks, one who needs no cookie.
func (s *Server) signedIn(r *http.Request) bool {
	if unix, _ := r.Context().Value(unixKey{}).(bool); unix {
		return true // nobody else can open it
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if s.token == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	// Equal lengths, so that the time says nothing of the token.
	want, got := sha256.Sum256([]byte(s.token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// teller knows whether an answer has begun.
type teller struct {
	http.ResponseWriter
	status int
}

func (t *teller) WriteHeader(status int) {
	if t.status == 0 {
		t.status = status
	}
	t.ResponseWriter.WriteHeader(status)
}

func (t *teller) Write(b []byte) (int, error) {
	if t.status == 0 {
		t.status = http.StatusOK
	}
	return t.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (t *teller) Unwrap() http.ResponseWriter { return t.ResponseWriter }
