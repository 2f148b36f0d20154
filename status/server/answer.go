package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"teambridge/status/api"
	"teambridge/status/view"
)

// write answers with v.
func write(w http.ResponseWriter, status int, v any) error {
	return writeAs(w, "application/json", status, v)
}

func writeAs(w http.ResponseWriter, media string, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // who does not read the answer cannot be told
	return nil
}

// fail answers with what went wrong.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem := view.Problem(err)
	if r.Context().Err() != nil && problem.Code == api.CodeInterrupted {
		return // the client went away, or the service is gone
	}
	if problem.Status >= http.StatusInternalServerError {
		s.log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "code", problem.Code, "err", err)
	}
	if err := writeAs(w, api.ProblemType, problem.Status, problem); err != nil {
		s.log.Error("an answer cannot be written as JSON", "err", err)
	}
}

// body reads the body of a request into v, strictly: it has to be one JSON object
// with fields that are known.
func body(r *http.Request, v any) error {
	bad := func(format string, args ...any) error {
		return api.Decide(api.CodeBody, "see what is taken at /openapi.json", format, args...)
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return bad("the body has to be application/json")
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	err := dec.Decode(v)
	if err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = cmpErr(end, errors.New("something stands behind it"))
		}
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return api.Decide(api.CodeBodyTooLarge, "", "the body is larger than %d bytes", large.Limit)
	}
	if err != nil {
		return bad("the body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// cmpErr is err, unless that is nil.
func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// question reads the query of a request, strictly.
type question struct {
	values url.Values
	err    error
}

// asked returns the query of r, which may have the fields that are known.
func asked(r *http.Request, known ...string) *question {
	q := &question{}
	q.values, q.err = url.ParseQuery(r.URL.RawQuery)
	if q.err != nil {
		q.bad("it cannot be read: %v", q.err)
	}
	for name, values := range q.values {
		switch {
		case !slices.Contains(known, name):
			q.bad("%s is not known; there is %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			q.bad("%s stands there twice", name)
		}
	}
	return q
}

func (q *question) bad(format string, args ...any) {
	q.err = api.Decide(api.CodeUsage, "see what is taken at /openapi.json", "the query: %s", fmt.Sprintf(format, args...))
}

func (q *question) text(name string) string { return q.values.Get(name) }

// number returns a number that is not negative; otherwise if it is not there.
func (q *question) number(name string, otherwise int64) int64 {
	text := q.values.Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		q.bad("%s=%s is no number", name, text)
	}
	return n
}

func (q *question) flag(name string) bool {
	switch text := q.values.Get(name); text {
	case "", "false":
		return false
	case "true":
		return true
	default:
		q.bad("%s=%s is neither true nor false", name, text)
		return false
	}
}

// limit returns how many are wanted.
func (q *question) limit(otherwise, most int64) int {
	n := q.number("limit", otherwise)
	if n < 1 || n > most {
		q.bad("limit=%d: from 1 to %d", n, most)
	}
	return int(min(max(n, 1), most))
}
