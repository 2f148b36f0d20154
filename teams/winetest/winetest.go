// Package winetest tells tests that run with Wine, which is not Windows in all things.
package winetest

import (
	"runtime"
	"testing"
)

// Running reports whether the process runs with Wine.
func Running() bool { return running() }

// Skip skips a test that does not pass with Wine, with what happens there.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if running() {
		t.Skip("Wine: " + reason)
	}
}

// SkipLinks skips a test that needs symbolic links.
func SkipLinks(t testing.TB) {
	t.Helper()
	Skip(t, "it makes no symbolic links that Go knows as such")
}

// SkipUnix skips a test on Windows, with Wine or without, with what it needs of Unix.
func SkipUnix(t testing.TB, reason string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows: " + reason)
	}
}
