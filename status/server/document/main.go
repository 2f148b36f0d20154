// Document writes openapi.json, in the directory of package server, which it is run in by go generate. The paths are the
// operations of package op, the schemas the types that they take and answer with, and the descriptions the comments on these.
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

func main() {
	data, err := document()
	if err == nil {
		err = os.WriteFile("openapi.json", data, 0o666)
	}
	if err != nil {
		log.Fatal("document: ", err)
	}
}

// about is what the document says apart from operations and types.
//
//go:embed about.json
var about []byte

// object is a JSON object that keeps its order.
type object []member

type member struct {
	name  string
	value any
}

func (o *object) set(name string, value any) {
	if i := slices.IndexFunc(*o, func(m member) bool { return m.name == name }); i >= 0 {
		(*o)[i].value = value
		return
	}
	*o = append(*o, member{name, value})
}

func (o *object) get(name string) any {
	for _, m := range *o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// at returns the object under a name, and adds it if there is none.
func (o *object) at(name string) *object {
	if inner, ok := o.get(name).(*object); ok {
		return inner
	}
	inner := &object{}
	o.set(name, inner)
	return inner
}

// MarshalJSON encodes the members in their order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range *o {
		b.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&b, "%q:", m.name)
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(m.value); err != nil {
			return nil, err
		}
	}
	if len(*o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// document returns openapi.json. The working directory must be the directory of package server.
func document() ([]byte, error) {
	g := &generator{comments: map[string]string{}, values: map[string]string{}}
	for _, dir := range []string{"../api/op", "../api", "document"} {
		if err := g.read(dir); err != nil {
			return nil, err
		}
	}
	var head struct {
		OpenAPI  string          `json:"openapi"`
		Info     json.RawMessage `json:"info"`
		Servers  json.RawMessage `json:"servers"`
		Security json.RawMessage `json:"security"`
		Schemes  json.RawMessage `json:"securitySchemes"`
	}
	if err := json.Unmarshal(about, &head); err != nil {
		return nil, err
	}
	var paths object
	for i, o := range op.All() {
		g.operation(paths.at(o.Info().Path).at(strings.ToLower(o.Info().Method)), g.names[i], o)
	}
	for _, typ := range streamed { // their events, which no operation has as an answer
		g.schema(typ)
	}
	problem := &object{{"description", "what went wrong (RFC 9457)"}, {"content", &object{{api.ProblemType, &object{{"schema", g.schema(reflect.TypeFor[api.Problem]())}}}}}}
	slices.SortFunc(g.schemas, func(a, b member) int { return strings.Compare(a.name, b.name) })
	doc := &object{
		{"openapi", head.OpenAPI}, {"info", head.Info}, {"servers", head.Servers}, {"security", head.Security}, {"paths", &paths},
		{"components", &object{{"securitySchemes", head.Schemes}, {"responses", &object{{"Problem", problem}}}, {"schemas", &g.schemas}}},
	}
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return lines(data), nil
}

// streamed are the types of events and of lines.
var streamed = []reflect.Type{
	reflect.TypeFor[api.Snapshot](), reflect.TypeFor[api.MessageEvent](), reflect.TypeFor[api.Receipt](), reflect.TypeFor[api.RelayEvent](),
	reflect.TypeFor[api.Envelope](), reflect.TypeFor[api.Reset](), reflect.TypeFor[api.QuestionEvent](), reflect.TypeFor[api.LineError](),
}

// lines breaks JSON into lines: one for each path and method, and one for each property of a schema.
func lines(data []byte) []byte {
	var out bytes.Buffer
	depth, text := 0, false
	for i, c := range data {
		switch {
		case c == '\n' && !text:
			continue
		case c == '"' && (i == 0 || data[i-1] != '\\' || bytes.HasSuffix(data[:i], []byte(`\\`))):
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		out.WriteByte(c)
		if !text && depth > 0 && depth <= 5 && (c == ',' || c == '{') {
			out.WriteByte('\n')
			out.WriteString(strings.Repeat(" ", depth))
		}
	}
	out.WriteByte('\n')
	return out.Bytes()
}

type generator struct {
	comments map[string]string // of a variable or type, and of a field as TYPE.FIELD
	values   map[string]string // of constants
	names    []string          // of the operations, in the order of [op.All]
	schemas  object
}

// read reads the comments of a package.
func (g *generator) read(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if all, ok := decl.(*ast.FuncDecl); ok && all.Name.Name == "All" {
				ast.Inspect(all, func(n ast.Node) bool {
					if ref, ok := n.(*ast.UnaryExpr); ok {
						g.names = append(g.names, ref.X.(*ast.Ident).Name)
					}
					return true
				})
			}
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					g.comments[s.Name.Name] = cmp.Or(s.Doc.Text(), d.Doc.Text())
					if t, ok := s.Type.(*ast.StructType); ok {
						for _, field := range t.Fields.List {
							for _, name := range field.Names {
								g.comments[s.Name.Name+"."+name.Name] = cmp.Or(field.Comment.Text(), field.Doc.Text())
							}
						}
					}
				case *ast.ValueSpec:
					g.comments["var "+s.Names[0].Name] = d.Doc.Text()
					for i, v := range s.Values {
						switch v := v.(type) {
						case *ast.BasicLit:
							g.values[s.Names[i].Name] = strings.Trim(v.Value, `"`)
						case *ast.Ident:
							g.values[s.Names[i].Name] = g.values[v.Name]
						}
					}
				}
			}
		}
	}
	return nil
}

var (
	like = regexp.MustCompile(`^\[\w+\] and its like(?:[:;,] )?`)
	link = regexp.MustCompile(`\[\*?(?:\w+\.)?(\w+)\]`)
)

// text returns a comment as a description: without line breaks, and with the values of the constants in it.
func (g *generator) text(comment string, enum bool) string {
	if enum {
		comment = like.ReplaceAllString(comment, "")
	}
	comment = link.ReplaceAllStringFunc(comment, func(s string) string {
		name := link.FindStringSubmatch(s)[1]
		if value, ok := g.values[name]; ok {
			return value
		}
		return name
	})
	return strings.Join(strings.Fields(comment), " ")
}
