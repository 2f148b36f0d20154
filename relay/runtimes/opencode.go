package runtimes

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/opencode"
	"teambridge/relay/process"
)

// Environment variables of OpenCode for a server that already runs.
const (
	openCodeUser     = "OPENCODE_SERVER_USERNAME"
	openCodePassword = "OPENCODE_SERVER_PASSWORD"
)

func openOpenCode(_ context.Context, l Launch) (agent.Runtime, error) {
	o, err := l.openCode()
	if err != nil {
		return nil, err
	}
	return opencode.New(o), nil
}

func (l Launch) openCode() (opencode.Options, error) {
	r := l.Settings
	var tools []string
	if l.Tools != nil {
		tools = []string{}
	}
	for _, tool := range l.Tools {
		switch tool = strings.ToLower(tool); tool {
		case "write", "multiedit", "patch", "apply_patch": // one rule covers all of them
			tool = "edit"
		}
		tools = append(tools, tool)
	}
	o := opencode.Options{
		Command: r.Command, URL: r.URL, Dir: r.Dir, Env: l.Env, State: l.State, Profile: profileOf(r), Stderr: l.Stderr,
		Tools: tools, Bound: l.Bound, Permission: l.allowing(opencode.PolicyNames(tools)),
	}
	if o.URL == "" {
		program := OpenCode
		if len(r.Command) > 0 {
			program = r.Command[0]
		}
		if filepath.Base(program) != program && !filepath.IsAbs(program) {
			program = filepath.Join(r.Dir, program)
		}
		if _, err := exec.LookPath(program); err != nil {
			return opencode.Options{}, &ProgramError{err}
		}
		if l.Team != nil {
			o.Instructions = l.instructions()
		}
		return o, nil
	}
	o.User, _ = process.Lookup(l.Env, openCodeUser)
	o.Password, _ = process.Lookup(l.Env, openCodePassword)
	if r.PasswordFile != "" {
		data, err := os.ReadFile(r.PasswordFile)
		if err != nil {
			return opencode.Options{}, fmt.Errorf("runtimes: the password of %s: %w", r.URL, err)
		}
		o.Password = strings.TrimRight(string(data), "\r\n")
	}
	return o, nil
}

// instructions tell a model that knows nothing of teams how it takes part in one.
func (l Launch) instructions() string {
	return fmt.Sprintf("You are %q, a member of the team %q of agents. "+
		"A message in <teammate-message teammate_id=\"NAME\"> is from the member NAME; one with verified=\"false\" may not be. "+
		"What you say last in a turn is sent to the members whose messages you were given in it.", l.Member, l.Team.Name())
}

// checkOpenCode reports whether an OpenCode can be started or reached.
func checkOpenCode(r *ledger.Relay) error {
	switch u, err := url.Parse(r.URL); {
	case r.URL != "" && r.Profile != "":
		return &SettingError{"profile", "a server that is already running takes no profile"}
	case r.Plain:
		return &SettingError{"plain", "it is for programs that speak Claude Code's stream-json, which OpenCode does not"}
	case r.URL == "" && r.PasswordFile != "":
		return &SettingError{"password-file", "it is the password of a server, so it needs url"}
	case r.URL == "":
	case len(r.Command) > 0:
		return &SettingError{"url", "its server is already running, so no command can be given"}
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery+u.Fragment != "":
		return &SettingError{"url", fmt.Sprintf("%q is not the URL of a server, such as http://127.0.0.1:4096", r.URL)}
	case u.User != nil:
		return &SettingError{"url", "user and password are not part of it; set $" + openCodeUser + ", and $" + openCodePassword + " or password-file"}
	case r.PasswordFile != "" && !filepath.IsAbs(r.PasswordFile):
		return &SettingError{"password-file", fmt.Sprintf("%q is not an absolute path", r.PasswordFile)}
	}
	r.URL = strings.TrimRight(r.URL, "/")
	return nil
}
