package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func texts(data []byte, spans []Span) []string {
	out := make([]string, 0, len(spans))
	for _, s := range spans {
		out = append(out, string(s.Of(data)))
	}
	return out
}

func TestElementsKeepsEveryByte(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"empty":               {"[]", []string{}},
		"white space":         {" \r\n[ \t]\n", []string{}},
		"numbers as spelled":  {`[1e3, 1.0,-0 ,12345678901234567890]`, []string{"1e3", "1.0", "-0", "12345678901234567890"}},
		"duplicate keys":      {`[{"a":1,"a":2}]`, []string{`{"a":1,"a":2}`}},
		"lone surrogate":      {`["\ud800"]`, []string{`"\ud800"`}},
		"not UTF-8":           {"[\"\xff\"]", []string{"\"\xff\""}},
		"html characters":     {`["<>&"]`, []string{`"<>&"`}},
		"kinds":               {`[null,true,false,"s",[],{}]`, []string{"null", "true", "false", `"s"`, "[]", "{}"}},
		"layout inside a row": {"[{\n \"a\" : 1 }\n]", []string{"{\n \"a\" : 1 }"}},
	} {
		got, err := Elements([]byte(tc.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(tc.want, texts([]byte(tc.in), got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Each kind of text that is no array has an error of its own; none counts as empty.
func TestElementsRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in     string
		offset int64
		reason string
	}{
		{"", 0, "no JSON value"},
		{" \n", 2, "no JSON value"},
		{"{}", 0, "an object where an array is expected"},
		{"null", 0, "null where an array is expected"},
		{`"x"`, 0, "a string where an array is expected"},
		{"12", 0, "a number where an array is expected"},
		{"\ufeff[]", 0, ""},
		{"[] []", 3, "data after the end of the value"},
		{"[]x", 2, "data after the end of the value"},
		{"[1,]", 2, ""},
		{"[,1]", 1, ""},
		{"[1,,2]", 3, ""},
		{"[1 2]", 3, ""},
		{"[1", 2, "cut-off JSON value"},
		{`[{"a":"b`, 8, "cut-off JSON value"},
		{"[01]", 2, ""},
		{"[\"\x01\"]", 2, ""},
		{strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), 10_000, "exceeded max depth"},
	} {
		_, err := Elements([]byte(tc.in))
		var syn *SyntaxError
		if !errors.As(err, &syn) {
			t.Errorf("%.20q: got %v, want a SyntaxError", tc.in, err)
			continue
		}
		if syn.Offset != tc.offset || tc.reason != "" && syn.Reason != tc.reason {
			t.Errorf("%.20q: got offset %d %q, want %d %q", tc.in, syn.Offset, syn.Reason, tc.offset, tc.reason)
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	in := []byte(` {"a":1 , "b\u0020c" : [2], "a": null}`)
	got, err := Fields(in)
	must(t, err)
	var pairs []string
	for _, f := range got {
		pairs = append(pairs, f.Name+"="+string(f.Value.Of(in)))
	}
	if diff := cmp.Diff([]string{"a=1", "b c=[2]", "a=null"}, pairs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "[]", "{", `{"a"}`, `{"a":1,}`, `{} x`} {
		if _, err := Fields([]byte(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// Text decodes a string as encoding/json does, with U+FFFD for each invalid character.
func TestText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"a"`:                 "a",
		` "a\n\"b\\" `:        "a\n\"b\\",
		`"\ud83d\udc4d"`:      "👍",
		`"lone \ud800 end"`:   "lone \ufffd end",
		`"\udc4d\ud83d"`:      "\ufffd\ufffd",
		"\"\xff\"":            "\ufffd",
		`""`:                  "",
		"\"\u2028 Готово 👍\"": "\u2028 Готово 👍",
	} {
		got, err := Text([]byte(in))
		if err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "1", "null", `"`, `"a`, `"a"b"`, "[]", `"\x"`} {
		if got, err := Text([]byte(bad)); err == nil {
			t.Errorf("%s: got %q, want an error", bad, got)
		}
	}
}

func TestAppendFollowsTheStyleOfTheFile(t *testing.T) {
	t.Parallel()
	elem := `{"a":1,"b":[]}`
	for name, tc := range map[string]struct{ in, outer, want string }{
		"empty":        {"[]", "", "[\n  {\n    \"a\": 1,\n    \"b\": []\n  }\n]"},
		"empty nested": {"[ ]", "  ", "[\n    {\n      \"a\": 1,\n      \"b\": []\n    }\n  ]"},
		"two spaces":   {"[\n  1\n]", "", "[\n  1,\n  {\n    \"a\": 1,\n    \"b\": []\n  }\n]"},
		"tabs":         {"[\n\t1\n]\n", "", "[\n\t1,\n\t{\n\t\t\"a\": 1,\n\t\t\"b\": []\n\t}\n]\n"},
		"CRLF":         {"[\r\n  1\r\n]", "", "[\r\n  1,\r\n  {\r\n    \"a\": 1,\r\n    \"b\": []\r\n  }\r\n]"},
		"minified":     {"[1]", "", `[1,{"a":1,"b":[]}]`},
		"one line":     {"[1, 2]", "", `[1, 2, {"a":1,"b":[]}]`},
	} {
		got, err := Append([]byte(tc.in), []byte(elem), tc.outer)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, tc.want)
		}
	}
	if _, err := Append([]byte("[]"), []byte("{"), ""); err == nil {
		t.Error("appending a cut-off element: no error")
	}
}

// Removing an element also removes its comma and its line, and keeps the layout of the others.
func TestRemove(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		i    int
		want string
	}{
		{"[1, 2, 3]", 0, "[2, 3]"},
		{"[1, 2, 3]", 1, "[1, 3]"},
		{"[1, 2, 3]", 2, "[1, 2]"},
		{"[\n  1\n]", 0, "[]"},
		{"[\n  1,\n  2\n]", 1, "[\n  1\n]"},
		{"[\n  1,\n  2\n]", 0, "[\n  2\n]"},
	} {
		got, err := Remove([]byte(tc.in), tc.i)
		if err != nil || string(got) != tc.want {
			t.Errorf("%q without %d: got %q, %v; want %q", tc.in, tc.i, got, err, tc.want)
		}
	}
	for _, i := range []int{-1, 1} {
		if _, err := Remove([]byte("[1]"), i); err == nil {
			t.Errorf("element %d of one: no error", i)
		}
	}
}

// All bytes before the closing bracket stay, the old elements keep their bytes, the new one keeps its meaning, and
// removing it restores the file. This is the promise of the package.
func FuzzAppendRemove(f *testing.F) {
	for _, s := range []string{
		"[]", "[ ]", "[1]", "[\n  {\"a\":1,\"a\":2}\n]", "[\r\n\t\"\\ud800\",\r\n\t1e400\r\n]\r\n",
		"[\"<>&\"]", "[[],{},null]", "[1 ,2\t]", " [\n\n  1\n]", "[1,\n2]", "{}", "[1,]", "[\"\xff\"]",
	} {
		f.Add([]byte(s), "text\n\"<&>\u2028")
	}
	f.Fuzz(func(t *testing.T, array []byte, text string) {
		elem, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Skip("not encodable")
		}
		before, err := Elements(array)
		if err != nil {
			if _, err := Append(array, elem, ""); err == nil {
				t.Fatalf("appended to what is no array: %q", array)
			}
			return
		}
		old := bytes.Clone(array)
		got, err := Append(array, elem, "")
		if err != nil {
			t.Fatalf("append to %q: %v", array, err)
		}
		if !bytes.Equal(array, old) {
			t.Fatal("Append changed its argument")
		}
		after, err := Elements(got)
		if err != nil {
			t.Fatalf("result is no array: %q: %v", got, err)
		}
		if diff := cmp.Diff(texts(array, before), texts(got, after[:len(after)-1])); diff != "" || len(after) != len(before)+1 {
			t.Fatalf("old elements changed (-want +got):\n%s", diff)
		}
		if n := len(before); n > 0 && !bytes.HasPrefix(got, array[:before[n-1].End]) {
			t.Fatalf("prefix changed: %q became %q", array, got)
		}
		var m, want map[string]string
		if json.Unmarshal(elem, &want) != nil || json.Unmarshal(after[len(after)-1].Of(got), &m) != nil || m["text"] != want["text"] {
			t.Fatalf("new element reads %q, want %q", m, want)
		}
		back, err := Remove(got, len(before))
		must(t, err)
		if len(before) > 0 && !bytes.Equal(back, array) {
			t.Fatalf("removed again: %q, want %q", back, array)
		}
	})
}

// Append does not write behind the slice that it gets; AppendTo uses that memory.
func TestAppendAndMemory(t *testing.T) {
	t.Parallel()
	memory := []byte("[\n  1\n]behind, and more behind that")
	array := memory[:len("[\n  1\n]")]
	before := string(memory)
	got, err := Append(array, []byte("2"), "")
	if err != nil || string(got) != "[\n  1,\n  2\n]" || string(memory) != before {
		t.Errorf("got %q, %v; memory %q", got, err, memory)
	}
	spans, err := Elements(array)
	must(t, err)
	got, err = AppendTo(array, spans, []byte("2"), "")
	if err != nil || string(got) != "[\n  1,\n  2\n]" || &got[0] != &memory[0] {
		t.Errorf("got %q, %v; a copy: %v", got, err, &got[0] != &memory[0])
	}
}
