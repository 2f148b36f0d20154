package rawjson

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The scan takes all that is JSON and nothing else: what it takes is what the
// decoder takes, with the same ranges.
func check(t *testing.T, data []byte) {
	t.Helper()
	spans, ok := scanElements(data, nil)
	want, err := decodeElements(data)
	deep := strings.Count(string(data), "[")+strings.Count(string(data), "{") > maxScan
	if ok != (err == nil) && !(deep && !ok) {
		t.Errorf("elements of %q: scan %v, decoder %v", data, ok, err)
	}
	if ok {
		if diff := cmp.Diff(want, spans); diff != "" {
			t.Errorf("elements of %q (-decoder +scan):\n%s", data, diff)
		}
	}
	fields, ok := scanFields(data)
	wantFields, err := decodeFields(data)
	if ok != (err == nil) && !(deep && !ok) {
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

// pieces are values, and texts that are none, whole and inside others.
var pieces = []string{
	"", " ", "null", "true", "false", "nul", "nulll", "True", "tru", "0", "-0", "01", "-", "+1", "1.", ".5", "1.5", "1e", "1e5", "1E+5", "1e-", "1e400",
	"12345678901234567890", "--1", "1-", "0x1", "NaN", "Infinity", `""`, `"`, `"a`, `"a"b`, `"\n"`, `"\x"`, `"\u00e9"`, `"\u00g0"`, `"\u00"`, `"\ud800"`, `"\"`, `"\\"`,
	`"eight bytes and more, then \" and the end"`, `"\/"`, "\"\n\"", "\"\x1f\"", "\"\x7f\"", "\"\xff\"", "\"\xc3\x28\"", "\"1234567\x00\"", "\"12345678\x00\"",
	"{}", "{ }", "{,}", `{"a"}`, `{"a":}`, `{"a":1}`, `{"a":1,}`, `{"a":1,"a":2}`, `{"a" : 1 , "b" :[ ]}`, `{a:1}`, `{1:1}`, `{"a":1 "b":2}`, `{"a"::1}`, `{"a":1]`, `{"\u0061":1,"\ud800":2}`,
	"[]", "[ ]", "[,]", "[1]", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1}", "[[]", "[]]", "[[],[[]],{}]", "[\v]", "[\f1]", "[\u00a01]", "\ufeff[]", "[]\x00", "[1]\n\n", "\t[1]", "/**/[]", "[1]//",
	`[{"a":[{"b":[{"c":"]}"}]}]}]`, "'a'",
}

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
	for _, depth := range []int{maxScan - 1, maxScan, maxScan + 1, 9999, 10000, 10001} {
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

func BenchmarkElements(b *testing.B) {
	row := `{"from":"team-lead","text":"` + strings.Repeat("word ", 25) + `","timestamp":"2026-11-20T12:00:00.000Z","color":"blue","msgV":1,"type":"message","read":true}`
	var rows strings.Builder
	for i := range 10000 {
		if i > 0 {
			rows.WriteByte(',')
		}
		rows.WriteString(row)
	}
	data, err := indented([]byte("["+rows.String()+"]"), "\n", "")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if spans, err := Elements(data); err != nil || len(spans) != 10000 {
			b.Fatal(len(spans), err)
		}
	}
}
