package claude

import (
	"fmt"
	"slices"

	"teambridge/relay/agent"
	"teambridge/relay/profile"
)

// profile adds the flags for the current content of the profile, and returns it; a zero one if there is none.
//
// Claude Code reads the file itself, so that keys unknown to this package work, too. If it does not find the
// name, it runs without any profile and with all tools; see [profiled].
func (o Options) profile(args *flags) (*profile.Profile, error) {
	if o.Profile.Name == "" {
		return &profile.Profile{}, nil
	}
	for _, name := range []string{"--agent", "--agents"} {
		if args.has(name) {
			return nil, &CommandError{fmt.Errorf("%s is in it, and the profile is to be %q", name, o.Profile.Name)}
		}
	}
	p, err := o.Profile.Load()
	if err != nil {
		return nil, err
	}
	args.add("--agent", p.Name)
	return p, nil
}

// profiled returns an error if a process that must have a profile does not list it.
func profiled(name string, payload Payload) error {
	if init, ok := payload.(Init); ok && name != "" && !slices.Contains(init.Agents, name) {
		return &agent.WidenedError{Profile: name}
	}
	return nil
}
