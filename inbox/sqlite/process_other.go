//go:build !linux

package sqlite

// Uses reports whether a process has the file at path open. This system does not report it.
func Uses(int, string) (uses, known bool) { return false, false }

// Users returns the other processes that have the file at path open. This system does not report them.
func Users(string) (list []Process, known bool) { return nil, false }
