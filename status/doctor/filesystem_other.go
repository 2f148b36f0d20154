//go:build !linux

package doctor

// eventless is about Linux.
func eventless(string) string { return "" }
