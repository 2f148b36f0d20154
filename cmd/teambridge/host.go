package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/ssh"
	"teambridge/status/view"
)

// With --host or $TEAMBRIDGE_HOST, the service on that host does all operations. No file of this machine is read,
// and if the service does not answer, the command fails.

// remoteHost is the service that --host names.
type remoteHost struct {
	name   string      // the value of --host
	socket string      // the path of unix:PATH; empty: use host
	host   ssh.Host    // where ssh connects to
	remote string      // the teambridge program on that host; empty: the one in its $PATH
	dialer *ssh.Dialer // nil for a socket
}

// hostless lists the commands that need neither files nor a service, and ignore --host.
var hostless = []string{"help", "completion", "version", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// runByPrograms lists the commands that other programs run. They ignore $TEAMBRIDGE_HOST.
var runByPrograms = []string{"mcp", "hook stop", "hook wait", "dial-stdio"}

// localCommands lists the other commands that cannot run with --host, and why.
var localCommands = []struct{ command, why string }{
	{"run", "it runs an agent in this terminal"},
	{"query", "it runs an agent here"},
	{"switch", "it waits at the files of the session"},
	{"pane test --pane", "it looks at a pane of the tmux here"},
	{"mcp", "it is for an agent on this machine"},
	{"hook", "it is about a settings file and a session on this machine"},
	{"plugin", "it is about Claude Code on this machine"},
	{"setup", "it is about the programs on this machine"},
	{"profile", "it reads files on this machine"},
	{"serve", "it is the service of this machine"},
	{"service", "it is about the service of this machine"},
	{"dial-stdio", "it is what runs there"},
	{"doctor", "it looks at files and programs of this machine"},
	{"gc", "it cleans up files of this machine"},
	{"export", "it reads the journal of this machine"},
	{"demo", "it runs here"},
}

// chooseHost connects to the service of --host or $TEAMBRIDGE_HOST, if the command is for one.
func (a *access) chooseHost(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("host")
	if a.hostName == "" && !given {
		a.hostName, _ = a.lookup("TEAMBRIDGE_HOST")
	}
	command := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")
	if a.hostName == "" || slices.Contains(hostless, command) || !given && slices.Contains(runByPrograms, command) {
		return nil
	}
	there, err := parseHost(a.hostName)
	if err != nil {
		return err
	}
	there.remote, _ = a.lookup("TEAMBRIDGE_REMOTE")
	a.there = &there
	if err := a.localOnly(command); err != nil {
		if !given {
			f := view.Explain(err)
			return usage(f.Hint+`; here: teambridge --host "" `+command, "%s", f.Message)
		}
		return err
	}
	if cmd.HasSubCommands() || command == "ui" { // the overview and ui connect by themselves
		return nil
	}
	return a.connect(cmd.Context())
}

// localOnly returns the error for a command that cannot run with --host, or nil.
func (a *access) localOnly(command string) error {
	if a.there == nil {
		return nil
	}
	for _, c := range localCommands {
		if command == c.command || strings.HasPrefix(command, c.command+" ") {
			return usage(a.there.line(command), "%s does not work with --host: %s", command, c.why)
		}
	}
	return nil
}

func parseHost(name string) (remoteHost, error) {
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		if path == "" {
			return remoteHost{}, usage("as in: unix:/run/user/1000/tb.sock", "invalid host %q: the path is missing", name)
		}
		path, err := filepath.Abs(path)
		return remoteHost{name: name, socket: path}, err
	}
	host, err := ssh.Parse(name)
	return remoteHost{name: name, host: host}, err
}

// line returns what to type to run a command on that host.
func (e *remoteHost) line(command string) string {
	line := "teambridge " + command
	if e.socket != "" {
		return "on the machine of the service: " + line
	}
	terminal := command == "run" || command == "setup" || command == "switch" || command == "service logs"
	return "on that machine: " + e.host.Line(cmp.Or(e.remote, "teambridge")+" "+command, terminal)
}

// connect connects to the service of --host, and makes it the backend.
func (a *access) connect(ctx context.Context) error {
	c, err := a.dial(ctx, false)
	if err == nil {
		a.backend = &backend{Bridge: c, service: c}
	}
	return err
}

