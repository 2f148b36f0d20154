package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"teambridge/status/api"
	"teambridge/status/api/op"
)

// operation describes o. One with the method and path of another is another form of it.
func (g *generator) operation(d *object, name string, o op.Operation) {
	info := o.Info()
	if len(*d) == 0 {
		summary, description, _ := strings.Cut(g.comments["var "+name], "\n\n")
		d.set("summary", g.text(summary, false))
		if description != "" {
			d.set("description", g.text(description, false))
		}
		if info.Who == op.Anyone {
			d.set("security", []any{&object{}})
		}
	}
	params, _ := d.get("parameters").([]any)
	for _, f := range op.Fields(o.Asks()) {
		switch {
		case f.In == "body":
			g.body(d, o.Asks(), f)
		case !f.Given:
			p := g.parameter(o.Asks(), f)
			same := func(other any) bool { return other.(*object).get("name") == f.Name }
			if i := slices.IndexFunc(params, same); i >= 0 {
				params[i] = p
			} else {
				params = append(params, p)
			}
		}
	}
	if params != nil {
		d.set("parameters", params)
		if body := d.get("requestBody"); body != nil {
			*d = slices.DeleteFunc(*d, func(m member) bool { return m.name == "requestBody" })
			d.set("requestBody", body)
		}
	}
	responses := d.at("responses")
	answers := info.Answers
	if answers == nil { // those of the operation that this is a form of
		for _, r := range *responses {
			if status, err := strconv.Atoi(r.name); err == nil && status < 400 {
				answers = append(answers, op.Answer{Status: status})
			}
		}
	}
	for _, a := range answers {
		r := responses.at(strconv.Itoa(a.Status))
		if a.Text != "" {
			r.set("description", a.Text)
		}
		content := r.at("content")
		if o.Answers() != reflect.TypeFor[op.None]() {
			s := g.schema(o.Answers())
			if before, ok := content.at("application/json").get("schema").(*object); ok {
				s = &object{{"oneOf", []any{before, s}}}
			}
			content.at("application/json").set("schema", s)
		}
		if info.Media != "" {
			content.at(info.Media).set("schema", &object{{"type", "string"}})
		}
	}
	problem := &object{{"$ref", "#/components/responses/Problem"}}
	for _, status := range info.Errors {
		responses.set(strconv.Itoa(status), problem)
	}
	if responses.get("default") == nil {
		responses.set("default", problem)
	}
}

func (g *generator) body(d *object, in reflect.Type, f op.Field) {
	b := d.at("requestBody")
	b.set("required", true)
	s := &object{{"type", "string"}}
	if f.Type.Kind() == reflect.Struct {
		s = g.schema(f.Type)
		g.schemas.at(f.Type.Name()).set("additionalProperties", false)
	} else {
		s.set("description", g.comment(in, f.Index, false))
	}
	b.at("content").at(f.Name).set("schema", s)
}

func (g *generator) parameter(in reflect.Type, f op.Field) *object {
	p := &object{{"name", f.Name}, {"in", f.In}}
	if f.In == "path" || f.Required {
		p.set("required", true)
	}
	_, enum := f.Tag.Lookup("enum")
	if text := g.comment(in, f.Index, enum); text != "" {
		p.set("description", text)
	}
	s := g.value(f.Type, f.Tag)
	kind := f.Type.Kind()
	switch {
	case f.Type == reflect.TypeFor[time.Duration]():
		s = &object{{"type", "string"}}
	case kind == reflect.Int, kind == reflect.Int64:
		least, _ := strconv.Atoi(f.Tag.Get("min"))
		s.set("minimum", least)
		if n, err := strconv.Atoi(f.Tag.Get("max")); err == nil {
			s.set("maximum", n)
		}
		if n, err := strconv.Atoi(f.Tag.Get("default")); err == nil {
			s.set("default", n)
		}
	case kind == reflect.Bool:
		s.set("default", f.Not)
	case kind == reflect.Slice && f.Tag.Get("default") != "":
		s.set("default", []string{f.Tag.Get("default")})
	}
	p.set("schema", s)
	return p
}

