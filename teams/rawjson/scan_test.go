package rawjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"teambridge/teams/errtest"
)

var must = errtest.Must

// decodeElements is Elements by a decoder, to compare the scan with.
func decodeElements(data []byte) ([]Span, error) {
	dec := newDecoder(data)
	if err := begin(dec, '['); err != nil {
		return nil, err
	}
	var spans []Span
	for dec.PeekKind() != ']' {
		s, err := value(dec)
		if err != nil {
			return nil, err
		}
		spans = append(spans, s)
	}
	if err := end(dec); err != nil {
		return nil, err
	}
	return spans, nil
}

// decodeFields is Fields by the decoder.
func decodeFields(data []byte) ([]Field, error) {
	dec := newDecoder(data)
	if err := begin(dec, '{'); err != nil {
		return nil, err
	}
	var fields []Field
	for dec.PeekKind() != '}' {
		key, err := value(dec)
		if err != nil {
			return nil, err
		}
		name, err := Text(key.Of(data))
		if err != nil {
			return nil, err
		}
		val, err := value(dec)
		if err != nil {
			return nil, err
		}
		fields = append(fields, Field{Name: name, Key: key, Value: val})
	}
	if err := end(dec); err != nil {
		return nil, err
	}
	return fields, nil
}

// begin reads the bracket with which data must begin.
func begin(dec *jsontext.Decoder, bracket jsontext.Kind) error {
	token, err := dec.ReadToken()
	if err == nil && token.Kind() != bracket {
		err = errors.New("another kind of value")
	}
	return err
}

// value reads one value and returns its range.
func value(dec *jsontext.Decoder) (Span, error) {
	v, err := dec.ReadValue()
	stop := int(dec.InputOffset())
	return Span{Start: stop - len(v), End: stop}, err
}

// end reads the closing bracket and checks that nothing follows it.
func end(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errors.New("data after the end of the value")
	}
	return nil
}

// check fails unless the scan accepts exactly the texts that the decoder accepts, with the same ranges.
func check(t *testing.T, data []byte) {
	t.Helper()
	spans, ok := scanElements(data, nil)
	want, err := decodeElements(data)
	if ok != (err == nil) {
		t.Errorf("elements of %q: scan %v, decoder %v", data, ok, err)
	}
	if ok {
		if diff := cmp.Diff(want, spans); diff != "" {
			t.Errorf("elements of %q (-decoder +scan):\n%s", data, diff)
		}
	}
	fields, ok := scanFields(data)
	wantFields, err := decodeFields(data)
	if ok != (err == nil) {
		t.Errorf("fields of %q: scan %v, decoder %v", data, ok, err)
	}
	if ok {
		for i := range fields {
			name, err := Text(fields[i].Key.Of(data))
			if err != nil {
				t.Errorf("name %q: %v", fields[i].Key.Of(data), err)
			}
			fields[i].Name = name
		}
		if diff := cmp.Diff(wantFields, fields); diff != "" {
			t.Errorf("fields of %q (-decoder +scan):\n%s", data, diff)
		}
	}
}

// pieces are values, and texts that are no values, to be used alone and inside others.
var pieces = []string{
	"", " ", "null", "true", "false", "nul", "nulll", "True", "tru", "0", "-0", "01", "-", "+1", "1.", ".5", "1.5", "1e", "1e5", "1E+5", "1e-", "1e400",
	"12345678901234567890", "--1", "1-", "0x1", "NaN", "Infinity", `""`, `"`, `"a`, `"a"b`, `"\n"`, `"\x"`, `"\u00e9"`, `"\u00g0"`, `"\u00"`, `"\ud800"`, `"\"`, `"\\"`,
	`"eight bytes and more, then \" and the end"`, `"\/"`, "\"\n\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\xc3\x28\"", "\"1234567\x00\"", "\"12345678\x00\"",
	"{}", "{ }", "{,}", `{"a"}`, `{"a":}`, `{"a":1}`, `{"a":1,}`, `{"a":1,"a":2}`, `{"a" : 1 , "b" :[ ]}`, `{a:1}`, `{1:1}`, `{"a":1 "b":2}`, `{"a"::1}`, `{"a":1]`, `{"\u0061":1,"\ud800":2}`,
	"[]", "[ ]", "[,]", "[1]", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1}", "[[]", "[]]", "[[],[[]],{}]", "[\v]", "[\f1]", "[\u00a01]", "\ufeff[]", "[]\x00", "[1]\n\n", "\t[1]", "/**/[]", "[1]//",
	`[{"a":[{"b":[{"c":"]}"}]}]}]`, "'a'",
}

// The scan accepts the same texts as the decoder, even if they are cut off or deeply nested.
func TestScan(t *testing.T) {
	t.Parallel()
	for _, p := range pieces {
		for _, form := range []string{"%s", "[%s]", "[%s,1]", "[1 ,%s ]", "[\n  %s\n]", "[[%s]]", `{"k":%s}`, `{"k": %s , "l":0}`, `{%s:1}`, `[{"k":[%s]}]`, "[%s"} {
			text := fmt.Appendf(nil, form, p)
			check(t, text)
			for cut := range text {
				check(t, text[:cut])
			}
		}
	}
	for _, depth := range []int{9999, 10000, 10001} {
		text := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		check(t, []byte(text))
		if _, err := Elements([]byte(text)); (err == nil) != (depth <= 10000) {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, p := range pieces {
		f.Add([]byte(p))
		f.Add([]byte("[" + p + "]"))
		f.Add([]byte(`{"k":` + p + "}"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		check(t, data)
		if _, err := Elements(data); err == nil && !json.Valid(data) {
			t.Errorf("%q is taken and is not JSON", data)
		}
	})
}
