package mode

import "slices"

// permissions lists the permission modes of Claude Code that agents work in, from the narrowest to the widest.
var permissions = []string{"plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions"}

// Permissions returns the names of all permission modes of Claude Code that an agent can be set to.
func Permissions() []string { return append(slices.Clone(permissions), manual) }

const manual = "manual" // newer versions' name of the default mode

// Wider reports whether a permission mode may allow what another does not. An unknown mode counts as the widest.
func Wider(mode, than string) bool {
	rank := func(m string) int {
		if m == manual {
			m = "default"
		}
		return slices.Index(permissions, m)
	}
	got, limit := rank(mode), rank(than)
	if mode == than || limit < 0 {
		return false
	}
	return got > limit || got < 0
}
