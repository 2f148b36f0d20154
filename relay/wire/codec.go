package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"teambridge/teams/rawjson"
)

// codec reads or writes one value of a JSON text. One function does both, so that the fields and rules of a type are
// listed once, and reading accepts what writing produces.
type codec[T any] func(v value, p *T)

// document is a JSON text that is being read or written.
type document struct {
	reading bool
	out     []byte // the written text
	issues  []Issue
}

// value is a place in a document.
type value struct {
	*document
	parent *value // nil for the whole text
	key    string // its key in parent
	raw    []byte // when reading, its JSON; nil if it is missing
}

// object is a value with fields.
type object struct {
	value
	members []member // when reading, in the order of the text
	known   []string // the keys that a field has read or written
}

type member struct {
	key string
	raw []byte
}

// record is a struct type. fields reads or writes each field in turn.
type record interface{ fields(o *object) }

// Object is a JSON object with any keys. Its values are any JSON.
type Object map[string]json.RawMessage

// parse reads a text that contains one JSON value.
func parse[T any](data []byte, c codec[T]) (T, error) {
	var whole json.RawMessage
	var p T
	d := &document{reading: true}
	v := value{document: d}
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			err = fmt.Errorf("%w at byte %d", err, syntax.Offset)
		}
		v.fail("must be JSON: " + err.Error())
	} else if !utf8.Valid(data) {
		v.fail("must be UTF-8")
	} else {
		v.raw = whole
		c(v, &p)
	}
	if d.issues != nil {
		var zero T
		return zero, &Error{d.issues}
	}
	return p, nil
}

// format returns *p as JSON, on one line.
func format[T any](p *T, c codec[T]) ([]byte, error) {
	d := &document{}
	c(value{document: d}, p)
	if d.issues != nil {
		return nil, &Error{d.issues}
	}
	return d.out, nil
}

func (v value) path() string {
	if v.parent == nil || v.parent.parent == nil {
		return v.key
	}
	return v.parent.path() + "." + v.key
}

func (v value) fail(rule string) {
	if len(v.issues) < maxIssues {
		v.issues = append(v.issues, Issue{v.path(), rule})
	}
}

// is reports whether the value's JSON begins with one of chars, and so is of the kind noun. If not, it adds an issue.
func (v value) is(chars, noun string) bool {
	if strings.IndexByte(chars, v.raw[0]) >= 0 {
		return true
	}
	v.fail("must be " + noun + ", not " + rawjson.Noun(v.raw))
	return false
}

// member returns the value of a key. When reading, its raw is nil if the key is
// missing. When writing, the value must follow.
func (o *object) member(key string) value {
	o.known = append(o.known, key)
	v := value{document: o.document, parent: &o.value, key: key}
	if o.reading {
		for _, m := range slices.Backward(o.members) {
			if m.key == key {
				v.raw = m.raw
				break
			}
		}
		return v
	}
	if len(o.known) > 1 {
		o.out = append(o.out, ',')
	}
	o.out = append(appendQuoted(o.out, key), ':')
	return v
}

func (o *object) fail(key, rule string) {
	value{document: o.document, parent: &o.value, key: key}.fail(rule)
}

func (v value) object(fields func(*object)) {
	if !v.reading {
		v.out = append(v.out, '{')
		fields(&object{value: v})
		v.out = append(v.out, '}')
	} else if v.is("{", "an object") {
		fields(&object{value: v, members: members(v.raw)})
	}
}

// members returns the members of an object, which must be valid JSON.
func members(raw []byte) []member {
	fields, _ := rawjson.Fields(raw) // it is valid
	list := make([]member, len(fields))
	for i, f := range fields {
		// Not f.Name, which replaces lone surrogates.
		list[i] = member{unquote(f.Key.Of(raw)), f.Value.Of(raw)}
	}
	return list
}

// elements returns the elements of an array, which must be valid JSON.
func elements(raw []byte) [][]byte {
	spans, _ := rawjson.Elements(raw) // it is valid
	list := make([][]byte, len(spans))
	for i, s := range spans {
		list[i] = s.Of(raw)
	}
	return list
}

// Ways in which an object holds a field.

func required[T any](o *object, key string, p *T, c codec[T]) {
	if v := o.member(key); o.reading && v.raw == nil {
		v.fail("is missing")
	} else {
		c(v, p)
	}
}

func optional[T any](o *object, key string, p **T, c codec[T]) {
	if o.reading {
		v := o.member(key)
		if v.raw == nil {
			return
		}
		*p = new(T)
		c(v, *p)
	} else if *p != nil {
		c(o.member(key), *p)
	}
}

// lenient is a field that the protocol does not have. Reading leaves it empty if it is absent or not an allowed
// value.
func lenient[T ~string](o *object, key string, p *T, allowed []T) {
	switch {
	case o.reading:
		if v := o.member(key); v.raw != nil && v.raw[0] == '"' && slices.Contains(allowed, T(unquote(v.raw))) {
			*p = T(unquote(v.raw))
		}
	case *p != "":
		required(o, key, p, oneOf(allowed...))
	}
}

