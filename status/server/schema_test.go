package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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
}

// reference is the parsed document.
type reference struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
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
