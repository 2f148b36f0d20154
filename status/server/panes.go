package server

import (
	"context"
	"net/http"

	"teambridge/relay/pane"
	"teambridge/status/api"
)

// seen returns what is known of panes, with what was seen of each at the last look.
func (s *Server) seen(ctx context.Context, list []pane.Pane) ([]pane.View, error) {
	views := make([]pane.View, 0, len(list))
	for _, p := range list {
		v := s.watch.view(p)
		var err error
		if v.Messages, err = s.ledger.PaneMessages(ctx, p.InboxKey); err != nil {
			return nil, err
		}
		views = append(views, v)
	}
	return views, nil
}

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
