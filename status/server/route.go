package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"teambridge/status/api"
	"teambridge/status/api/op"
	"teambridge/status/bridge"
)

// route is one route of the API: an operation of package op.
type route struct {
	*op.Route
	handle handler
	bare   bool                     // its requests must not have a body
	stream func(*http.Request) bool // whether the answer ends with the client or the service
}

func (s *Server) routes() (list []route) {
	own := s.handlers()
	for _, o := range op.All() {
		if o == op.Operation(&op.SendPayloads) || o == op.Operation(&op.EnvelopeEvents) {
			continue // variants of earlier operations
		}
		r := route{Route: o.Info(), handle: own[o], bare: !newDecoder(o.Asks()).body()}
		if r.handle == nil {
			r.handle = s.asking(o)
		}
		r.stream = func(*http.Request) bool { return r.Lasts != "" }
		switch o {
		case &op.Tasks:
			r.stream = followsTasks
		case &op.Envelopes:
			r.stream = wantsStream
		}
		list = append(list, r)
	}
	return list
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.Handle(r.Method+" "+r.Path, s.answer(r))
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
		// Turn the answer of the mux into a problem.
		answer := &header{h: http.Header{}}
		h.ServeHTTP(answer, r)
		if allow := answer.h.Get("Allow"); answer.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", allow)
			s.fail(w, r, api.Decide(api.CodeMethod, "allowed: "+allow, "%s does not allow %s", r.URL.Path, r.Method))
			return
		}
		s.fail(w, r, api.Decide(api.CodeNoRoute, seeDocument, "there is nothing at %s", r.URL.Path))
	}))
}

// header is an http.ResponseWriter that keeps only the status and the header.
type header struct {
	h      http.Header
	status int
}

func (h *header) Header() http.Header         { return h.h }
func (h *header) Write(b []byte) (int, error) { return len(b), nil }
func (h *header) WriteHeader(status int)      { h.status = status }

// answer returns the handler of a route.
func (s *Server) answer(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bridge.Agent(r.Context()) && route.Who == op.Persons {
			s.fail(w, r, api.Decide(api.CodeForbidden, "nothing was done", "%s %s is for persons, and an agent asks", route.Method, r.URL.Path))
			return
		}
		if route.Who != op.Anyone && !bridge.Person(r.Context()) && !bridge.Agent(r.Context()) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="teambridge"`)
			s.fail(w, r, api.Decide(api.CodeUnauthorized, "the token is in "+api.TokenPath(s.opts.State), "the token in the header Authorization is missing or wrong"))
			return
		}
		if !utf8.ValidString(r.URL.Path) {
			s.fail(w, r, api.Decide(api.CodeInvalid, "nothing was done", "the path is not valid UTF-8"))
			return
		}
		if route.Changes && s.opts.ReadOnly {
			s.fail(w, r, api.Decide(api.CodeReadOnly, "it was started with --read-only", "the service is read-only"))
			return
		}
		lasts := route.stream(r)
		if lasts && r.Method == http.MethodHead {
			return // it would never end, and the connection would answer nothing else
		}
		if !lasts {
			ctx, cancel := context.WithTimeout(r.Context(), s.limits.request)
			defer cancel()
			r = r.WithContext(ctx)
		}
		if route.Changes && !route.bare {
			r.Body = http.MaxBytesReader(w, r.Body, s.limits.body)
		} else if !lasts && r.ContentLength != 0 {
			s.fail(w, r, api.Decide(api.CodeBody, "", "%s takes no body", strings.ToLower(r.Method)+" "+r.URL.Path))
			return
		}
		answer, err := s.make(route, w, r)
		if err == nil && answer != nil {
			err = write(w, http.StatusOK, answer)
		}
		if err != nil {
			s.fail(w, r, err)
		}
	})
}

// make returns the answer of a route. It limits how many large answers are made at once, and encodes them while they
// count, since the values take several times the memory of the encoded answer.
func (s *Server) make(route route, w http.ResponseWriter, r *http.Request) (any, error) {
	if !route.Large || route.stream(r) {
		return route.handle(w, r)
	}
	select {
	case s.making <- struct{}{}:
		defer func() { <-s.making }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	answer, err := route.handle(w, r)
	if err != nil || answer == nil {
		return nil, err
	}
	forPrograms(answer)
	body, err := json.Marshal(answer)
	return encoded(body), err
}

// encoded is an encoded answer.
type encoded []byte
