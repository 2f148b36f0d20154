package opencode

import (
	"io"
	"os"

	"teambridge/relay/agent"
	"teambridge/relay/profile"
)

// Options say which OpenCode to run, and how.
type Options struct {
	Command []string // empty means ["opencode"]; serve and its flags are appended

	// URL is the address of a running server; if it is empty, each agent gets its own server. User and
	// Password are for basic authentication at the URL; our own server gets a password of its own.
	URL, User, Password string

	Dir   string   // absolute; the directory that the agent works in
	Env   []string // the environment of our server; nil means the environment of this process
	State string   // our state directory, for the configurations and files of running servers

	// Profile is the agent's profile; the zero Ref means none. It is read again at each start.
	Profile profile.Ref
	// Tools are the agent's only tools; nil means the tools of its profile.
	Tools []string

	// Bound ends our server together with this process, even if the process is killed (on Linux).
	Bound bool

	// Instructions are appended to the system prompt, after the user's own.
	Instructions string

	// Permission answers the agent's permission requests; nil denies all.
	Permission *agent.Permission

	Stderr io.Writer // receives the standard error of our server; may be nil

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
