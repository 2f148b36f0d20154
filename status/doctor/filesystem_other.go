//go:build !linux

package doctor

// eventless returns "": it is implemented only for Linux.
func eventless(string) string { return "" }
