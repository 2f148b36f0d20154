package mode

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func parse(t testing.TB, text string) Mode {
	t.Helper()
	m, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHash(t *testing.T) {
	t.Parallel()
	const (
		both       = "55fa6c612ece7172d2be7af6db147db560c78c38f5a170f848adb1ea6fa449a3"
		permission = "7d170d36dc1cb697fa702f6790f437eb587f780e5873d77cd7f738a6d34cc667"
		null       = "6a146ef3f0507cc1a12dee9cde2547b4dbda8eb20e49fb8cc578aea44f74a796"
	)
	for _, c := range []struct{ name, json, want string }{
		{"sorted", `{"model":"sonnet","permissionMode":"default"}`, both},
		{"the other order", `{"permissionMode":"default","model":"sonnet"}`, both},
		{"white space", " {\n\t\"permissionMode\" : \"default\" ,\r\n\"model\":\"sonnet\" } ", both},
		{"escapes", `{"\u006dodel":"s\u006fnnet","permissionMode":"default"}`, both},
		{"absent", `{"permissionMode":"default"}`, permission},
		{"null", `{"permissionMode":"default","model":null}`, null},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := parse(t, c.json).Hash(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	// By JSON.stringify and node:crypto.
	odd := Mode{AllowedTools: Set([]string{"b", `a"]`}), AppendSystemPrompt: Set("\"\\/<&>\b\t\n\f\r\x00\x1f\x7f\u2028\u2029é😀"), Model: Default[string]()}
	if got, want := odd.Hash(), "ac9c2222a83d1949f43cba002e7694e2ea05ca5f6ad9998e7f32fb1d96f02762"; got != want {
		t.Errorf("of odd characters: got %s, want %s", got, want)
	}
	built := Mode{Model: Set("sonnet"), PermissionMode: Set("default")}
	if got := built.Hash(); got != both {
		t.Errorf("of a mode built in Go: got %s, want %s", got, both)
	}
	built.Model = Default[string]()
	if got := built.Hash(); got != null {
		t.Errorf("of one with a default: got %s, want %s", got, null)
	}
}

// The JSON that is hashed has a fixed form, so that other programs can compute the same hash.
func TestModeJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		mode Mode
		want string
	}{
		{"nothing", Mode{}, `{}`},
		{"all, sorted", Mode{
			PermissionMode: Set("plan"), Model: Set("m"), FallbackModel: Set("f"),
			CustomSystemPrompt: Set("c"), AppendSystemPrompt: Set("a"),
			AllowedTools: Set([]string{"b", "a"}), DisallowedTools: Set([]string{"x"}),
		}, `{"allowedTools":["b","a"],"appendSystemPrompt":"a","customSystemPrompt":"c","disallowedTools":["x"],"fallbackModel":"f","model":"m","permissionMode":"plan"}`},
		{"default list", Mode{AllowedTools: Default[[]string]()}, `{"allowedTools":null}`},
		{"empty list", Mode{AllowedTools: Set([]string{})}, `{"allowedTools":[]}`},
		{"nil list", Mode{AllowedTools: Set([]string(nil))}, `{"allowedTools":[]}`},
		{"empty text", Mode{AppendSystemPrompt: Set("")}, `{"appendSystemPrompt":""}`},
		{"the text null", Mode{Model: Set("null")}, `{"model":"null"}`},
		{"as JavaScript escapes", Mode{AppendSystemPrompt: Set("\"\\/<&>\b\t\n\f\r\x00\x1f\x7f\u2028\u2029é😀")},
			`{"appendSystemPrompt":"\"\\/<&>\b\t\n\f\r\u0000\u001f` + "\x7f\u2028\u2029é😀" + `"}`},
		{"not UTF-8", Mode{Model: Set("a\xff\xc3z")}, `{"model":"a` + "\uFFFD\uFFFD" + `z"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := c.mode.MarshalJSON()
			if err != nil || string(got) != c.want || c.mode.String() != c.want {
				t.Errorf("got %s (%v), want %s", got, err, c.want)
			}
			if back := parse(t, c.want); back != c.mode {
				t.Errorf("parsed again: %s", back)
			}
		})
	}
}

func TestSettingStates(t *testing.T) {
	t.Parallel()
	m := parse(t, `{"model":null,"allowedTools":["Read","a,b","\"]"],"disallowedTools":[]}`)
	if !m.FallbackModel.IsAbsent() || m.FallbackModel.IsDefault() {
		t.Error("a missing key is not absent")
	}
	if m.Model.IsAbsent() || !m.Model.IsDefault() {
		t.Error("null is not the default")
	}
	if v, ok := m.Model.Value(); ok || v != "" {
		t.Errorf("the default has the value %q", v)
	}
	if v, ok := m.PermissionMode.Value(); ok || v != "" {
		t.Errorf("what is absent has the value %q", v)
	}
	want := []string{"Read", "a,b", `"]`}
	got, ok := m.AllowedTools.Value()
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got[0] = "Write"
	if again, _ := m.AllowedTools.Value(); again[0] != "Read" {
		t.Error("a caller's change reached the mode")
	}
	if v, ok := m.DisallowedTools.Value(); !ok || len(v) != 0 {
		t.Errorf("the empty list: got %q, %v", v, ok)
	}
	list := []string{"Read"}
	s := Set(list)
	list[0] = "Write"
	if v, _ := s.Value(); v[0] != "Read" {
		t.Error("a change of the list reached the setting made from it")
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, json, key, say string }{
		{"nothing", ``, "", "at byte 0"},
		{"white space", " \n", "", "unexpected end"},
		{"null", `null`, "", "is null, must be an object"},
		{"text", `"model"`, "", "is a text"},
		{"list", `[{"model":"x"}]`, "", "is a list"},
		{"number", `-1`, "", "is a number"},
		{"cut", `{"model":"son`, "", "at byte 13"},
		{"cut behind a pair", `{"model":"sonnet",`, "", "unexpected end"},
		{"trailing comma", `{"model":"sonnet",}`, "", "invalid character"},
		{"two objects", `{"model":"a"}{"model":"b"}`, "", "at byte 14"},
		{"trailing text", `{} x`, "", "invalid character"},
		{"byte order mark", "\ufeff{}", "", "invalid character"},
		{"not UTF-8", "{\"model\":\"\xff\"}", "model", "is not valid UTF-8"},
		{"half of a surrogate pair", `{"allowedTools":["a","\ud83d"]}`, "allowedTools.1", "has half of a surrogate pair"},
		{"unknown", `{"modle":"sonnet"}`, "modle", "must be one of allowedTools"},
		{"other case", `{"Model":"sonnet"}`, "Model", "is no setting"},
		{"empty key", `{"":1}`, "", "is no setting"},
		{"twice", `{"model":"opus","model":"sonnet"}`, "model", "twice"},
		{"twice, escaped", `{"model":"opus","\u006dodel":"sonnet"}`, "model", "twice"},
		{"null, then a value", `{"model":null,"model":"sonnet"}`, "model", "twice"},
		{"text as number", `{"model":4}`, "model", "is a number, must be a text or null"},
		{"text as boolean", `{"permissionMode":true}`, "permissionMode", "is a boolean"},
		{"text as list", `{"model":["sonnet"]}`, "model", "is a list"},
		{"text as object", `{"model":{"name":"sonnet"}}`, "model", "is an object"},
		{"list as text", `{"allowedTools":"Read,Write"}`, "allowedTools", "is a text, must be a list of texts or null"},
		{"list as object", `{"allowedTools":{}}`, "allowedTools", "is an object"},
		{"list with null", `{"allowedTools":["Read",null]}`, "allowedTools", "entry 2 is null, must be a text"},
		{"list with number", `{"disallowedTools":[1]}`, "disallowedTools", "entry 1 is a number"},
		{"list in list", `{"disallowedTools":[["Read"]]}`, "disallowedTools", "entry 1 is a list"},
		{"deep", `{"model":` + strings.Repeat("[", 100_000), "", "exceeded max depth"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before := Mode{Model: Set("before")}
			m := before
			err := m.UnmarshalJSON([]byte(c.json))
			var bad *Error
			if !errors.As(err, &bad) {
				t.Fatalf("got %v, want a Error", err)
			}
			if bad.Key != c.key || !strings.Contains(err.Error(), c.say) {
				t.Errorf("got key %q: %v; want key %q: %s", bad.Key, err, c.key, c.say)
			}
			if m != before {
				t.Errorf("the mode was changed to %s", m)
			}
		})
	}
}

// An error about a key is short and safe to print on a terminal, although the key is
// any text.
func TestModeErrorIsShort(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`{"\u001b[2J` + strings.Repeat("k", 1<<20) + `":1}`))
	if text := err.Error(); len(text) > 500 || strings.Contains(text, "\x1b") {
		t.Errorf("%d bytes: %.600q", len(text), text)
	}
}

