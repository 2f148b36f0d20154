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

// With --host or $TEAMBRIDGE_HOST, operations are done by the service there, and by nothing else:
// no file of this machine is read, and if that service does not answer, the command fails.

// elsewhere is a service that --host names.
type elsewhere struct {
	name   string      // as it was given
	socket string      // of unix:PATH
	host   ssh.Host    // else
	remote string      // the program there
	dialer *ssh.Dialer // nil for a socket
}

// bare are the commands that need neither files nor a service: --host means nothing to them.
var bare = []string{"help", "completion", "version", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// byPrograms are the commands that other programs run, which are about this machine whatever the
// environment says.
var byPrograms = []string{"mcp", "hook stop", "hook wait", "dial-stdio"}

// onlyOnes says of the other commands that cannot run with --host why that is.
var onlyOnes = []struct{ command, why string }{
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

// chooseHost finds out whether a command is for a service elsewhere, and connects to it.
func (a *access) chooseHost(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("host")
	if a.hostName == "" && !given {
		a.hostName, _ = a.lookup("TEAMBRIDGE_HOST")
	}
	command := strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()), " ")
	if a.hostName == "" || slices.Contains(bare, command) || !given && slices.Contains(byPrograms, command) {
		return nil
	}
	there, err := parseHost(a.hostName)
	if err != nil {
		return err
	}
	there.remote, _ = a.lookup("TEAMBRIDGE_REMOTE")
	a.there = &there
	if err := a.onlyHere(command); err != nil {
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

// onlyHere is the error of a command that cannot run with --host; nil if it can.
func (a *access) onlyHere(command string) error {
	if a.there == nil {
		return nil
	}
	for _, c := range onlyOnes {
		if command == c.command || strings.HasPrefix(command, c.command+" ") {
			return usage(a.there.line(command), "%s does not work with --host: %s", command, c.why)
		}
	}
	return nil
}

func parseHost(name string) (elsewhere, error) {
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		if path == "" {
			return elsewhere{}, usage("as in: unix:/run/user/1000/tb.sock", "invalid host %q: the path is missing", name)
		}
		path, err := filepath.Abs(path)
		return elsewhere{name: name, socket: path}, err
	}
	host, err := ssh.Parse(name)
	return elsewhere{name: name, host: host}, err
}

// line says what to type to run a command there.
func (e *elsewhere) line(command string) string {
	line := "teambridge " + command
	if e.socket != "" {
		return "on the machine of the service: " + line
	}
	terminal := command == "run" || command == "setup" || command == "switch" || command == "service logs"
	return "on that machine: " + e.host.Line(cmp.Or(e.remote, "teambridge")+" "+command, terminal)
}

// connect connects to the service there, which then does all operations.
func (a *access) connect(ctx context.Context) error {
	c, err := a.dial(ctx, false)
	if err == nil {
		a.backend = &backend{Bridge: c, service: c}
	}
	return err
}

// dial connects to the service there. With batch, nobody is asked anything, and signals of the
// terminal are not for ssh.
func (a *access) dial(ctx context.Context, batch bool) (*client.Client, error) {
	opts := client.Options{Agent: a.agent, Broken: a.connectionBroke}
	if e := a.there; e.socket != "" {
		opts.Socket, opts.Patience = e.socket, cmp.Or(a.wait, answerWait)
	} else {
		var later io.Writer // none: what the attempts to connect again say would come for ever
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
		return nil, failed // it says all
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

// unsure says of an error of sending a message under an id to a service elsewhere what is known of
// the message. Other errors stay.
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

// connectionBroke warns once that a stream broke and is connected again.
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

// personDir is the directory of the person, "" on another machine.
func (f *files) personDir() (string, error) {
	if f.there != nil {
		return "", nil
	}
	return f.cwd()
}

// errNoFiles is the error of what would use files of this machine for a service elsewhere.
func (f *files) errNoFiles() error {
	return fmt.Errorf("internal error: files of this machine were asked for with --host %s", f.there.name)
}

// dirThere checks a directory or a file that a flag names, for a service elsewhere.
func dirThere(flag string, path *string) error {
	if *path == "" || strings.HasPrefix(*path, "/") {
		return nil
	}
	return usage("with --host, it is a path on that machine", "--%s %s is not an absolute path", flag, *path)
}
