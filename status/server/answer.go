package server

import (
	"bytes"
	"cmp"
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
	"time"
	"unicode/utf8"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams/rawjson"
)

// seeDocument is the hint of requests that are not as openapi.json describes them.
const seeDocument = "see /openapi.json"

// write answers with v.
func write(w http.ResponseWriter, status int, v any) error {
	return writeAs(w, "application/json", status, v)
}

func writeAs(w http.ResponseWriter, media string, status int, v any) error {
	body, ready := v.(encoded)
	if !ready {
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

// fail answers with err, as a problem.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	problem := view.Problem(err)
	if r.Context().Err() != nil && problem.Code == api.CodeInterrupted {
		// The client has gone away, or the service has ended. An empty answer would be a success.
		panic(http.ErrAbortHandler)
	}
	if problem.Status >= http.StatusInternalServerError {
		s.log.Warn("a request failed", "method", r.Method, "path", r.URL.Path, "code", problem.Code, "err", err)
	}
	if err := writeAs(w, api.ProblemType, problem.Status, problem); err != nil {
		s.log.Error("an answer cannot be written as JSON", "err", err)
	}
}

// body decodes the body of a request: one JSON object without unknown fields, in which
// decoding changes nothing (see [rawjson.Exact]).
func body[T any](r *http.Request) (v T, err error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return v, api.Decide(api.CodeBody, seeDocument, "the body must be application/json")
	}
	data, err := io.ReadAll(r.Body)
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return v, api.Decide(api.CodeBodyTooLarge, "", "the body is larger than %d bytes", large.Limit)
	}
	if err != nil {
		return v, api.Decide(api.CodeBody, seeDocument, "the body: %v", err)
	}
	if err := exact(data); err != nil {
		return v, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&v); err == nil {
		if _, end := dec.Token(); end != io.EOF {
			err = cmp.Or(end, errors.New("there is more after the object"))
		}
	}
	if err != nil {
		return v, api.Decide(api.CodeBody, seeDocument, "the body: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return v, nil
}

// exact refuses what decoding would change without a word, such as the Latin-1 of a program
// that does not encode its texts: as the command line does, where it has the same field.
func exact(data []byte) error {
	inexact, ok := errors.AsType[*rawjson.InexactError](rawjson.Exact(data))
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

// params are the query parameters of a request. err is the last mistake in them.
type params struct {
	values url.Values
	err    error
}

// parseParams parses the query of r. Unknown parameters are mistakes, and repeated ones too, but
// for those that are known with "…" after the name.
func parseParams(r *http.Request, known ...string) *params {
	p := &params{}
	p.values, p.err = url.ParseQuery(r.URL.RawQuery)
	if p.err != nil {
		p.invalid("%v", p.err)
	}
	for name, values := range p.values {
		switch {
		case slices.Contains(known, name+"…") && !slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }):
		case !slices.Contains(known, name):
			p.invalid("unknown parameter %s; there is %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			p.invalid("%s is given twice", name)
		case !utf8.ValidString(values[0]):
			p.invalid("%s is not valid UTF-8", name)
		}
	}
	return p
}

func (p *params) invalid(format string, args ...any) {
	p.err = api.Decide(api.CodeUsage, seeDocument, "the query: %s", fmt.Sprintf(format, args...))
}

func (p *params) text(name string) string { return p.values.Get(name) }

// number returns a number that is not negative, or otherwise if it is missing.
func (p *params) number(name string, otherwise int64) int64 {
	text := p.values.Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		p.invalid("%s=%s is not a number from 0", name, text)
	}
	return n
}

// time returns a time, or the zero time if it is missing.
func (p *params) time(name string) time.Time {
	text := p.values.Get(name)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		p.invalid("%s=%s is not a time such as 2026-11-22T15:04:05Z", name, text)
	}
	return at
}

// duration returns a duration, or 0 if it is missing.
func (p *params) duration(name string) time.Duration {
	text := p.values.Get(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.invalid("%s=%s is not a duration such as 5m", name, text)
	}
	return d
}

func (p *params) flag(name string) bool {
	text := p.values.Get(name)
	if text != "" && text != "true" && text != "false" {
		p.invalid("%s=%s is neither true nor false", name, text)
	}
	return text == "true"
}

// limit returns the number of items that are wanted.
func (p *params) limit(otherwise, most int64) int {
	n := p.number("limit", otherwise)
	if n < 1 || n > most {
		p.invalid("limit=%d is not from 1 to %d", n, most)
	}
	return int(min(max(n, 1), most))
}
