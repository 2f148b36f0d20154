package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"teambridge/status/api"
	"teambridge/status/client"
)

// once calls do with the backend c and, if that is a service that fails, again with the files. Both calls get
// the same message id (a new one if id is empty), so that the message is sent once. Without again, do is not
// repeated if the service may have carried it out. With --host, a failing service is an error.
func once[T any](ctx context.Context, a *app, c *backend, id string, again bool, do func(b api.Bridge, id string) (T, error)) (T, error) {
	if c.service == nil {
		return do(c.Bridge, id)
	}
	key := cmp.Or(id, uuid.NewString())
	v, err := do(c.Bridge, key)
	failed, sent := serviceFailed(err)
	if !failed || sent && !again || ctx.Err() != nil || a.there != nil {
		return v, err
	}
	a.debug("going on without the service: %v", err)
	if !sent {
		key = id
	}
	return do(a.local(), key)
}

// serviceFailed reports whether the service failed, rather than the request, and whether the service may have
// carried out the request.
func serviceFailed(err error) (failed, sent bool) {
	if u, ok := errors.AsType[*client.UnreachableError](err); ok {
		return true, u.Sent
	}
	if errors.As(err, new(*client.SkewError)) {
		return true, true
	}
	if p, ok := errors.AsType[*api.Problem](err); ok {
		switch p.Code {
		case api.CodeUnauthorized, api.CodeForbidden, api.CodeReadOnly, api.CodeTooMany, api.CodeUnavailable, api.CodeInterrupted:
			return true, true
		}
	}
	return false, false
}
