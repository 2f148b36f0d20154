package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// call sends the query of an operation to the service, and returns the answer.
func call[Q, A any](ctx context.Context, c *conn, o *op.Op[Q, A], q Q) (a A, err error) {
	_, err = c.call(ctx, &o.Route, q, &a)
	forPeople(api.Errors(a)...)
	return a, err
}

// forPeople restores the command-line hints of the errors in an answer.
func forPeople(list ...*api.Error) {
	for _, e := range list {
		if e.Command != "" {
			e.Hint, e.Command = e.Command, ""
		}
	}
}

// added is call for an operation that adds something. It also reports whether the result is new.
func added[Q, A any](ctx context.Context, c *conn, o *op.Op[Q, A], q Q) (a A, added bool, err error) {
	status, err := c.call(ctx, &o.Route, q, &a)
	return a, status == http.StatusCreated, err
}

func (c *conn) call(ctx context.Context, r *op.Route, q, a any) (status int, err error) {
	path, header, body, err := request(r, q)
	if err != nil {
		return 0, err
	}
	return c.ask(ctx, r.Method, path, header, body, a)
}

// request returns the parts of a request that the fields of q make. It leaves out zero fields.
func request(r *op.Route, q any) (path string, header http.Header, body any, err error) {
	path = r.Path
	v, query := reflect.ValueOf(q), url.Values{}
	for _, f := range op.Fields(v.Type()) {
		part := v.FieldByIndex(f.Index)
		switch {
		case f.In == "path":
			path = strings.Replace(path, "{"+f.Name+"}", segment(part.String()), 1)
		case f.In == "body":
			body = part.Interface()
		case part.IsZero():
		case f.In == "header":
			header, err = idHeader(part.String())
		case !f.Given:
			query[f.Name] = texts(part, f.Not)
		case !query.Has(f.Name):
			query.Set(f.Name, "0")
		}
	}
	return withQuery(path, query), header, body, err
}

// texts encodes the values of a parameter.
func texts(v reflect.Value, not bool) []string {
	switch v := v.Interface().(type) {
	case string:
		return []string{v}
	case []string:
		return v
	case bool:
		return []string{strconv.FormatBool(v != not)}
	case int64:
		return []string{strconv.FormatInt(v, 10)}
	case int:
		return []string{strconv.Itoa(v)}
	case time.Duration:
		return []string{v.String()}
	case time.Time:
		return []string{v.UTC().Format(time.RFC3339Nano)}
	}
	return nil
}

// withQuery adds a query to a path.
func withQuery(path string, q url.Values) string {
	if text := q.Encode(); text != "" {
		path += "?" + text
	}
	return path
}

// segment escapes a name as exactly one segment of a path.
func segment(name string) string {
	switch name {
	case ".":
		return "%2E" // a "." would be cleaned from the path
	case "..":
		return "%2E%2E"
	case "":
		return "%20" // as invalid as "", but it remains a segment
	}
	return url.PathEscape(name)
}

// idHeader returns the header with the id of a message.
func idHeader(id string) (http.Header, error) {
	switch {
	case id == "":
		return nil, nil
	case !utf8.ValidString(id):
		return nil, api.Decide(api.CodeInvalid, "nothing was sent", "the id %q is not valid UTF-8", id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return nil, api.Decide(api.CodeInvalid, "nothing was sent", "the id %q contains a control character", id)
	}
	return http.Header{"Idempotency-Key": []string{`"` + id + `"`}}, nil
}

// lines yields the lines of an answer.
func (c *conn) lines(ctx context.Context, r *op.Route, q any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		path, _, _, err := request(r, q)
		if err != nil {
			yield(nil, err)
			return
		}
		res, err := c.open(ctx, http.MethodGet, path, nil, nil, api.LinesType, "lines")
		if err != nil {
			yield(nil, err)
			return
		}
		defer res.Body.Close()
		in := reader{in: bufio.NewReader(res.Body), alive: func() {}}
		for {
			line, err := in.line()
			if err == io.EOF {
				return
			}
			if err != nil {
				err = c.unreachable(ctx, true, err)
			} else if last := (api.LineError{}); bytes.HasPrefix(line, []byte(`{"error":`)) {
				if err = json.Unmarshal(line, &last); err == nil {
					forPeople(&last.Error)
					err = api.Decide(last.Error.Code, last.Error.Hint, "%s", last.Error.Message)
				}
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(bytes.Clone(line), nil) {
				return
			}
		}
	}
}
