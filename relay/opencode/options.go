package opencode

import (
	"io"
	"os"

	"teambridge/relay/agent"
	"teambridge/relay/profile"
)

// Options say which OpenCode is run, and how.
type Options struct {
	Command []string // ["opencode"] if empty; serve and its flags are added

	// URL is the address of a running server. If it is empty, one is started. User and
	// Password are for basic authentication; a server that is started gets its own.
	URL, User, Password string

	Dir   string   // absolute; the directory that the agent works in
	Env   []string // of a server that is started; nil means the environment of this process
	State string   // our state directory, for the configurations and files of running servers

	// Profile is what the agent is to be; the zero Ref is none. It is read again at each start.
	Profile profile.Ref
	// Tools are all tools that the agent has, in place of those of its profile; nil: those.
	Tools []string

	// Bound ends a server that is started with this process, even if that is killed (on Linux).
	Bound bool

	// Instructions are added to the system prompt, after the user's own.
	Instructions string

	// Permission answers what the agent asks for; nil: nothing is allowed that it asks for.
	Permission *agent.Permission

	Stderr io.Writer // gets the standard error of a server that is started; may be nil

	profile profile.Profile // as it was read
}

func (o Options) command() []string {
	if len(o.Command) == 0 {
		return []string{"opencode"}
	}
	return o.Command
}

func (o Options) env() []string {
	if o.Env == nil {
		return os.Environ()
	}
	return o.Env
}
