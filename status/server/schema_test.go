package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"teambridge/relay/mode"
	"teambridge/status/api"
)

// schema is a schema of the document: the fields of an object, and the values of a field.
type schema struct {
	Enum       []any             `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

type content map[string]any

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

	mu      sync.Mutex // of schemas
	schemas *jsonschema.Compiler
}

func read(t testing.TB) *reference {
	t.Helper()
	doc, err := readOnce()
	must(t, err)
	return doc
}

var readOnce = sync.OnceValues(func() (*reference, error) {
	doc := &reference{schemas: jsonschema.NewCompiler()}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	closeObjects(whole)
	doc.schemas.AssertFormat()
	return doc, errors.Join(err, json.Unmarshal(document, doc), doc.schemas.AddResource("openapi.json", whole))
})

// closeObjects makes each object of a document refuse unknown fields, since the document must be complete.
func closeObjects(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, open := v["additionalProperties"]; !open && v["properties"] != nil {
			v["additionalProperties"] = false
		}
		for _, e := range v {
			closeObjects(e)
		}
	case []any:
		for _, e := range v {
			closeObjects(e)
		}
	}
}

// check returns the differences of a text from the schema at a place in the document.
func (d *reference) check(body []byte, place ...string) error {
	for i, name := range place {
		place[i] = url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	d.mu.Lock()
	s, err := d.schemas.Compile("openapi.json#/" + strings.Join(place, "/"))
	d.mu.Unlock()
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// conforms checks an answer against the document.
func (d *reference) conforms(t testing.TB, method, pattern string, status int, media string, body []byte) {
	t.Helper()
	place := []string{"paths", pattern, strings.ToLower(method), "responses", fmt.Sprint(status)}
	said, ok := d.Paths[pattern][strings.ToLower(method)].Responses[fmt.Sprint(status)]
	if !ok {
		if status < 400 {
			t.Errorf("%s %s: %d is not in the document", method, pattern, status)
		}
		said = response{Ref: "#/components/responses/Problem"} // even if the path is unknown
	}
	if name, ok := strings.CutPrefix(said.Ref, "#/components/responses/"); ok {
		said, place = d.Components.Responses[name], []string{"components", "responses", name}
	}
	if _, ok := said.Content[media]; !ok {
		t.Errorf("%s %s: %d: %q is not in the document", method, pattern, status, media)
	} else if err := d.check(body, append(place, "content", media, "schema")...); err != nil {
		t.Errorf("%s %s: %d: %v in %s", method, pattern, status, err, body)
	}
}

// The answers of all tests are compared with the document, and the comparison finds differences.
func TestAnswersAreCompared(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		`{"team":"t","createdAt":"2026-01-31T00:00:00Z","lastHeard":"2026-01-31T00:00:00.5Z"}`: true, `{"team":"t","lastHeard":"2026-01-31T00:00:00Z","more":1}`: false, `{"team":"t"}`: false,
		`{"team":"t","createdAt":"2026-01-31T00:00:00Z","lastHeard":"yesterday"}`: false, `{"team":1,"createdAt":"2026-01-31T00:00:00Z","lastHeard":"2026-01-31T00:00:00Z"}`: false, `[]`: false, `{`: false,
	} {
		if err := read(t).check([]byte(text), "components", "schemas", "EndedTeam"); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The document has all routes, and nothing else.
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

// Requests and answers have exactly the fields of the document.
func TestDocumentHasTheFields(t *testing.T) {
	t.Parallel()
	doc := read(t)
	types := []any{
		api.Health{}, api.SignIn{}, api.ServiceVersion{}, api.Team{}, api.TeamDetail{}, api.Target{}, api.EndedTeam{}, api.Session{}, api.NewName{}, api.Renamed{}, api.Agents{}, api.Agent{}, api.UnknownTeam{}, api.Inbox{}, api.Member{}, api.Status{}, api.Evidence{}, api.Record{}, api.Relay{}, api.Fate{},
		api.Receipt{}, api.Page{}, api.Found{}, api.Hit{}, api.Answer{}, api.Piece{}, api.Work{}, api.Envelope{}, api.Envelopes{},
		api.NewMessage{}, api.Scope{}, api.NewBroadcast{}, api.Report{}, api.Finding{}, api.Sent{}, api.SentPayloads{}, api.PayloadResult{},
		api.RelayEntry{}, api.Place{}, api.NewPlace{}, api.Placed{}, api.Question{}, api.Asked{}, api.Hold{}, api.NewRelay{}, api.Permit{}, api.Delivery{}, api.RelayEvent{},
		api.Pane{}, api.PaneLook{}, api.PaneTest{}, api.NewPane{}, api.Error{}, api.MarkRead{}, api.Marked{}, api.Rows{}, api.NewQuestion{}, api.NewReply{}, api.Replied{}, api.Answered{}, api.Message{}, api.Happened{}, api.LineError{}, api.NewJoin{}, api.Links{}, api.Machine{}, api.NewLink{}, api.NewMachine{}, api.NewShare{}, api.Leave{}, api.Membership{}, api.Snapshot{}, api.Attention{}, api.Dismiss{}, api.MessageEvent{}, api.Reset{}, api.QuestionEvent{}, api.Problem{},
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
