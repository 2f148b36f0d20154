//go:build !linux

package demo

import (
	"context"
	"errors"
)

// session does nothing: simulated sessions need Linux.
func (d *demonstration) session(context.Context) error { return nil }

func playSession(string) error { return errors.ErrUnsupported }