func TestModeInsideJSON(t *testing.T) {
	t.Parallel()
	type message struct {
		Text string
		Mode Mode `json:",omitzero"`
	}
	in := message{"hi", Mode{Model: Default[string]()}}
	b, err := json.Marshal(in)
	if want := `{"Text":"hi","Mode":{"model":null}}`; err != nil || string(b) != want {
		t.Fatalf("got %s (%v), want %s", b, err, want)
	}
	var out message
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("got %v (%v), want %v", out, err, in)
	}
	if b, err := json.Marshal(message{Text: "hi"}); err != nil || string(b) != `{"Text":"hi"}` {
		t.Errorf("without a mode: %s (%v)", b, err)
	}
	var bad *Error
	for _, text := range []string{`{"Mode":null}`, `{"Mode":{"x":1}}`} {
		if err := json.Unmarshal([]byte(text), &out); !errors.As(err, &bad) {
			t.Errorf("%s: got %v, want a Error", text, err)
		}
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, mode, change, want string }{
		{"absent stays", `{"model":"opus","permissionMode":"plan"}`, `{"model":"sonnet"}`, `{"model":"sonnet","permissionMode":"plan"}`},
		{"null is the default", `{"model":"opus"}`, `{"model":null}`, `{"model":null}`},
		{"null stays", `{"model":null}`, `{"permissionMode":"plan"}`, `{"model":null,"permissionMode":"plan"}`},
		{"a value after null", `{"model":null}`, `{"model":"opus"}`, `{"model":"opus"}`},
		{"a list is replaced", `{"allowedTools":["a","b"]}`, `{"allowedTools":["c"]}`, `{"allowedTools":["c"]}`},
		{"by an empty one too", `{"allowedTools":["a"]}`, `{"allowedTools":[]}`, `{"allowedTools":[]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := parse(t, c.mode)
			if got := m.Merge(parse(t, c.change)); got.String() != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if m != parse(t, c.mode) {
				t.Errorf("the mode itself became %s", m)
			}
		})
	}
}

func anyMode() *rapid.Generator[Mode] {
	text := rapid.OneOf(rapid.Just(Setting[string]{}), rapid.Just(Default[string]()), rapid.Map(rapid.OneOf(rapid.SampledFrom([]string{"", "a", "null"}), rapid.String()), Set[string]))
	list := rapid.OneOf(rapid.Just(Setting[[]string]{}), rapid.Just(Default[[]string]()), rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", ",", `"`}), 0, 3), Set[[]string]))
	return rapid.Custom(func(t *rapid.T) Mode {
		return Mode{
			PermissionMode: text.Draw(t, "permissionMode"), Model: text.Draw(t, "model"), FallbackModel: text.Draw(t, "fallbackModel"),
			CustomSystemPrompt: text.Draw(t, "customSystemPrompt"), AppendSystemPrompt: text.Draw(t, "appendSystemPrompt"),
			AllowedTools: list.Draw(t, "allowedTools"), DisallowedTools: list.Draw(t, "disallowedTools"),
		}
	})
}

func TestModeLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := anyMode().Draw(t, "a"), anyMode().Draw(t, "b"), anyMode().Draw(t, "c")
		if a.Merge(Mode{}) != a || (Mode{}).Merge(a) != a || a.Merge(a) != a {
			t.Error("no change, or the same again, changes something")
		}
		if a.Merge(b).Merge(c) != a.Merge(b.Merge(c)) {
			t.Error("the order in which changes are put together counts")
		}
		if (a == b) != (a.Hash() == b.Hash()) {
			t.Errorf("== and Hash disagree on %s and %s", a, b)
		}
		if back, err := Parse([]byte(a.String())); err != nil || back != a {
			t.Errorf("%s became %s (%v)", a, back, err)
		}
	})
}

