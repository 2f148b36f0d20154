package server

import (
	_ "embed"
	"net/http"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// handler returns the answer to a request, or nil if it has already written one.
type handler func(w http.ResponseWriter, r *http.Request) (answer any, err error)

// handlers returns the handlers of operations that do more than call the bridge.
func (s *Server) handlers() map[op.Operation]handler {
	return map[op.Operation]handler{
		&op.Health:            s.health,
		&op.Document:          openapi,
		&op.Version:           s.version,
		&op.Send:              s.send,
		&op.Await:             typed(&op.Await, s.outcome),
		&op.Receipt:           typed(&op.Receipt, s.receipt),
		&op.Transcript:        typed(&op.Transcript, s.transcript),
		&op.SessionTranscript: typed(&op.SessionTranscript, s.sessionTranscript),
		&op.Tasks:             typed(&op.Tasks, s.tasks),
		&op.Events:            typed(&op.Events, s.events),
		&op.Envelopes:         s.relayEvents(),
		&op.SignIn:            typed(&op.SignIn, s.signIn),
	}
}

// asking returns the handler of an operation that just calls the bridge.
func (s *Server) asking(o op.Operation) handler {
	d, hint := newDecoder(o.Asks()), o.Info().Lasts
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		q, err := d.decode(r)
		if err != nil {
			return nil, err
		}
		ctx := r.Context()
		if hint != "" {
			lasting, over, err := s.lasting(w, r, hint)
			if err != nil {
				return nil, err
			}
			defer over()
			ctx = lasting
		}
		a, status, location, err := o.Ask(ctx, s.local, q)
		if err != nil {
			return nil, err
		}
		if location != "" {
			w.Header().Set("Location", location)
		}
		if status != http.StatusOK {
			return nil, write(w, status, a)
		}
		return a, nil
	}
}

// typed returns a handler that decodes the query of an operation and calls do with it.
func typed[Q, A any](o *op.Op[Q, A], do func(http.ResponseWriter, *http.Request, *Q) (any, error)) handler {
	d := newDecoder(o.Asks())
	return func(w http.ResponseWriter, r *http.Request) (any, error) {
		q, err := d.decode(r)
		if err != nil {
			return nil, err
		}
		return do(w, r, q.(*Q))
	}
}

func (s *Server) health(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.Health(r.Context())
}

func (s *Server) version(http.ResponseWriter, *http.Request) (any, error) {
	return api.ServiceVersion{Version: s.opts.Version, ReadOnly: s.opts.ReadOnly, Operations: api.Operations}, nil
}

//go:generate go run ./document

//go:embed openapi.json
var document []byte

func openapi(w http.ResponseWriter, _ *http.Request) (any, error) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(document)
	return nil, nil
}

// receipt answers with the receipt of a sent message.
func (s *Server) receipt(_ http.ResponseWriter, r *http.Request, q *op.ReceiptQuery) (any, error) {
	if q.ID == "" {
		return nil, invalid("the id of the message is missing")
	}
	return s.local.Receipt(r.Context(), q.Team, q.CreatedAt, q.Member, q.ID)
}
