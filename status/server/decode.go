package server

import (
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// A decoder decodes requests into the query type of an operation.
type decoder struct {
	typ    reflect.Type
	fields []op.Field
	known  []string // its query parameters; those that may be repeated have "…" after the name
}

func newDecoder(typ reflect.Type) *decoder {
	d := &decoder{typ: typ, fields: op.Fields(typ)}
	for _, f := range d.fields {
		name := f.Name
		if f.Type.Kind() == reflect.Slice {
			name += "…"
		}
		if f.In == "query" && !slices.Contains(d.known, name) {
			d.known = append(d.known, name)
		}
	}
	return d
}

// body reports whether the request has a body.
func (d *decoder) body() bool {
	return slices.ContainsFunc(d.fields, func(f op.Field) bool { return f.In == "body" })
}

// decode returns a pointer to a new value of d.typ, decoded from r.
func (d *decoder) decode(r *http.Request) (any, error) {
	q := reflect.New(d.typ)
	params, err := d.query(r)
	if err != nil {
		return nil, err
	}
	key := reflect.Value{}
	for _, f := range d.fields {
		v := q.Elem().FieldByIndex(f.Index)
		switch f.In {
		case "path":
			v.SetString(r.PathValue(f.Name))
		case "query":
			err = parse(v, f, params)
		case "body":
			err = body(r, v.Addr().Interface())
		case "header":
			if f.Name == "Idempotency-Key" {
				key = v // after the body
				continue
			}
			v.SetString(r.Header.Get(f.Name))
		}
		if err != nil {
			return nil, err
		}
	}
	if key.IsValid() {
		id, err := idempotencyKey(r)
		if err != nil {
			return nil, err
		}
		key.SetString(id)
	}
	return q.Interface(), nil
}

// query returns the query parameters of r. It refuses unknown parameters, and repeated ones that may not be repeated.
func (d *decoder) query(r *http.Request) (url.Values, error) {
	params, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("%v", err)
	}
	for name, values := range params {
		many := slices.Contains(d.known, name+"…")
		switch {
		case !many && !slices.Contains(d.known, name) && len(d.known) == 0:
			return nil, invalid("unknown parameter %s; there is none", name)
		case !many && !slices.Contains(d.known, name):
			return nil, invalid("unknown parameter %s; the parameters are %s", name, strings.Join(d.known, ", "))
		case !many && len(values) > 1:
			return nil, invalid("%s is given twice", name)
		case slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }):
			return nil, invalid("%s is not valid UTF-8", name)
		}
	}
	return params, nil
}

// parse sets v to the value of a parameter, or to its default.
func parse(v reflect.Value, f op.Field, params url.Values) error {
	text := params.Get(f.Name)
	switch at := v.Addr().Interface().(type) {
	case *string:
		*at = text
	case *[]string:
		*at = params[f.Name]
	case *bool:
		switch {
		case f.Given:
			*at = text != ""
		case text != "" && text != "true" && text != "false":
			return invalid("%s=%s is neither true nor false", f.Name, text)
		default:
			*at = text == "true" && !f.Not || text == "false" && f.Not
		}
	case *time.Time:
		if text == "" {
			return nil
		}
		var err error
		if *at, err = time.Parse(time.RFC3339, text); err != nil {
			return invalid("%s=%s is not a time such as 2026-11-22T15:04:05Z", f.Name, text)
		}
	case *time.Duration:
		if text == "" {
			return nil
		}
		var err error
		if *at, err = time.ParseDuration(text); err != nil || *at < 0 {
			return invalid("%s=%s is not a duration such as 5m", f.Name, text)
		}
	case *int, *int64:
		if text == "" {
			text = f.Tag.Get("default")
		}
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || v.OverflowInt(n) {
			return invalid("%s=%s is not a number from 0", f.Name, text)
		}
		if least, most := f.Tag.Get("min"), f.Tag.Get("max"); most != "" {
			if from, to := bound(least), bound(most); n < from || n > to {
				return invalid("%s=%d is not from %d to %d", f.Name, n, from, to)
			}
		}
		v.SetInt(n)
	}
	return nil
}

// bound parses the number in a tag.
func bound(tag string) int64 {
	n, _ := strconv.ParseInt(tag, 10, 64)
	return n
}

func invalid(format string, args ...any) error {
	return api.Decide(api.CodeUsage, seeDocument, "the query: "+format, args...)
}
