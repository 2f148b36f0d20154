package server

import (
	"net/http"

	"teambridge/status/api"
)

func (s *Server) listPanes(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.Panes(r.Context())
}

// lookAtPane looks at a pane now, which others never do in a request.
func (s *Server) lookAtPane(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.Pane(r.Context(), r.PathValue("pane"))
}

func (s *Server) testPane(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "policy")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.TestPane(r.Context(), r.PathValue("pane"), p.text("policy"))
}

func (s *Server) addPane(w http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewPane](r)
	if err != nil {
		return nil, err
	}
	p, err := s.local.AddPane(r.Context(), n)
	return added(w, p, p.Added, "/v1/panes/"+p.Member, err)
}

func (s *Server) removePane(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.RemovePane(r.Context(), r.PathValue("pane"))
}
