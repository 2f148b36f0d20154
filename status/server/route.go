package server

import (
	"context"
	"net/http"
	"strings"

	"teambridge/status/api"
)

// route is one thing that can be asked. openapi.json has the same ones.
type route struct {
	method, path string
	handle       func(w http.ResponseWriter, r *http.Request) error
	open         bool // to whoever can connect
	changes      bool // refused when the service is read-only
	bare         bool // it changes something, and takes no body
	stream       bool // it ends when the client or the service does
}

func (s *Server) routes() []route {
	return []route{
		{method: "GET", path: "/healthz", handle: s.health, open: true},
		{method: "GET", path: "/openapi.json", handle: s.openapi},
		{method: "GET", path: "/v1/version", handle: s.version},
		{method: "GET", path: "/v1/teams", handle: s.teams},
		{method: "GET", path: "/v1/teams/{team}", handle: s.team},
		{method: "GET", path: "/v1/teams/{team}/members", handle: s.members},
		{method: "GET", path: "/v1/teams/{team}/status", handle: s.status},
		{method: "GET", path: "/v1/teams/{team}/messages", handle: s.messages},
		{method: "POST", path: "/v1/teams/{team}/members/{member}/messages", handle: s.send, changes: true},
		{method: "POST", path: "/v1/teams/{team}/broadcast", handle: s.broadcast, changes: true},
		{method: "POST", path: "/v1/teams/{team}/read", handle: s.markRead, changes: true},
		{method: "GET", path: "/v1/teams/{team}/members/{member}/receipt", handle: s.receipt},
		{method: "GET", path: "/v1/relays", handle: s.relays},
		{method: "POST", path: "/v1/relays", handle: s.addRelay, changes: true},
		{method: "DELETE", path: "/v1/relays/{relay}", handle: s.removeRelay, changes: true, bare: true},
		{method: "POST", path: "/v1/relays/{relay}/interrupt", handle: s.interruptRelay, changes: true, bare: true},
		{method: "POST", path: "/v1/relays/{relay}/retry", handle: s.retryRelay, changes: true, bare: true},
		{method: "POST", path: "/v1/relays/{relay}/release", handle: s.releaseRelay, changes: true, bare: true},
		{method: "POST", path: "/v1/relays/{relay}/permit", handle: s.permit, changes: true},
		{method: "GET", path: "/v1/relays/{relay}/deliveries", handle: s.deliveries},
		{method: "POST", path: "/v1/deliveries/{delivery}/retry", handle: s.retryDelivery, changes: true, bare: true},
		{method: "POST", path: "/v1/deliveries/{delivery}/drop", handle: s.dropDelivery, changes: true, bare: true},
		{method: "GET", path: "/v1/search", handle: s.search},
		{method: "GET", path: "/v1/events", handle: s.events, stream: true},
		{method: "POST", path: "/v1/sign-in", handle: s.signIn},
	}
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.method+" "+r.path, s.answer(r))
	}
	if s.opts.Page != nil {
		mux.HandleFunc("GET /{$}", s.page)
		mux.Handle("GET /ui/", s.opts.Page)
	}
	return s.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		// What the mux would say, as a problem.
		said := &header{h: http.Header{}}
		h.ServeHTTP(said, r)
		if allow := said.Header().Get("Allow"); said.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", allow)
			s.fail(w, r, api.Decide(api.CodeMethod, "there is "+allow, "%s is not for %s", r.URL.Path, r.Method))
			return
		}
		s.fail(w, r, api.Decide(api.CodeNoRoute, "see what there is at /openapi.json", "there is nothing at %s", r.URL.Path))
	}))
}

// header takes the status and the header of an answer, and drops its body.
type header struct {
	h      http.Header
	status int
}

func (h *header) Header() http.Header         { return h.h }
func (h *header) Write(b []byte) (int, error) { return len(b), nil }
func (h *header) WriteHeader(status int)      { h.status = status }

// answer asks a route, if it may be asked.
func (s *Server) answer(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !route.open && !Person(r.Context()) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="teambridge"`)
			s.fail(w, r, api.Decide(api.CodeUnauthorized, "the token is in "+TokenPath(s.opts.State), "the header Authorization has no token, or a wrong one"))
			return
		}
		if route.changes && s.opts.ReadOnly {
			s.fail(w, r, api.Decide(api.CodeReadOnly, "it was started with --read-only", "the service changes nothing"))
			return
		}
		if !route.stream {
			ctx, cancel := context.WithTimeout(r.Context(), s.limits.request)
			defer cancel()
			r = r.WithContext(ctx)
			if route.changes && !route.bare {
				r.Body = http.MaxBytesReader(w, r.Body, s.limits.body)
			} else if r.ContentLength != 0 {
				s.fail(w, r, api.Decide(api.CodeBody, "", "%s takes no body", strings.ToLower(r.Method)+" "+r.URL.Path))
				return
			}
		}
		if err := route.handle(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}
