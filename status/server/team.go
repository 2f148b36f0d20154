package server

import (
	"net/http"

	_ "embed"

	"teambridge/status/api"
)

func (s *Server) health(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := s.reads.Last(r.Context()); err != nil {
		return nil, &api.Decided{Err: err, Code: api.CodeUnavailable, Hint: "find out why with: teambridge doctor"}
	}
	return api.Health{Status: "ok"}, nil
}

func (s *Server) version(http.ResponseWriter, *http.Request) (any, error) {
	return api.ServiceVersion{Version: s.opts.Version, ReadOnly: s.opts.ReadOnly, Operations: api.Operations}, nil
}

//go:embed openapi.json
var document []byte

func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document)
	return nil, nil
}

func (s *Server) teams(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.Teams(r.Context())
}

func (s *Server) endedTeams(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.EndedTeams(r.Context())
}

// target answers with what names mean.
func (s *Server) target(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team", "default", "dir", "name…", "existing")
	existing := p.flag("existing")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Target(r.Context(), api.Scope{Team: p.text("team"), Default: p.text("default"), Dir: p.text("dir"), Existing: existing}, p.values["name"]...)
}

func (s *Server) team(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.Team(r.Context(), r.PathValue("team"))
}

func (s *Server) join(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewJoin](r)
	if err != nil {
		return nil, err
	}
	return s.local.Join(r.Context(), r.PathValue("team"), n)
}

func (s *Server) leave(_ http.ResponseWriter, r *http.Request) (any, error) {
	m, err := body[api.Leave](r)
	if err != nil {
		return nil, err
	}
	return s.local.Leave(r.Context(), r.PathValue("team"), m.As)
}

// place asks for the session of a member to be moved. It does not wait for that: snapshots
// say where the session is.
func (s *Server) place(_ http.ResponseWriter, r *http.Request) (any, error) {
	n, err := body[api.NewPlace](r)
	if err != nil {
		return nil, err
	}
	return s.local.Move(r.Context(), r.PathValue("team"), r.PathValue("member"), n)
}

func (s *Server) members(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.Members(r.Context(), r.PathValue("team"))
}

func (s *Server) status(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "member…")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Status(r.Context(), r.PathValue("team"), p.values["member"]...)
}