// dial connects to the service of --host. With batch, ssh prompts for nothing, and ignores signals of the terminal.
func (a *access) dial(ctx context.Context, batch bool) (*client.Client, error) {
	opts := client.Options{Agent: a.agent, Broken: a.connectionBroke}
	if e := a.there; e.socket != "" {
		opts.Socket, opts.Patience = e.socket, cmp.Or(a.wait, answerWait)
	} else {
		var later io.Writer // by default, hide the errors of reconnecting, which would repeat forever
		if a.verbose {
			later = a.stderr
		}
		e.dialer = &ssh.Dialer{Host: e.host, Remote: e.remote, Stderr: a.stderr, Later: later, Batch: batch}
		a.atEnd(e.dialer.Close)
		opts.Dial, opts.Where, opts.Pipe = e.dialer.Dial, e.name, true
	}
	c, err := client.New(opts)
	if err != nil {
		return nil, err
	}
	a.atEnd(func() error { c.Close(); return nil })
	a.debug("connecting to %s", a.there.name)
	v, err := c.Version(ctx)
	if failed, ok := errors.AsType[*ssh.Error](err); ok {
		return nil, failed // its text is complete
	}
	if err = cmp.Or(err, outdated(c, v)); err != nil {
		return nil, err
	}
	a.debug("asking the service at %s", c.Where())
	return c, nil
}

// sshFault returns the code and the hint of an error of package ssh.
func sshFault(e *ssh.Error) (api.Code, string) {
	switch e.Why {
	case ssh.NoProgram:
		return api.CodeNotFound, "install the client of OpenSSH"
	case ssh.Failed:
		return api.CodeTimeout, "see that this works: " + e.Host.Line("true", false)
	case ssh.NotInstalled:
		return api.CodeNotFound, "install teambridge there, or name the program with $TEAMBRIDGE_REMOTE"
	case ssh.NoService:
		if e.Host.Socket != "" {
			return api.CodeNotFound, "nobody listens at " + e.Host.Socket + "; without a path, the service is found by itself"
		}
		return api.CodeNotFound, "start it: " + e.Host.Line("systemctl --user start teambridge", false) +
			"; to keep it while you are not logged in there: " + e.Host.Line("loginctl enable-linger", false)
	case ssh.OtherVersion:
		return api.CodeError, "install this version there, and restart the service: " + e.Host.Line("systemctl --user restart teambridge", false)
	case ssh.Lost:
		return api.CodeTimeout, "try again"
	case ssh.Silent:
		return api.CodeTimeout, "see that this works: " + e.Host.Line(e.Remote+" version", false)
	}
	return api.CodeError, "see that this works: " + e.Host.Line(e.Remote+" version", false)
}

// unsure adds to the error of a send through --host whether the message was possibly sent. It returns other
// errors unchanged.
func (a *access) unsure(err error, id string) error {
	u, ok := errors.AsType[*client.UnreachableError](err)
	switch {
	case !ok || a.there == nil:
		return err
	case !u.Sent:
		f, _ := explain(context.Background(), err)
		return api.Decide(f.Code, "nothing was sent; "+f.Hint, "%w", err)
	}
	return api.Decide(api.CodeUnknown, "send it again under the same id, which sends it once: teambridge send --id "+id, "it is not known whether the message %s was sent: %w", id, err)
}

// connectionBroke warns that the event stream broke and is being reconnected, once for each break.
func (a *access) connectionBroke(err error) {
	why := view.Describe(err)
	if errors.Is(err, io.EOF) {
		why = "the service sends no more events"
	}
	a.debug("connecting again: %s", why)
	if !a.broken {
		a.warn("%s; connecting again", why)
	}
	a.broken = true
}

// personDir returns the current directory, or "" with --host.
func (f *files) personDir() (string, error) {
	if f.there != nil {
		return "", nil
	}
	return f.cwd()
}

// errNoFiles returns the internal error for a use of this machine's files with --host.
func (f *files) errNoFiles() error {
	return fmt.Errorf("internal error: files of this machine were asked for with --host %s", f.there.name)
}

// dirThere checks that a path in a flag is absolute, since with --host it is a path on that host.
func dirThere(flag string, path *string) error {
	if *path == "" || strings.HasPrefix(*path, "/") {
		return nil
	}
	return usage("with --host, it is a path on that machine", "--%s %s is not an absolute path", flag, *path)
}
