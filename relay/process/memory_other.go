//go:build !linux

package process

import "runtime/debug"

// GiveBack returns memory that a waiting process does not need to the system.
func GiveBack() { debug.FreeOSMemory() }
