// Package winetest tells tests that run with Wine, which is not Windows in all things.
package winetest

import "testing"

// Running reports whether the process runs with Wine.
func Running() bool { return running() }

// Skip skips a test that Wine cannot pass, with what Wine does differently.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if running() {
		t.Skip("Wine: " + reason)
	}
}
