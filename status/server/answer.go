package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/rawjson"
)

// seeDocument is the hint for requests that do not match openapi.json.
const seeDocument = "see /openapi.json"

// write answers with v as JSON.
func write(w http.ResponseWriter, status int, v any) error {
	return writeAs(w, "application/json", status, v)
}

func writeAs(w http.ResponseWriter, media string, status int, v any) error {
	body, ready := v.(encoded)
	if !ready {
		forPrograms(v)
		var err error
		if body, err = json.Marshal(v); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails if the client has gone away
	_, _ = w.Write([]byte{'\n'})
	return nil
}

// forPrograms has the errors in an answer name operations in place of commands.
func forPrograms(answer any) {
	for _, e := range api.Errors(answer) {
		if hint := view.Operations(e.Hint); hint != e.Hint {
			e.Hint, e.Command = hint, e.Hint
		}
	}
}

// fail answers with err as a problem.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem := view.Problem(err)
	if r.Context().Err() != nil && problem.Code == api.CodeInterrupted {
		// The client has gone away, or the service has ended. An empty answer would look like success.
		panic(http.ErrAbortHandler)
	}
	if problem.Status >= http.StatusInternalServerError {
		s.log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "code", problem.Code, "err", err)
	}
	if hint := view.Operations(problem.Hint); hint != problem.Hint {
		problem.Hint, problem.Command = hint, problem.Hint
	}
	if err := writeAs(w, api.ProblemType, problem.Status, problem); err != nil {
		s.log.Error("an answer cannot be written as JSON", "err", err)
	}
}

// body decodes the body of a request into v: one JSON object without unknown fields and without values that
// decoding would change (see [rawjson.ExactFold]).
func body(r *http.Request, v any) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return api.Decide(api.CodeBody, seeDocument, "the body must be application/json")
	}
	data, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return api.Decide(api.CodeBodyTooLarge, "", "the body is larger than %d bytes", large.Limit)
	}
	if err != nil {
		return api.Decide(api.CodeBody, seeDocument, "the body: %v", err)
	}
	if err := exact(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err = dec.Decode(v); err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = cmp.Or(end, errors.New("there is more after the object"))
		}
	}
	if err != nil {
		return api.Decide(api.CodeBody, seeDocument, "the body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// exact refuses JSON that decoding would change silently, such as text in Latin-1. Its errors are the same as on the command
// line for the same field.
func exact(data []byte) error {
	inexact, ok := errors.AsType[*rawjson.InexactError](rawjson.ExactFold(data))
	switch {
	case !ok:
		return nil
	case inexact.Repeated:
		return api.Decide(api.CodeBody, seeDocument, "the body: %v", inexact)
	case inexact.Path == "text", inexact.Path == "summary":
		return &inbox.InvalidError{Field: inexact.Path, Reason: inexact.Reason}
	case inexact.Path == "from":
		return &inbox.InvalidError{Field: "sender", Reason: inexact.Reason}
	}
	return api.Decide(api.CodeInvalid, "nothing was done", "the body: %s", inexact)
}
