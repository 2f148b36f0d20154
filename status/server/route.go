package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"unicode/utf8"

	"teambridge/status/api"
	"teambridge/status/bridge"
)

// route is one route of the API. openapi.json describes them.
type route struct {
	method, path string
	handle       handler
	large        bool                     // the answer can have much in it
	open         bool                     // without authentication
	changes      bool                     // refused when the service is read-only
	bare         bool                     // it has no body, although it changes something
	agents       bool                     // also for agents: see [api.AgentHeader]
	stream       func(*http.Request) bool // whether the answer ends with the client or the service; nil: never
}

func always(*http.Request) bool { return true }

func (s *Server) routes() []route {
	l := s.local
	return []route{
		{method: "GET", path: "/healthz", handle: plain(l.Health), open: true},
		{method: "GET", path: "/openapi.json", handle: openapi},
		{method: "GET", path: "/v1/version", handle: plain(s.version), agents: true},
		{method: "GET", path: "/v1/target", handle: s.target, agents: true},
		{method: "GET", path: "/v1/teams", handle: plain(l.Teams), agents: true},
		{method: "GET", path: "/v1/ended-teams", handle: plain(l.EndedTeams)},
		{method: "GET", path: "/v1/sessions", handle: plain(l.Sessions), agents: true},
		{method: "GET", path: "/v1/agents", handle: plain(l.Agents), agents: true},
		{method: "GET", path: "/v1/tasks", handle: s.tasks, stream: followsTasks, large: true},
		{method: "GET", path: "/v1/teams/{team}", handle: one(l.Team, "team"), agents: true},
		{method: "GET", path: "/v1/teams/{team}/members", handle: one(l.Members, "team"), agents: true},
		{method: "GET", path: "/v1/teams/{team}/status", handle: s.status, agents: true},
		{method: "GET", path: "/v1/teams/{team}/messages", handle: s.messages, large: true, agents: true},
		{method: "POST", path: "/v1/teams/{team}/members/{member}/messages", handle: s.send, changes: true, agents: true},
		{method: "POST", path: "/v1/teams/{team}/broadcast", handle: s.broadcast, changes: true},
		{method: "GET", path: "/v1/teams/{team}/inboxes", handle: s.inboxes, large: true, agents: true},
		{method: "POST", path: "/v1/teams/{team}/read", handle: posted(l.MarkRead, "team"), changes: true},
		{method: "POST", path: "/v1/teams/{team}/join", handle: posted(l.Join, "team"), changes: true},
		{method: "POST", path: "/v1/teams/{team}/leave", handle: leave(l), changes: true},
		{method: "POST", path: "/v1/teams/{team}/members/{member}/ask", handle: s.ask, changes: true, stream: always, agents: true},
		{method: "GET", path: "/v1/teams/{team}/members/{member}/transcript", handle: s.transcript, stream: always},
		{method: "GET", path: "/v1/teams/{team}/members/{member}/changes", handle: changes(l), large: true},
		{method: "GET", path: "/v1/transcripts/{session}/changes", handle: changes(l), large: true},
		{method: "GET", path: "/v1/teams/{team}/wait", handle: s.wait, stream: always},
		{method: "GET", path: "/v1/transcripts/{session}", handle: s.transcript, stream: always},
		{method: "GET", path: "/v1/teams/{team}/members/{member}/receipt", handle: s.receipt, agents: true},
		{method: "GET", path: "/v1/teams/{team}/members/{member}/outcome", handle: s.outcome, stream: always, agents: true},
		{method: "POST", path: "/v1/teams/{team}/members/{member}/place", handle: s.place, changes: true},
		{method: "POST", path: "/v1/teams/{team}/members/{member}/hold", handle: three(l.Hold, "team", "member", "?sender"), changes: true, bare: true},
		{method: "POST", path: "/v1/teams/{team}/members/{member}/release", handle: three(l.Release, "team", "member", "?sender"), changes: true, bare: true},
		{method: "GET", path: "/v1/attention", handle: s.attention},
		{method: "GET", path: "/v1/inbox", handle: inboxOf(l), large: true},
		{method: "POST", path: "/v1/attention/dismiss", handle: dismiss(l), changes: true},
		{method: "GET", path: "/v1/links", handle: plain(l.Links)},
		{method: "PUT", path: "/v1/links", handle: whole(l.SetLink), changes: true},
		{method: "POST", path: "/v1/machines", handle: whole(l.AddMachine), changes: true},
		{method: "DELETE", path: "/v1/machines/{machine}", handle: one(l.RemoveMachine, "machine"), changes: true, bare: true},
		{method: "POST", path: "/v1/machines/{machine}/teams", handle: posted(l.ShareTeam, "machine"), changes: true},
		{method: "GET", path: "/v1/doctor", handle: one(l.Findings, "?team"), large: true},
		{method: "POST", path: "/v1/doctor/fix", handle: one(l.Fix, "?team"), large: true, changes: true, bare: true},
		{method: "GET", path: "/v1/panes", handle: plain(l.Panes), agents: true},
		{method: "POST", path: "/v1/panes", handle: adding(l.AddPane, paneAt), changes: true},
		{method: "GET", path: "/v1/panes/{pane}", handle: one(l.Pane, "pane")},
		{method: "GET", path: "/v1/panes/{pane}/test", handle: two(l.TestPane, "pane", "?policy")},
		{method: "DELETE", path: "/v1/panes/{pane}", handle: one(l.RemovePane, "pane"), changes: true, bare: true},
		{method: "GET", path: "/v1/relays", handle: one(l.Relays, "?team")},
		{method: "POST", path: "/v1/relays", handle: adding(l.AddRelay, relayAt), changes: true},
		{method: "GET", path: "/v1/relays/{relay}", handle: two(l.Relay, "?team", "relay")},
		{method: "DELETE", path: "/v1/relays/{relay}", handle: s.removeRelay, changes: true, bare: true},
		{method: "POST", path: "/v1/relays/{relay}/interrupt", handle: one(l.Interrupt, "relay"), changes: true, bare: true},
		{method: "POST", path: "/v1/relays/{relay}/retry", handle: one(l.RetryRelay, "relay"), changes: true, bare: true},
		{method: "POST", path: "/v1/relays/{relay}/permit", handle: posted(l.Permit, "relay"), changes: true},
		{method: "GET", path: "/v1/relays/{relay}/deliveries", handle: s.relayDeliveries},
		{method: "GET", path: "/v1/relays/{relay}/events", handle: s.relayEvents, stream: wantsStream, large: true},
		{method: "GET", path: "/v1/questions", handle: one(l.Questions, "?team")},
		{method: "GET", path: "/v1/questions/{question}", handle: two(l.Question, "?team", "question")},
		{method: "GET", path: "/v1/deliveries", handle: s.deliveries, large: true},
		{method: "POST", path: "/v1/deliveries/{delivery}/retry", handle: one(l.RetryDelivery, "delivery"), changes: true, bare: true},
		{method: "POST", path: "/v1/deliveries/{delivery}/drop", handle: one(l.DropDelivery, "delivery"), changes: true, bare: true},
		{method: "GET", path: "/v1/search", handle: searching(l.Search, api.MaxHits), large: true, agents: true},
		{method: "GET", path: "/v1/history", handle: searching(l.History, api.MaxMessages), large: true, agents: true},
		{method: "GET", path: "/v1/tasks/history", handle: taskHistory(l)},
		{method: "GET", path: "/v1/usage", handle: usage(l)},
		{method: "GET", path: "/v1/events", handle: s.events, stream: always},
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
		// The answer of the mux, as a problem.
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

// header is an http.ResponseWriter that keeps the status and the header.
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
		if bridge.Agent(r.Context()) && !route.open && !route.agents {
			s.fail(w, r, api.Decide(api.CodeForbidden, "nothing was done", "%s %s is for persons, and an agent asks", route.method, r.URL.Path))
			return
		}
		if !route.open && !bridge.Person(r.Context()) && !bridge.Agent(r.Context()) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="teambridge"`)
			s.fail(w, r, api.Decide(api.CodeUnauthorized, "the token is in "+api.TokenPath(s.opts.State), "the token in the header Authorization is missing or wrong"))
			return
		}
		if !utf8.ValidString(r.URL.Path) {
			s.fail(w, r, api.Decide(api.CodeInvalid, "nothing was done", "the path is not valid UTF-8"))
			return
		}
		if route.changes && s.opts.ReadOnly {
			s.fail(w, r, api.Decide(api.CodeReadOnly, "it was started with --read-only", "the service is read-only"))
			return
		}
		lasts := route.stream != nil && route.stream(r)
		if !lasts {
			ctx, cancel := context.WithTimeout(r.Context(), s.limits.request)
			defer cancel()
			r = r.WithContext(ctx)
		}
		if route.changes && !route.bare {
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

// make returns the answer of a route. A large one is made while few others are, and is then
// already encoded: what it was made of takes several times its size.
func (s *Server) make(route route, w http.ResponseWriter, r *http.Request) (any, error) {
	if !route.large || route.stream != nil && route.stream(r) {
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
	body, err := json.Marshal(answer)
	return encoded(body), err
}

// encoded is an answer that is encoded already.
type encoded []byte
