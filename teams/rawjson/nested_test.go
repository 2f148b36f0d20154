package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// atPath returns the range of the value at a path of member names.
func atPath(t testing.TB, data []byte, path ...string) Span {
	t.Helper()
	in := Span{len(data) - len(bytes.TrimLeft(data, space)), len(bytes.TrimRight(data, space))}
	for _, name := range path {
		fields, err := Fields(in.Of(data))
		if err != nil {
			t.Fatalf("%s in %q: %v", path, data, err)
		}
		for _, f := range fields {
			if f.Name == name {
				in = f.Value.Within(in)
			}
		}
	}
	return in
}

// An added item has the layout of the items there, and is removed without a trace.
func TestAddToNestedValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in, path, blank, want string
	}{
		"empty file":             {"{}", "", "", `{"new":{"a":[1]}}`},
		"empty, with lines":      {"{}\n", "", "", "{\n  \"new\": {\n    \"a\": [\n      1\n    ]\n  }\n}\n"},
		"white space":            {"{ \t}\n", "", " \t", "{\n  \"new\": {\n    \"a\": [\n      1\n    ]\n  }\n}\n"},
		"tabs":                   {"{\n\t\"x\":\t1\n}\n", "", "", "{\n\t\"x\":\t1,\n\t\"new\":\t{\n\t\t\"a\": [\n\t\t\t1\n\t\t]\n\t}\n}\n"},
		"CRLF":                   {"{\r\n  \"x\": 1\r\n}", "", "", "{\r\n  \"x\": 1,\r\n  \"new\": {\r\n    \"a\": [\r\n      1\r\n    ]\r\n  }\r\n}"},
		"empty CRLF":             {"{\r\n  \"x\": {}\r\n}", "x", "", "{\r\n  \"x\": {\r\n    \"new\": {\r\n      \"a\": [\r\n        1\r\n      ]\r\n    }\r\n  }\r\n}"},
		"one line":               {`{"x":1, "y" : 2}`, "", "", `{"x":1, "y" : 2, "new" : {"a":[1]}}`},
		"nested":                 {"{\n  \"x\": {\n    \"y\": {}\n  }\n}", "x.y", "", "{\n  \"x\": {\n    \"y\": {\n      \"new\": {\n        \"a\": [\n          1\n        ]\n      }\n    }\n  }\n}"},
		"array":                  {"{\n  \"x\": [ ]\n}", "x", " ", "{\n  \"x\": [\n    {\n      \"a\": [\n        1\n      ]\n    }\n  ]\n}"},
		"array of one line":      {"{\n  \"x\": [1, 2]\n}", "x", "", "{\n  \"x\": [1, 2, {\"a\":[1]}]\n}"},
		"array of several":       {"{\n  \"x\": [\n    1\n  ]\n}", "x", "", "{\n  \"x\": [\n    1,\n    {\n      \"a\": [\n        1\n      ]\n    }\n  ]\n}"},
		"what is not re-encoded": {`{"x":1e2,"x":"\ud800<>"}`, "", "", `{"x":1e2,"x":"\ud800<>","new":{"a":[1]}}`},
	} {
		var path []string
		if tc.path != "" {
			path = strings.Split(tc.path, ".")
		}
		data := []byte(tc.in)
		in := atPath(t, data, path...)
		got, err := addAny(data, in)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %q, %v; want %q", name, got, err, tc.want)
			continue
		}
		in = atPath(t, got, path...)
		list, err := items(got, in)
		must(t, err)
		if back, err := RemoveItem(got, in, len(list)-1, tc.blank); err != nil || string(back) != tc.in {
			t.Errorf("%s: removed again: %q, %v; want %q", name, back, err, tc.in)
		}
	}
}

// addAny adds {"a":[1]} to the array or object in this range.
func addAny(data []byte, in Span) ([]byte, error) {
	if Kind(in.Of(data)) == '{' {
		return AddField(data, in, "new", []byte(`{"a":[1]}`))
	}
	return AddElement(data, in, []byte(`{"a":[1]}`))
}