// comment returns the description of a field of a struct, or of a struct in it.
func (g *generator) comment(t reflect.Type, index []int, enum bool) string {
	for _, i := range index[:len(index)-1] {
		t = t.Field(i).Type
	}
	return g.text(g.comments[t.Name()+"."+t.Field(index[len(index)-1]).Name], enum)
}

// schema returns a reference to the schema of a type, or the schema if the type has no name.
func (g *generator) schema(t reflect.Type) *object { return g.value(t, "") }

// value returns the schema of a type; tag is the tag of the field that has the type.
func (g *generator) value(t reflect.Type, tag reflect.StructTag) *object {
	if name := tag.Get("schema"); name != "" {
		return g.named(reflect.TypeFor[Mode](), name)
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return &object{{"type", "string"}, {"format", "date-time"}}
	case reflect.TypeFor[json.RawMessage]():
		return &object{{"type", "object"}, {"additionalProperties", true}}
	case reflect.TypeFor[api.Code]():
		return &object{{"type", "string"}, {"enum", api.Codes()}}
	}
	s := &object{}
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), tag)
	case reflect.Struct:
		return g.named(t, t.Name())
	case reflect.String:
		s.set("type", "string")
	case reflect.Bool:
		s.set("type", "boolean")
	case reflect.Int, reflect.Int64:
		s.set("type", "integer")
	case reflect.Float64:
		s.set("type", "number")
	case reflect.Map:
		s.set("type", "object")
		if t.Elem().Kind() == reflect.Interface {
			s.set("additionalProperties", true)
		} else {
			s.set("additionalProperties", g.schema(t.Elem()))
		}
	case reflect.Slice:
		s.set("type", "array")
		inner := reflect.StructTag("")
		if enum := tag.Get("enum"); enum != "" {
			inner = reflect.StructTag(fmt.Sprintf("enum:%q", enum))
		}
		s.set("items", g.value(t.Elem(), inner))
		if n, err := strconv.Atoi(tag.Get("minItems")); err == nil {
			s.set("minItems", n)
		}
		return s
	default:
		panic(fmt.Sprintf("no schema for %v", t))
	}
	if enum, ok := tag.Lookup("enum"); ok {
		s.set("enum", strings.Split(enum, ","))
	}
	for _, limit := range []string{"minLength", "maxLength"} {
		if n, err := strconv.Atoi(tag.Get(limit)); err == nil {
			s.set(limit, n)
		}
	}
	if format := tag.Get("format"); format != "" {
		s.set("format", format)
	}
	return s
}

// named adds the schema of a struct, unless it is there, and returns a reference to it.
func (g *generator) named(t reflect.Type, name string) *object {
	ref := &object{{"$ref", "#/components/schemas/" + name}}
	if g.schemas.get(name) != nil {
		return ref
	}
	s := g.schemas.at(name)
	s.set("type", "object")
	if text := g.text(g.comments[t.Name()], false); text != "" {
		s.set("description", text)
	}
	if t == reflect.TypeFor[Mode]() {
		s.set("additionalProperties", false)
	}
	properties, required := &object{}, []string{}
	g.properties(t, properties, &required)
	if len(required) > 0 {
		s.set("required", required)
	}
	s.set("properties", properties)
	return ref
}

func (g *generator) properties(t reflect.Type, all *object, required *[]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			g.properties(f.Type, all, required)
			continue
		}
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		if opts == "" {
			*required = append(*required, name)
		}
		s := g.value(f.Type, f.Tag)
		_, enum := f.Tag.Lookup("enum")
		if text := g.text(g.comments[t.Name()+"."+f.Name], enum); text != "" {
			s.set("description", text)
		}
		if f.Tag.Get("nullable") != "" {
			s = &object{{"oneOf", []any{s, &object{{"type", "null"}}}}}
		}
		all.set(name, s)
	}
}
