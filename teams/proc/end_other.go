//go:build !linux

package proc

import "errors"

// OnEnd fails: it needs Linux.
func OnEnd(int, func()) (stop func(), err error) { return nil, errors.ErrUnsupported }