func TestRemoveItem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   string
		i    int
		want string
	}{
		{`{"a":1, "b":2, "c":3}`, 0, `{"b":2, "c":3}`},
		{`{"a":1, "b":2, "c":3}`, 1, `{"a":1, "c":3}`},
		{`{"a":1, "b":2, "c":3}`, 2, `{"a":1, "b":2}`},
		{`{ "a": 1 }`, 0, `{}`},
		{`[ 1 ]`, 0, `[]`},
	} {
		if got, err := RemoveItem([]byte(tc.in), Span{0, len(tc.in)}, tc.i, ""); err != nil || string(got) != tc.want {
			t.Errorf("%s without %d: got %q, %v; want %q", tc.in, tc.i, got, err, tc.want)
		}
		for _, i := range []int{-1, 3} {
			if got, err := RemoveItem([]byte(tc.in), Span{0, len(tc.in)}, i, ""); err == nil {
				t.Errorf("%s without %d: got %q, want an error", tc.in, i, got)
			}
		}
	}
	for _, bad := range []string{"1", `"x"`, "", "{", "[1"} {
		if got, err := RemoveItem([]byte(bad), Span{0, len(bad)}, 0, ""); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
		if got, err := addAny([]byte(bad), Span{0, len(bad)}); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
}

// Adding to any array or object of a text keeps the bytes that were there, the new item keeps its meaning, and
// removing it restores the text.
func FuzzNested(f *testing.F) {
	for _, s := range []string{
		"{}", " { } \n", `{"a":1,"a":[2,{}]}`, "{\n\t\"a\" : [ ],\r\n\t\"b\": {\"c\":\"\\ud800\"}\r\n}\r\n",
		"[[],[[]],{}]", "{\n    \"hooks\": {\n        \"Stop\": [\n\n            {\"hooks\": []}\n        ]\n    }\n}\n", `{"<>&":"<>&"}`, "[1,]", "\ufeff{}",
	} {
		f.Add([]byte(s), "name\n\"<&>\u2028")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		whole := atPath(t, data)
		if k := Kind(data); k != '{' && k != '[' {
			return
		}
		if _, err := items(data, whole); err != nil {
			return
		}
		value, err := json.Marshal(map[string]any{name: []any{}})
		if err != nil {
			t.Skip("not encodable")
		}
		key, _ := json.Marshal(name)
		want, err := Text(key)
		must(t, err)
		containers(t, data, whole, func(in Span) {
			before, err := items(data, in)
			must(t, err)
			old := bytes.Clone(data)
			got, object := []byte(nil), Kind(in.Of(data)) == '{'
			if object {
				got, err = AddField(data, in, name, value)
			} else {
				got, err = AddElement(data, in, value)
			}
			if err != nil {
				t.Fatalf("add to %q at %v: %v", data, in, err)
			}
			if !bytes.Equal(data, old) {
				t.Fatal("the argument was changed")
			}
			now := Span{in.Start, in.End + len(got) - len(data)}
			after, err := items(got, now)
			if err != nil || len(after) != len(before)+1 {
				t.Fatalf("%q became %q: %v", data, got, err)
			}
			if _, err := items(got, Span{whole.Start, whole.End + len(got) - len(data)}); err != nil {
				t.Fatalf("%q became %q: %v", data, got, err)
			}
			keep := in.Start + 1
			if n := len(before); n > 0 {
				keep = before[n-1].End
			}
			if !bytes.HasPrefix(got, data[:keep]) || !bytes.HasSuffix(got, data[in.End-1:]) {
				t.Fatalf("%q became %q", data, got)
			}
			added := after[len(before)]
			if object {
				fields, err := Fields(now.Of(got))
				if err != nil || fields[len(before)].Name != want {
					t.Fatalf("%q became %q: %v", data, got, err)
				}
				added = fields[len(before)].Value.Within(now)
			}
			var compact bytes.Buffer
			if err := json.Compact(&compact, added.Of(got)); err != nil || !bytes.Equal(compact.Bytes(), value) {
				t.Fatalf("the new value is %s, %v; want %s", added.Of(got), err, value)
			}
			blank := ""
			if len(before) == 0 {
				blank = string(data[in.Start+1 : in.End-1])
			}
			back, err := RemoveItem(got, now, len(before), blank)
			if err != nil || !bytes.Equal(back, data) {
				t.Fatalf("removed again: %q, %v; want %q", back, err, data)
			}
		})
	})
}

// containers calls visit for the array or object in this range, and for those inside it.
func containers(t testing.TB, data []byte, in Span, visit func(Span)) {
	t.Helper()
	visit(in)
	var inside []Span
	if Kind(in.Of(data)) == '{' {
		fields, err := Fields(in.Of(data))
		must(t, err)
		for _, f := range fields {
			inside = append(inside, f.Value.Within(in))
		}
	} else {
		var err error
		if inside, err = items(data, in); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range inside {
		if k := Kind(s.Of(data)); k == '{' || k == '[' {
			containers(t, data, s, visit)
		}
	}
}
