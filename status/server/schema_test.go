package server

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"teambridge/relay/mode"
	"teambridge/status/api"
)

// schema is what the document says of a value, as far as it says such things.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       string            `json:"type"`
	Format     string            `json:"format"`
	Enum       []any             `json:"enum"`
	Items      *schema           `json:"items"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	OneOf      []schema          `json:"oneOf"`
	AllOf      []schema          `json:"allOf"` // one, which has a description here

	// Said for readers alone, or of what is asked.
	Description          string `json:"description"`
	AdditionalProperties any    `json:"additionalProperties"`
	MinItems             int    `json:"minItems"`
	MaxLength            int    `json:"maxLength"`
	Minimum              *int   `json:"minimum"`
	Maximum              *int   `json:"maximum"`
	Default              any    `json:"default"`
}

type content map[string]struct {
	Schema schema `json:"schema"`
}

type response struct {
	Ref     string  `json:"$ref"`
	Content content `json:"content"`
}

type operation struct {
	Responses   map[string]response `json:"responses"`
	RequestBody struct {
		Content content `json:"content"`
	} `json:"requestBody"`
	Parameters []struct {
		Ref  string `json:"$ref"`
		Name string `json:"name"`
		In   string `json:"in"`
	} `json:"parameters"`
}

// reference is the document, read.
type reference struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas   map[string]schema   `json:"schemas"`
		Responses map[string]response `json:"responses"`
	} `json:"components"`
}

func read(t testing.TB) reference {
	t.Helper()
	var doc reference
	must(t, json.Unmarshal(document, &doc))
	return doc
}

func (d *reference) response(r response) response {
	if name, ok := strings.CutPrefix(r.Ref, "#/components/responses/"); ok {
		return d.Components.Responses[name]
	}
	return r
}

// check says what of v is not as s has it. Fields that s does not have are wrong:
// the document is to be complete.
func (d *reference) check(s schema, v any, at string) []string {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		ref, known := d.Components.Schemas[name]
		if !known {
			return []string{at + ": no schema " + name}
		}
		return d.check(ref, v, at)
	}
	if len(s.AllOf) == 1 {
		return d.check(s.AllOf[0], v, at)
	}
	var wrong []string
	for _, one := range s.OneOf {
		reasons := d.check(one, v, at)
		if len(reasons) == 0 {
			return nil
		}
		wrong = append(wrong, reasons...)
	}
	if len(s.OneOf) > 0 {
		return wrong
	}
	bad := func(format string, args ...any) { wrong = append(wrong, at+": "+fmt.Sprintf(format, args...)) }
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
		bad("%v is none of %v", v, s.Enum)
	}
	switch s.Type {
	case "string":
		text, ok := v.(string)
		if !ok {
			bad("%v is no string", v)
		}
		if _, err := time.Parse(time.RFC3339Nano, text); s.Format == "date-time" && err != nil {
			bad("%v", err)
		}
	case "integer":
		if n, ok := v.(float64); !ok || n != float64(int64(n)) {
			bad("%v is no integer", v)
		}
	case "number":
		if _, ok := v.(float64); !ok {
			bad("%v is no number", v)
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			bad("%v is no boolean", v)
		}
	case "null":
		if v != nil {
			bad("%v is not null", v)
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			bad("%v is no array", v)
		}
		for i, e := range list {
			wrong = append(wrong, d.check(*s.Items, e, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case "object":
		object, ok := v.(map[string]any)
		if !ok {
			bad("%v is no object", v)
		}
		for _, name := range s.Required {
			if _, ok := object[name]; !ok {
				bad("there is no %s", name)
			}
		}
		for name, e := range object {
			p, known := s.Properties[name]
			switch {
			case known:
				wrong = append(wrong, d.check(p, e, at+"."+name)...)
			case s.Properties != nil:
				bad("%s is not in the document", name)
			}
		}
	default:
		bad("the document says %q", s.Type)
	}
	return wrong
}

// conforms checks an answer against the document.
func (d *reference) conforms(t testing.TB, method, pattern string, status int, media string, body []byte) {
	t.Helper()
	said, ok := d.Paths[pattern][strings.ToLower(method)].Responses[fmt.Sprint(status)]
	if !ok {
		if status < 400 {
			t.Errorf("%s %s: %d is not in the document", method, pattern, status)
		}
		said = response{Ref: "#/components/responses/Problem"} // also where there is no such path
	}
	c, ok := d.response(said).Content[media]
	if !ok {
		t.Errorf("%s %s: %d: %q is not in the document", method, pattern, status, media)
		return
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s %s: %v: %s", method, pattern, err, body)
		return
	}
	for _, wrong := range d.check(c.Schema, v, "") {
		t.Errorf("%s %s: %d%s in %s", method, pattern, status, wrong, body)
	}
}

// What can be asked is in the document, and nothing else.
func TestDocumentHasTheRoutes(t *testing.T) {
	t.Parallel()
	doc := read(t)
	var have, want []string
	for path, operations := range doc.Paths {
		for method := range operations {
			want = append(want, strings.ToUpper(method)+" "+path)
		}
	}
	for _, r := range new(Server).routes() {
		have = append(have, r.Method+" "+r.Path)
		if got := doc.Paths[r.Path][strings.ToLower(r.Method)].RequestBody.Content != nil; got != (r.Changes && !r.bare) {
			t.Errorf("%s %s: the document has a body: %v, and it changes something: %v", r.Method, r.Path, got, r.Changes)
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("routes    %v\nthe document has %v", have, want)
	}
}

// What is said and taken has the fields of the document, and only those.
func TestDocumentHasTheFields(t *testing.T) {
	t.Parallel()
	doc := read(t)
	types := []any{
		api.Health{}, api.SignIn{}, api.ServiceVersion{}, api.Team{}, api.TeamDetail{}, api.Target{}, api.EndedTeam{}, api.Session{}, api.Agents{}, api.Agent{}, api.UnknownTeam{}, api.Inbox{}, api.Member{}, api.Status{}, api.Evidence{}, api.Record{}, api.Relay{}, api.Fate{},
		api.Receipt{}, api.Page{}, api.Found{}, api.Hit{}, api.Answer{}, api.Piece{}, api.Work{}, api.Envelope{}, api.Envelopes{},
		api.NewMessage{}, api.NewBroadcast{}, api.Report{}, api.Finding{}, api.Sent{}, api.SentPayloads{}, api.PayloadResult{},
		api.RelayEntry{}, api.Place{}, api.NewPlace{}, api.Placed{}, api.Question{}, api.Asked{}, api.Hold{}, api.NewRelay{}, api.Permit{}, api.Delivery{}, api.RelayEvent{},
		api.Pane{}, api.PaneLook{}, api.PaneTest{}, api.NewPane{}, api.Error{}, api.MarkRead{}, api.Marked{}, api.Rows{}, api.NewQuestion{}, api.NewReply{}, api.Replied{}, api.Answered{}, api.Message{}, api.Happened{}, api.LineError{}, api.NewJoin{}, api.Links{}, api.Machine{}, api.NewLink{}, api.NewMachine{}, api.NewShare{}, api.Leave{}, api.Membership{}, api.Snapshot{}, api.Attention{}, api.Dismiss{}, api.MessageEvent{}, api.Reset{}, api.Problem{},
		api.Tasks{}, api.Task{}, api.TaskHistory{}, api.TaskChange{}, api.FileChanges{}, api.Patch{}, api.Usage{}, api.UsageRow{},
	}
	named := map[string]bool{}
	for _, v := range types {
		typ := reflect.TypeOf(v)
		named[typ.Name()] = true
		s, ok := doc.Components.Schemas[typ.Name()]
		if !ok {
			t.Errorf("%s is not in the document", typ.Name())
			continue
		}
		all, required := fields(typ)
		slices.Sort(all)
		slices.Sort(required)
		if have := slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(have, all) {
			t.Errorf("%s has %v, and in the document %v", typ.Name(), all, have)
		}
		if have := slices.Sorted(slices.Values(s.Required)); !slices.Equal(have, required) {
			t.Errorf("%s always has %v, and in the document %v", typ.Name(), required, have)
		}
	}
	for setting := range doc.Components.Schemas["Mode"].Properties {
		if _, err := mode.Parse(fmt.Appendf(nil, `{%q: null}`, setting)); err != nil {
			t.Errorf("Mode has %s in the document: %v", setting, err)
		}
	}
	if have, want := len(doc.Components.Schemas["Mode"].Properties), reflect.TypeFor[mode.Mode]().NumField(); have != want {
		t.Errorf("Mode has %d settings, and in the document %d", want, have)
	}
	named["Mode"] = true // its fields have no names in JSON of their own
	for name := range doc.Components.Schemas {
		if !named[name] {
			t.Errorf("%s is in the document, and here is no type for it", name)
		}
	}
}

// fields returns the names in the JSON of a struct, and those that are always there.
func fields(typ reflect.Type) (all, required []string) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		if f.Anonymous {
			a, r := fields(f.Type)
			all, required = append(all, a...), append(required, r...)
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		all = append(all, name)
		if opts == "" {
			required = append(required, name)
		}
	}
	return all, required
}

// Every code has a status, and is in the document.
func TestDocumentHasTheCodes(t *testing.T) {
	t.Parallel()
	doc := read(t)
	problem := doc.Components.Schemas["Problem"]
	var want []string
	for _, c := range api.Codes() {
		want = append(want, string(c))
	}
	var have []string
	for _, c := range problem.Properties["code"].Enum {
		have = append(have, c.(string))
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("codes %v\nin the document %v", want, have)
	}
}
