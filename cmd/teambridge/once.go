package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"teambridge/status/api"
	"teambridge/status/client"
)

// once has do send with what was chosen and, if that is a service that fails, on the files. A message under the id, which is "" for a
// new one, is sent once. If again is not set, what the service may have done is not done on the files. A service elsewhere that fails
// is an error, as is one that fails while it is asked for something else.
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

// serviceFailed reports whether an error is not about a request but about the service, and whether
// that may have done what it was asked.
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