// nullish is a field that may be absent or null.
func nullish[T any](o *object, key string, p *Nullable[T], c codec[T]) {
	if o.reading {
		v := o.member(key)
		if v.raw == nil {
			return
		}
		p.present = true
		nullable(c)(v, &p.value)
	} else if p.present {
		nullable(c)(o.member(key), &p.value)
	}
}

func nested(o *object, key string, fields func(*object)) {
	required(o, key, &fields, func(v value, fields *func(*object)) { v.object(*fields) })
}

func literal(o *object, key, want string) { required(o, key, &want, oneOf(want)) }

// rest is an object's members that no other field has read or written. It comes last.
func rest(o *object, p *Object) {
	known := o.known
	if !o.reading {
		for _, key := range slices.Sorted(maps.Keys(*p)) {
			if slices.Contains(known, key) {
				o.fail(key, "must not be among the other keys")
				continue
			}
			raw := (*p)[key]
			anything(o.member(key), &raw)
		}
		return
	}
	for _, m := range o.members {
		if !slices.Contains(known, m.key) {
			if *p == nil {
				*p = Object{}
			}
			(*p)[m.key] = m.raw
		}
	}
}

// Kinds of values.

func text[T ~string](v value, p *T) {
	if !v.reading {
		v.out = appendQuoted(v.out, string(*p))
	} else if v.is(`"`, "a string") {
		*p = T(unquote(v.raw))
	}
}

func boolean(v value, p *bool) {
	if !v.reading {
		v.out = strconv.AppendBool(v.out, *p)
	} else if v.is("tf", "a boolean") {
		*p = v.raw[0] == 't'
	}
}

func number(v value, p *float64) {
	if v.reading {
		if !v.is("-0123456789", "a number") {
			return
		}
		*p, _ = strconv.ParseFloat(string(v.raw), 64) // ±Inf if it is out of range
	}
	if math.IsInf(*p, 0) || math.IsNaN(*p) {
		v.fail("must be a finite number")
	} else if !v.reading {
		b, _ := json.Marshal(*p)
		v.out = append(v.out, b...)
	}
}

func integer(v value, p *int64) {
	const limit = 1<<53 - 1 // float64 tells all integers up to this one apart
	f := float64(*p)
	whole := func(f float64) bool { return f == math.Trunc(f) && math.Abs(f) <= limit }
	check(number, whole, "must be an integer within ±(2^53-1)")(v, &f)
	*p = int64(f)
}

func texts(v value, p *[]string) {
	if !v.reading {
		v.out = append(v.out, '[')
		for i := range *p {
			if i > 0 {
				v.out = append(v.out, ',')
			}
			v.out = appendQuoted(v.out, (*p)[i])
		}
		v.out = append(v.out, ']')
		return
	}
	if !v.is("[", "an array") {
		return
	}
	list := elements(v.raw)
	*p = make([]string, len(list))
	for i, raw := range list {
		text(value{document: v.document, parent: &v, key: strconv.Itoa(i), raw: raw}, &(*p)[i])
	}
}

// anything is any JSON. It is written on one line.
func anything(v value, p *json.RawMessage) {
	if v.reading {
		*p = v.raw
		return
	}
	b := bytes.NewBuffer(v.out)
	if err := json.Compact(b, *p); err != nil || !utf8.Valid(*p) {
		v.fail("must be JSON in UTF-8")
		return
	}
	v.out = b.Bytes()
}

// open is an object with any keys.
func open(v value, p *Object) {
	v.object(func(o *object) {
		if o.reading {
			*p = Object{}
		}
		rest(o, p)
	})
}

func structure[T any, P interface {
	*T
	record
}](v value, p *T) {
	v.object(P(p).fields)
}

func nullable[T any](c codec[T]) codec[*T] {
	return func(v value, p **T) {
		switch {
		case v.reading && v.raw[0] == 'n':
			*p = nil
		case v.reading:
			*p = new(T)
			c(v, *p)
		case *p == nil:
			v.out = append(v.out, "null"...)
		default:
			c(v, *p)
		}
	}
}

func oneOf[T ~string](allowed ...T) codec[T] {
	return func(v value, p *T) {
		before := len(v.issues)
		text(v, p)
		if len(v.issues) > before || slices.Contains(allowed, *p) {
			return
		}
		quoted := make([]string, len(allowed))
		for i, s := range allowed {
			quoted[i] = strconv.Quote(string(s))
		}
		v.fail("must be " + strings.Join(quoted, " or "))
	}
}

// check adds a rule to a codec.
func check[T any](c codec[T], ok func(T) bool, rule string) codec[T] {
	return func(v value, p *T) {
		before := len(v.issues)
		c(v, p)
		if len(v.issues) == before && !ok(*p) {
			v.fail(rule)
		}
	}
}

type variant[T record] struct {
	name string
	new  func() T
}

// union is an object whose type is the text at key.
func union[T record](key string, variants []variant[T]) codec[T] {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.name
	}
	discriminator := oneOf(names...)
	return func(v value, p *T) {
		if !v.reading && record(*p) == nil {
			v.fail("is missing")
			return
		}
		v.object(func(o *object) {
			if o.reading {
				var name string
				required(o, key, &name, discriminator)
				i := slices.Index(names, name)
				if i < 0 {
					return
				}
				*p = variants[i].new()
			}
			(*p).fields(o)
		})
	}
}
