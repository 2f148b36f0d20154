//go:build !linux

package demo

import "context"

// session does nothing: simulated sessions need Linux.
func (d *demonstration) session(context.Context) error { return nil }
