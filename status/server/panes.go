package server

import (
	"net/http"

	"teambridge/relay/pane"
	"teambridge/relay/terminal"
	"teambridge/status/api"
	"teambridge/status/view"
)

func (s *Server) listPanes(_ http.ResponseWriter, r *http.Request) (any, error) {
	list, err := s.panes.List(r.Context())
	if err != nil {
		return nil, err
	}
	views, err := s.statuses.Seen(r.Context(), list)
	shown := make([]api.Pane, 0, len(views))
	for _, v := range views {
		shown = append(shown, view.Pane(v))
	}
	return shown, err
}

// lookAtPane looks at a pane now, which others never do in a request.
func (s *Server) lookAtPane(_ http.ResponseWriter, r *http.Request) (any, error) {
	p, err := s.panes.Find(r.Context(), r.PathValue("pane"))
	if err != nil {
		return nil, err
	}
	v, err := s.panes.Look(r.Context(), p)
	return view.Pane(v), err
}

func (s *Server) addPane(w http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewPane](r)
	if err != nil {
		return nil, err
	}
	p, _, err := s.panes.Add(r.Context(), pane.Registration{
		Name: n.Member, Target: n.Target, Socket: n.Socket, Profile: terminal.Profile(n.Profile), Replace: n.Replace,
	})
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", "/v1/panes/"+p.Inbox)
	return nil, write(w, http.StatusCreated, view.Pane(pane.View{Pane: p}))
}

func (s *Server) removePane(_ http.ResponseWriter, r *http.Request) (any, error) {
	ctx, name := r.Context(), r.PathValue("pane")
	p, err := s.panes.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	views, err := s.statuses.Seen(ctx, []pane.Pane{p})
	if err != nil {
		return nil, err
	}
	_, err = s.panes.Remove(ctx, name)
	return view.Pane(views[0]), err
}
