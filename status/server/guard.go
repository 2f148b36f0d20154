package server

import (
	"cmp"
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
	"teambridge/status/bridge"
)

// Keys of the context of a request.
type (
	unixKey   struct{} // bool: it came through the unix socket
	visitKey  struct{} // *visitor: its TCP connection
	cookieKey struct{} // bool: it was authenticated by the cookie of a page
	endedKey  struct{} // <-chan struct{}: closed once its token is no longer valid
)

func connContext(ctx context.Context, c net.Conn) context.Context {
	if v, ok := c.(*visitor); ok {
		ctx = context.WithValue(ctx, visitKey{}, v)
	}
	return context.WithValue(ctx, unixKey{}, c.LocalAddr().Network() == "unix")
}

// guard refuses requests from pages of other sites, authenticates all others, and recovers from panics. A request is a
// person's ([bridge.Person]) if it comes through the unix socket, or has the token or the cookie of a browser that is
// signed in.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		answer := &statusWriter{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				s.log.Error("panic", "method", r.Method, "path", r.URL.Path, "panic", p, "stack", string(debug.Stack()))
				if answer.status != 0 {
					panic(http.ErrAbortHandler) // the answer has begun, and cannot be replaced
				}
				s.fail(answer, r, errors.New("internal error; see the log of the service"))
			}
			s.log.Debug("answered", "method", r.Method, "path", r.URL.Path, "status", answer.status, "ms", time.Since(start).Milliseconds())
		}()
		secure(w.Header())
		if err := foreign(r); err != nil {
			s.fail(answer, r, err)
			return
		}
		ctx := r.Context()
		person, _ := ctx.Value(unixKey{}).(bool) // only the user can open the socket
		if !person {
			token, ended := s.tokens.now()
			cookie := false
			if person = hasToken(r, token); !person {
				cookie = s.hasCookie(r, token, start)
			}
			person = person || cookie
			ctx = context.WithValue(ctx, cookieKey{}, cookie)
			ctx = context.WithValue(ctx, endedKey{}, ended)
			if v, ok := ctx.Value(visitKey{}).(*visitor); ok && person {
				v.admit()
			} else {
				answer.Header().Set("Connection", "close") // an open connection of a stranger costs resources
			}
		}
		switch {
		case person && r.Header.Get(api.AgentHeader) != "":
			ctx = bridge.WithAgent(ctx)
		case person:
			ctx = bridge.WithPerson(ctx)
		}
		next.ServeHTTP(answer, r.WithContext(ctx))
	})
}

// secure limits a page to scripts, styles and requests of this service.
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

// foreign returns an error for requests from pages of other sites. They have a host name that is not ours (DNS
// rebinding), or headers in which the browser names their origin.
func foreign(r *http.Request) error {
	const hint = "use a loopback address or localhost"
	// The socket can be forwarded to a port. Programs use names without a dot there; a page has the name of its site.
	if unix, _ := r.Context().Value(unixKey{}).(bool); !loopback(r.Host) && (!unix || strings.ContainsAny(r.Host, ".:")) {
		return api.Decide(api.CodeForbidden, hint, "%q is not a host name of this service", r.Host)
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		u, err := url.Parse(origins[0])
		if err != nil || len(origins) > 1 || u.Scheme != "http" || u.Host != r.Host {
			return api.Decide(api.CodeForbidden, "requests of other sites are refused", "the request comes from %q", origins[0])
		}
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "", site == "same-origin", site == "none", visit(r):
		return nil
	default:
		return api.Decide(api.CodeForbidden, "requests of other sites are refused", "the request comes from another site (%s)", site)
	}
}

// visit reports whether a person follows a link to the page, such as a link in a terminal that runs in a browser. That
// is allowed: opening the page has no effect, and it contains nothing secret.
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

// hasToken reports whether the request has the token.
func hasToken(r *http.Request, token string) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token == "" || !strings.EqualFold(scheme, "Bearer") {
		return false
	}
	// Compare digests, which have equal lengths, so that the time reveals nothing about the token.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given)))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

// statusWriter records the status of an answer; 0 before it has begun.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (t *statusWriter) WriteHeader(status int) {
	t.status = cmp.Or(t.status, status)
	t.ResponseWriter.WriteHeader(status)
}

func (t *statusWriter) Write(b []byte) (int, error) {
	t.status = cmp.Or(t.status, http.StatusOK)
	return t.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] find the original writer.
func (t *statusWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }
