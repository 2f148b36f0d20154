//go:build !linux

package teams

// commandIDs is not implemented on this system: see command_linux.go.
func commandIDs(int) (ids map[string]bool, ok bool) { return nil, false }
