package opencode

import (
	"io"
	"os"

	"teambridge/relay/agent"
	"teambridge/relay/profile"
)

// Options say which OpenCode to run, and how.
type Options struct {
	Command []string // ["opencode"] if empty; serve and its flags are added

	// URL is the address of a running server; if empty, one is started. User and Password are for its basic
	// authentication; a server that is started gets a password of its own.
	URL, User, Password string

	Dir   string   // absolute; the directory that the agent works in
	Env   []string // of a server that is started; nil means the environment of this process
	State string   // our state directory, for the configurations and files of running servers

	// Profile is the agent's profile; the zero Ref is none. It is read again at each start.
	Profile profile.Ref
	// Tools are the only tools of the agent; nil means those of its profile.
	Tools []string

	// Bound ends a started server together with this process, even if the process is killed (on Linux).
	Bound bool

	// Instructions are added to the system prompt, after the user's own.
	Instructions string

	// Permission answers the agent's permission requests; nil denies all.
	Permission *agent.Permission

	Stderr io.Writer // gets the standard error of a server that is started; may be nil

	profile profile.Profile // the content of Profile when it was read
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
