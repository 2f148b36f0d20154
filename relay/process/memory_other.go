//go:build !linux

package process

import "runtime/debug"

// GiveBack gives the system back the memory that this process does not need to wait.
func GiveBack() { debug.FreeOSMemory() }
