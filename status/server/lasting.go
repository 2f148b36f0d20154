package server

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"time"

	"teambridge/status/api"
	"teambridge/status/api/op"
	"teambridge/status/view"
)

// lasting removes the deadlines of a request that may take long, and counts it as a stream until over is called. The
// returned context ends, with an error that has hint, when the service ends or the client's token becomes invalid.
func (s *Server) lasting(w http.ResponseWriter, r *http.Request, hint string) (_ context.Context, over func(), err error) {
	select {
	case s.streams <- struct{}{}:
	default:
		return nil, nil, api.Decide(api.CodeTooMany, "close one of them", "there are already %d streams of events and requests that wait", cap(s.streams))
	}
	free := func() { <-s.streams }
	select {
	case <-s.ending:
		free()
		return nil, nil, api.Decide(api.CodeUnavailable, "connect again", "the service is ending")
	default:
	}
	control := http.NewResponseController(w)
	for _, set := range []func(time.Time) error{control.SetReadDeadline, control.SetWriteDeadline} {
		if err := set(time.Time{}); err != nil {
			free()
			return nil, nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	ended, _ := ctx.Value(endedKey{}).(<-chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-s.ending:
			cancel(api.Decide(api.CodeUnavailable, hint, "the service is ending"))
		case <-ended:
			cancel(&api.Decided{Err: errors.New("its token was removed"), Code: api.CodeUnauthorized, Hint: hint})
		}
	}()
	return ctx, func() {
		cancel(nil)
		_ = control.SetWriteDeadline(time.Now().Add(s.limits.write)) // for an answer that has not begun
		free()
	}, nil
}

// outcome waits until a message reaches a state. If it comes to another end, the answer says so.
func (s *Server) outcome(w http.ResponseWriter, r *http.Request, q *op.AwaitQuery) (any, error) {
	sent := api.Sent{Team: q.Team, Member: q.Member, ID: q.ID, Delivery: q.Delivery, State: api.Verified}
	if q.Until == api.Confirmed {
		sent.State = api.Waiting
		if q.Delivery == "" {
			return nil, invalid("the delivery is missing")
		}
	} else if q.ID == "" {
		return nil, invalid("the id of the message is missing")
	}
	ctx, over, err := s.lasting(w, r, op.Await.Lasts)
	if err != nil {
		return nil, err
	}
	defer over()
	sent, err = s.local.Await(ctx, sent, q.Until, q.Timeout)
	if err != nil {
		fault := view.Explain(err)
		if ctx.Err() != nil || !slices.Contains([]api.Code{api.CodeTimeout, api.CodeLost, api.CodeUnknown, api.CodeGone, api.CodeRefused}, fault.Code) {
			return nil, err
		}
		sent.Error = &fault
	}
	return sent, nil
}

// transcript answers with the transcript of a member, one line of JSON per envelope.
func (s *Server) transcript(w http.ResponseWriter, r *http.Request, q *op.TranscriptQuery) (any, error) {
	return s.envelopes(w, r, q.Team, q.Member, q.TranscriptQuery)
}

func (s *Server) sessionTranscript(w http.ResponseWriter, r *http.Request, q *op.SessionTranscriptQuery) (any, error) {
	return s.envelopes(w, r, "", q.Session, q.TranscriptQuery)
}

func (s *Server) envelopes(w http.ResponseWriter, r *http.Request, team, who string, q api.TranscriptQuery) (any, error) {
	return s.lines(w, r, q.Follow, func(ctx context.Context) iter.Seq2[json.RawMessage, error] {
		return s.local.Transcript(ctx, team, who, q)
	})
}

// followsTasks reports whether a request follows the changes of tasks.
func followsTasks(r *http.Request) bool { return r.URL.Query().Get("follow") == "true" }

// tasks answers with tasks or, with follow, with one line of JSON after each change.
func (s *Server) tasks(w http.ResponseWriter, r *http.Request, q *op.TasksQuery) (any, error) {
	if !q.Follow {
		return s.local.Tasks(r.Context(), q.TaskQuery)
	}
	return s.lines(w, r, true, func(ctx context.Context) iter.Seq2[json.RawMessage, error] {
		return func(yield func(json.RawMessage, error) bool) {
			for found, err := range s.local.FollowTasks(ctx, q.TaskQuery) {
				var line json.RawMessage
				if err == nil {
					line, err = json.Marshal(found)
				}
				if !yield(line, err) {
					return
				}
			}
		}
	})
}

// lines answers with lines of JSON. With follow, it sends each at once. If lines fails after the answer has begun, the
// last line is an object with the error.
func (s *Server) lines(w http.ResponseWriter, r *http.Request, follow bool, lines func(context.Context) iter.Seq2[json.RawMessage, error]) (any, error) {
	ctx, over, err := s.lasting(w, r, "read it again")
	if err != nil {
		return nil, err
	}
	defer over()
	control := http.NewResponseController(w)
	begun := false
	begin := func() {
		w.Header().Set("Content-Type", api.LinesType)
		w.Header().Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
		begun = true
	}
	for line, err := range lines(ctx) {
		switch {
		case !begun && err != nil:
			return nil, err
		case !begun:
			begin()
		case err != nil:
			last := &api.LineError{Error: view.Explain(err)}
			forPrograms(last)
			if line, err = json.Marshal(last); err != nil {
				return nil, nil // the answer has begun
			}
		}
		err = control.SetWriteDeadline(time.Now().Add(s.limits.write))
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err == nil && follow {
			if err = control.Flush(); err == nil {
				err = control.SetWriteDeadline(time.Time{}) // as [eventWriter.flush] does
			}
		}
		if err != nil {
			return nil, nil // the client sees that the end of the answer is missing
		}
	}
	if !begun {
		begin()
	}
	return nil, nil
}
