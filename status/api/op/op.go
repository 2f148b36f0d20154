// Package op is the table of the operations that a service has over HTTP: for each its method and path, who may ask for it,
// what a request has and what the answer is. The server goes through the table, the client sends what it says, and
// openapi.json is made of it, with the comments on operations, fields and types as descriptions.
//
// The first sentences of a comment, up to an empty line, are the summary of an operation, and the rest is its description.
package op

import (
	"context"
	"reflect"
	"strings"

	"teambridge/status/api"
)

// Op is an operation that takes a Q and answers with an A. The fields of Q are parts of a request: see [Fields].
type Op[Q, A any] struct {
	Route

	// Do asks a bridge. It is nil if there is more to it than that, so that the server has a handler of its own.
	Do func(ctx context.Context, b api.Bridge, q Q) (A, error)

	// Code returns the status of an answer, and where to find what was added. If it is nil, the status is 200.
	Code func(q Q, a A) (status int, location string)
}

// A method of the bridge with no argument, or with one that is in the request, is an operation as it is.

func none[A any](do func(api.Bridge, context.Context) (A, error)) func(context.Context, api.Bridge, None) (A, error) {
	return func(ctx context.Context, b api.Bridge, _ None) (A, error) { return do(b, ctx) }
}

func query[Q, A any](do func(api.Bridge, context.Context, Q) (A, error)) func(context.Context, api.Bridge, Q) (A, error) {
	return func(ctx context.Context, b api.Bridge, q Q) (A, error) { return do(b, ctx, q) }
}

func body[B, A any](do func(api.Bridge, context.Context, B) (A, error)) func(context.Context, api.Bridge, With[B]) (A, error) {
	return func(ctx context.Context, b api.Bridge, q With[B]) (A, error) { return do(b, ctx, q.Body) }
}

func of[Q interface{ name() string }, A any](do func(api.Bridge, context.Context, string) (A, error)) func(context.Context, api.Bridge, Q) (A, error) {
	return func(ctx context.Context, b api.Bridge, q Q) (A, error) { return do(b, ctx, q.name()) }
}

// Route is what an operation is over HTTP.
type Route struct {
	Method, Path string
	Who          Who
	Changes      bool     // a service that is read-only refuses it
	Large        bool     // the answer can have much in it
	Lasts        string   // not empty: it waits for something, or is a stream; the hint if the service ends meanwhile
	Media        string   // of an answer that is not JSON, or, of one that is, of a stream of such
	Answers      []Answer // what the answer is, by its status
	Errors       []int    // the statuses of errors to expect
}

// Who may ask for an operation.
type Who int

const (
	Persons Who = iota // a person alone
	Agents             // an agent, too: see [api.AgentHeader]
	Anyone             // also without a token
)

// Answer says what an answer is.
type Answer struct {
	Status int
	Text   string
}

// Operation is an [Op] of any types.
type Operation interface {
	Info() *Route
	Asks() reflect.Type    // Q
	Answers() reflect.Type // A

	// Ask asks a bridge for what q says, a pointer to a Q. Status and location are as of [Op.Code].
	Ask(ctx context.Context, b api.Bridge, q any) (a any, status int, location string, err error)
}

// Info returns the route.
func (o *Op[Q, A]) Info() *Route { return &o.Route }

// Asks returns the type of what the operation takes.
func (o *Op[Q, A]) Asks() reflect.Type { return reflect.TypeFor[Q]() }

// Answers returns the type of what it answers with.
func (o *Op[Q, A]) Answers() reflect.Type { return reflect.TypeFor[A]() }

// Ask asks a bridge.
func (o *Op[Q, A]) Ask(ctx context.Context, b api.Bridge, q any) (_ any, status int, location string, err error) {
	a, err := o.Do(ctx, b, *q.(*Q))
	if err != nil {
		return nil, 0, "", err
	}
	status = 200
	if o.Code != nil {
		status, location = o.Code(*q.(*Q), a)
	}
	return a, status, location, nil
}

// Field is a part of a request.
type Field struct {
	In    string // path, query, header or body
	Name  string // of a body, its media type
	Index []int  // where Q has it: see [reflect.Value.FieldByIndex]
	Type  reflect.Type
	Tag   reflect.StructTag

	// Not says that the parameter is true if the field is not, and the other way round; Given that the field says whether
	// there is the parameter, whose value another field has; Required that there is no default.
	Not, Given, Required bool
}

// Fields returns the parts of a request that fields of a struct, and of structs in it, are. They have a tag path, query, header
// or body with a name. Parameters of a query also have min, max and default, which the server keeps to, and enum.
func Fields(t reflect.Type) (list []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		part := Field{Index: f.Index, Type: f.Type, Tag: f.Tag}
		for _, part.In = range [...]string{"path", "query", "header", "body", ""} {
			if tag, ok := f.Tag.Lookup(part.In); ok {
				var opts string
				part.Name, opts, _ = strings.Cut(tag, ",")
				part.Not, part.Given, part.Required = opts == "not", opts == "given", opts == "required"
				break
			}
		}
		if part.In != "" {
			list = append(list, part)
		} else if f.Type.Kind() == reflect.Struct {
			for _, inner := range Fields(f.Type) {
				inner.Index = append([]int{i}, inner.Index...)
				list = append(list, inner)
			}
		}
	}
	return list
}
