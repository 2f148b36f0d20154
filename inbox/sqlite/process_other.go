//go:build !linux

package sqlite

// Uses reports whether a process has the file at path open. Here, that is not known.
func Uses(int, string) (uses, known bool) { return false, false }

func users(string) (list []Process, known bool) { return nil, false }
