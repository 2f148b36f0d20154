package server

import (
	"net/http"
	"os"
	"strings"
)

// findings answers with what keeps messages from arriving, and changes nothing.
func (s *Server) findings(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Findings(r.Context(), p.text("team"))
}

// fix is findings, and fixes what it can.
func (s *Server) fix(_ http.ResponseWriter, r *http.Request) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return s.local.Fix(r.Context(), p.text("team"))
}

// lookupEnv looks up a variable of the environment of the agents.
func (s *Server) lookupEnv(name string) (value string, found bool) {
	if s.opts.Env == nil {
		return os.LookupEnv(name)
	}
	for _, v := range s.opts.Env {
		if n, text, _ := strings.Cut(v, "="); n == name {
			value, found = text, true // the last one counts
		}
	}
	return value, found
}
