package server

import (
	"context"
	"net/http"
	"os"
	"strings"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/doctor"
)

// findings answers with what keeps messages from arriving, and changes nothing.
func (s *Server) findings(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.checkup(r, false)
}

// fix is findings, and fixes what it can.
func (s *Server) fix(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.checkup(r, true)
}

func (s *Server) checkup(r *http.Request, fix bool) (any, error) {
	p := parseParams(r, "team")
	if p.err != nil {
		return nil, p.err
	}
	return doctor.Checkup{
		Root: s.opts.Root, State: s.opts.State, Locker: s.locker, LookupEnv: s.lookupEnv,
		Ledger:  func(context.Context) (*ledger.Ledger, error) { return s.ledger, nil },
		Journal: func(context.Context) (*journal.Journal, error) { return s.reads, nil },
	}.Run(r.Context(), p.text("team"), fix)
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
