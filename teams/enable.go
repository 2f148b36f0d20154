package teams

import (
	"slices"
	"strings"
)

// EnableVariable is the variable without which Claude Code makes no teams: in its environment, or in the "env" of its settings.
const EnableVariable = "CLAUDE_CODE_EXPERIMENTAL_AGENT_TEAMS"

// Enables reports whether Claude Code makes teams if [EnableVariable] has that value.
func Enables(value string) bool {
	return slices.Contains([]string{"1", "true", "yes", "on"}, strings.ToLower(strings.TrimSpace(value)))
}
