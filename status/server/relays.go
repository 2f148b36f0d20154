package server

import (
	"net/http"

	"teambridge/status/api"
)

func (s *Server) relays(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Relays(r.Context(), p.text("team"))
}

func (s *Server) relay(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Relay(r.Context(), p.text("team"), r.PathValue("relay"))
}

func (s *Server) addRelay(w http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewRelay](r)
	if err != nil {
		return nil, err
	}
	e, err := s.local.AddRelay(r.Context(), n)
	return added(w, e, e.Added, "/v1/relays/"+e.ID, err)
}

// added answers with what a request has added, or what was there already.
func added(w http.ResponseWriter, v any, isNew bool, at string, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	w.Header().Set("Location", at)
	if isNew {
		return nil, write(w, http.StatusCreated, v)
	}
	return v, nil
}

func (s *Server) removeRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "deleteTeam")
	remove := s.local.RemoveRelay
	if p.flag("deleteTeam") {
		remove = s.local.RemoveRelayAndTeam
	}
	if p.err != nil {
		return nil, p.err
	}
	return remove(r.Context(), r.PathValue("relay"))
}

func (s *Server) interruptRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.Interrupt(r.Context(), r.PathValue("relay"))
}

func (s *Server) retryRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.RetryRelay(r.Context(), r.PathValue("relay"))
}

func (s *Server) releaseRelay(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "sender")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.ReleaseRelay(r.Context(), r.PathValue("relay"), p.text("sender"))
}

func (s *Server) release(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "sender")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Release(r.Context(), r.PathValue("team"), r.PathValue("member"), p.text("sender"))
}

func (s *Server) questions(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Questions(r.Context(), p.text("team"))
}

func (s *Server) question(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Question(r.Context(), p.text("team"), r.PathValue("question"))
}

func (s *Server) permit(_ http.ResponseWriter, r *http.Request) (any, error) {
	p, err := body[api.Permit](r)
	if err != nil {
		return nil, err
	}
	return s.local.Permit(r.Context(), r.PathValue("relay"), p)
}

func (s *Server) deliveries(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team", "state", "limit")
	q := api.DeliveryQuery{Team: p.text("team"), State: p.text("state"), Limit: int(p.number("limit", 0))}
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Deliveries(r.Context(), "", q)
}

func (s *Server) relayDeliveries(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "state", "limit")
	q := api.DeliveryQuery{State: p.text("state"), Limit: p.limit(api.DefaultDeliveries, api.MaxDeliveries)}
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Deliveries(r.Context(), r.PathValue("relay"), q)
}

func (s *Server) retryDelivery(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.RetryDelivery(r.Context(), r.PathValue("delivery"))
}

func (s *Server) dropDelivery(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.DropDelivery(r.Context(), r.PathValue("delivery"))
}
