package opencode

import (
	"slices"

	"teambridge/relay/profile"
)

// guards are rules that apply to effects of tools, not to single tools.
var guards = []string{"external_directory", "doom_loop"}

// limitTools denies all tools that a profile does not list. OpenCode hides denied tools from the model. The
// listed tools are allowed, or need permission, as without a profile.
func limitTools(rules map[string]any, p profile.Profile) {
	if p.Tools != nil {
		other := rules["*"]
		has := slices.Clone(guards)
		for _, t := range p.Tools {
			name, _ := toolOf(t)
			has = append(has, name)
		}
		for _, name := range has {
			if _, ok := rules[name]; !ok {
				rules[name] = other
			}
		}
		for name := range rules {
			if !slices.Contains(has, name) {
				rules[name] = "deny"
			}
		}
	}
	for _, t := range p.Disallowed {
		name, pattern := toolOf(t)
		setRule(rules, name, pattern, "deny")
	}
}
