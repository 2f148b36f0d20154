//go:build !linux

package process

import "errors"

// OnEnd fails: it needs Linux.
func OnEnd(int, func()) (stop func(), err error) { return nil, errors.ErrUnsupported }
