// Package op is the table of the operations of a service over HTTP: for each its method and path, who may use it, its
// request and its answer. The server serves what is in the table, the client builds its requests from it, and
// openapi.json is generated from it, with the comments on operations, fields and types as descriptions.
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

	// Do calls a bridge. It is nil if the operation needs more than a call, and a handler of its own in the server.
	Do func(ctx context.Context, b api.Bridge, q Q) (A, error)

	// Code returns the status of an answer, and where to find what was added. If it is nil, the status is 200.
	Code func(q Q, a A) (status int, location string)
}

// These turn a method of the bridge into a Do, if it has no argument, or one that is in the request.

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

// Route describes an operation over HTTP.
type Route struct {
	Method, Path string
	Who          Who
	Changes      bool     // a service that is read-only refuses it
	Large        bool     // the answer can be large
	Lasts        string   // not empty: it waits for something, or is a stream; the hint if the service ends meanwhile
	Media        string   // of an answer that is not JSON, or, of one that is, of a stream of such
	Answers      []Answer // the answers, by status
	Errors       []int    // the statuses of errors to expect
}

// Who may use an operation.
type Who int

const (
	Persons Who = iota // a person alone
	Agents             // an agent, too: see [api.AgentHeader]
	Anyone             // also without a token
)

// Answer describes the answer with one status.
type Answer struct {
	Status int
	Text   string
}

// Operation is an [Op] of any types.
type Operation interface {
	Info() *Route
	Asks() reflect.Type    // Q
	Answers() reflect.Type // A

	// Ask calls a bridge with q, a pointer to a Q. Status and location are those of [Op.Code].
	Ask(ctx context.Context, b api.Bridge, q any) (a any, status int, location string, err error)
}

// Info returns the route.
func (o *Op[Q, A]) Info() *Route { return &o.Route }

// Asks returns the type of the request.
func (o *Op[Q, A]) Asks() reflect.Type { return reflect.TypeFor[Q]() }

// Answers returns the type of the answer.
func (o *Op[Q, A]) Answers() reflect.Type { return reflect.TypeFor[A]() }

// Ask calls a bridge.
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

	// Not means that the parameter is the opposite of the field; Given, that the field says whether the request has the
	// parameter, whose value is in another field; Required, that there is no default.
	Not, Given, Required bool
}

// Fields returns the parts of a request: fields of a struct, and of structs in it, with a tag path, query, header or
// body that has a name. Parameters of a query also have min, max and default, which the server enforces, and enum.
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
