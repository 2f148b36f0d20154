package teams

import (
	"slices"
	"strings"
)

// EnableVariable must be set for Claude Code to make teams: in its environment, or in the "env" of its
// settings.
const EnableVariable = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"

// Enables reports whether Claude Code makes teams if [EnableVariable] has this value.
func Enables(value string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(strings.TrimSpace(value)))
}
