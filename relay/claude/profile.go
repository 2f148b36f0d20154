package claude

import (
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/agent"
	"teambridge/relay/profile"
)

// profile adds the flags for the profile as it is now, and returns it; a zero one if there is to be none.
//
// Claude Code reads the file itself, so that keys that are not known here count, too. It runs an agent without any profile,
// and with all tools, if it does not find the name; see [profiled].
func (o Options) profile(args *flags) (*profile.Profile, error) {
	if o.Profile.Name == "" {
		return &profile.Profile{}, nil
	}
	invalid := func(format string, a ...any) error {
		return fmt.Errorf("claude: command: %w: %w", ErrInvalid, fmt.Errorf(format, a...))
	}
	for _, name := range []string{"--agent", "--agents"} {
		if args.has(name) {
			return nil, invalid("%s is in it, and the profile is to be %q", name, o.Profile.Name)
		}
	}
	p, err := o.Profile.Load()
	if err != nil {
		return nil, err
	}
	args.add("--agent", p.Name)
	if !o.OldProfiles {
		return p, nil
	}
	if len(p.Hides) > 0 {
		return nil, invalid("profile %q is in both %s and %s, of which Claude Code before 2.1.181 takes another one: rename or remove one", p.Name, p.Path, p.Hides[0])
	}
	if p.Tools != nil {
		if args.has("--tools") {
			return nil, invalid("--tools is in it, and Claude Code before 2.1.181 needs it for the tools of the profile")
		}
		var names []string
		for _, t := range p.Tools {
			name, _, _ := strings.Cut(t, "(")
			names = append(names, name)
		}
		args.add("--tools=" + strings.Join(names, ","))
	}
	return p, nil
}

// profiled returns an error if a process that was started with a profile does not know it.
func profiled(name string, payload Payload) error {
	if init, ok := payload.(Init); ok && name != "" && !slices.Contains(init.Agents, name) {
		return &agent.WidenedError{Profile: name}
	}
	return nil
}
