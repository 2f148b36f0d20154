package server

import (
	"net/http"

	"teambridge/status/api"
	"teambridge/status/view"
)

// attention answers with everything that waits for a person, the oldest first.
func (s *Server) attention(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team", "html")
	html := p.flag("html")
	if p.err != nil {
		return nil, p.err
	}
	list, err := s.local.Attention(r.Context(), p.text("team"))
	if html {
		view.AddPlanHTML(list)
	}
	return list, err
}

// dismiss hides one thing that waits, until it changes.
func (s *Server) dismiss(_ http.ResponseWriter, r *http.Request) (any, error) {
	d, err := body[api.Dismiss](r)
	if err != nil {
		return nil, err
	}
	return s.local.Dismiss(r.Context(), d.ID)
}