// valid reports in another way whether a text is a mode: as a map, with its keys
// counted.
func valid(data []byte) (map[string]any, bool) {
	var m map[string]any
	if !utf8.Valid(data) || halves(data) || json.Unmarshal(data, &m) != nil || m == nil {
		return nil, false
	}
	for key, value := range m {
		switch key {
		case "permissionMode", "model", "fallbackModel", "customSystemPrompt", "appendSystemPrompt":
			if _, ok := value.(string); !ok && value != nil {
				return nil, false
			}
		case "allowedTools", "disallowedTools":
			list, ok := value.([]any)
			if !ok && value != nil {
				return nil, false
			}
			for _, entry := range list {
				if _, ok := entry.(string); !ok {
					return nil, false
				}
			}
		default:
			return nil, false
		}
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	depth, tokens := 0, 0
	for {
		token, err := dec.Token()
		if err == io.EOF {
			break
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
			continue
		case json.Delim('}'), json.Delim(']'):
			if depth--; depth != 1 {
				continue
			}
		}
		if depth == 1 {
			tokens++
		}
	}
	return m, tokens == 2*len(m)
}

// halves reports whether data has an escaped half of a surrogate pair.
func halves(data []byte) bool {
	open := false // the first half was there
	for i := 0; i < len(data); i++ {
		first, second := false, false
		if escape := data[i:min(i+6, len(data))]; data[i] == '\\' && len(escape) == 6 && escape[1] == 'u' {
			n, err := strconv.ParseUint(string(escape[2:]), 16, 32)
			first, second = err == nil && n>>10 == 0xd800>>10, err == nil && n>>10 == 0xdc00>>10
			i += 5
		} else if data[i] == '\\' {
			i++
		}
		if open != second {
			return true
		}
		open = first
	}
	return open
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"model":"sonnet","permissionMode":"default"}`, `{"model":null}`, ` {"allowedTools":["a",""],"disallowedTools":[]} `, `{}`, `null`,
		`{"model":"\ud800"}`, `{"model":"\u2028<\u0001\\"}`, `{"model":"a","model":"b"}`, `{"allowedTools":[null]}`, "{\"model\":\"\xff\"}", `{"x":{}}`, `{"model":"a"} x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want, ok := valid(data)
		m, err := Parse(data)
		if (err == nil) != ok {
			t.Fatalf("%q: got %v, want accepted: %v", data, err, ok)
		}
		if err != nil {
			var bad *Error
			if !errors.As(err, &bad) || m != (Mode{}) {
				t.Fatalf("%q: %v, %s", data, err, m)
			}
			return
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(m.String()), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %s (%v)", data, m, err)
		}
		again, err := Parse([]byte(m.String()))
		if err != nil || again != m || again.Hash() != m.Hash() {
			t.Fatalf("%s became %s (%v)", m, again, err)
		}
	})
}
