package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/status/supervisor"
	"teambridge/status/view"
)

func newService(a *app) *cobra.Command {
	return group("service", "Let the system run the service from login on",
		`Let systemd, launchd (macOS) or the Task Scheduler (Windows) run
"teambridge serve", from your login on.`,
		newServiceInstall(a), newServiceRestart(a), newServiceUninstall(a), newServiceStatus(a), newServiceLogs(a))
}

type installOptions struct {
	serveOptions
	noStart bool
}

func newServiceInstall(a *app) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Make the system run the service, and start it",
		Long: `Make the system run "teambridge serve" from your login on, and start it.

It runs this binary with the Claude directory, state directory, flags and $PATH
of this call, now and at each login, and again if it ends. On Linux it is a
systemd user unit, ~/.config/systemd/user/teambridge.service. On macOS it is an
agent of launchd, ~/Library/LaunchAgents/teambridge.plist; on Windows, a task of
the Task Scheduler, with the environment of your account. The last two were not
tried on a real system.

Installing again updates the file, and restarts the service if something
changed. If teambridge has not written the file of that name, it is not changed.

Exit status: 0 it runs (with --no-start: the file is written); 1 the system
failed, but the file is written; 2 invalid address; 3 no Claude directory; 5 the
file was not written by teambridge.`,
		Example: `  teambridge service install --listen 127.0.0.1:7420
  loginctl enable-linger      # also while you are not logged in`,
		RunE: func(cmd *cobra.Command, _ []string) error { return installService(cmd.Context(), a, o) },
	}
	serveFlags(cmd, &o.serveOptions)
	cmd.Flags().BoolVar(&o.noStart, "no-start", false, "only write the file; start nothing")
	return cmd
}

func newServiceRestart(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restart",
		Short: "Restart the service, as after an upgrade",
		Long: `Restart the service with the program that is installed now.

Its agents have 30 seconds to finish their turns, except on Windows, where they
are ended at once. No message is lost or repeated: if an agent had to be ended,
its messages are looked up in its transcript.

Exit status: 0 it runs again; 1 the system failed; 3 it is not installed, or
does not answer; 5 its file was not written by teambridge.`,
		Example: `  teambridge service restart`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return restartService(cmd.Context(), a) },
	}
}

func newServiceUninstall(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service, and no longer start it at login",
		Long: `Stop the service, and no longer start it at login.

Its records and its token stay in the state directory.

Exit status: 0, even if it was not installed; 1 the system did not stop it; 5
its file was not written by teambridge.`,
		Example: `  teambridge service uninstall`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return uninstallService(cmd.Context(), a) },
	}
}

func newServiceStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show whether the service runs, and where it listens",
		Long: `Show whether the service is installed and whether one answers.

It does not matter how the service was started, if it serves the Claude
directory. A version other than this program's is shown.

Exit status: 0 a service answers; 3 none does.`,
		Example: `  teambridge service status`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serviceStatus(cmd.Context(), a) },
	}
}

func newServiceLogs(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of the service",
		Long: `Show the last 100 lines of the log of the service.

The log is journalctl's or, on macOS and Windows, service.log in the state
directory.

Exit status: 0; 1 it could not be shown; 3 there is none.`,
		Example: `  teambridge service logs --follow`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return serviceLogs(cmd.Context(), a, follow) },
	}
	followFlag(cmd, &follow)
	return cmd
}

func installService(ctx context.Context, a *app, o installOptions) error {
	u, err := a.job()
	if err != nil {
		return err
	}
	answer, err := installWith(ctx, a, u, o)
	if err != nil {
		return err
	}
	if err := a.answer(answer, "%s  %s\n", orUnchanged("installed", answer.Changed), escape(u.Path, false)); err != nil {
		return err
	}
	a.note("%s", u.Note(answer))
	return nil
}

// installWith installs the service with u, and waits until it answers.
func installWith(ctx context.Context, a *app, u supervisor.Job, o installOptions) (answer api.Installed, err error) {
	text, err := unitText(a, u, o.serveOptions)
	if err == nil && !o.noStart {
		err = refuseSecond(a, u)
	}
	if err != nil {
		return answer, err
	}
	if answer, err = u.Install(ctx, text, !o.noStart); err != nil {
		return answer, installError(a, err)
	}
	return answer, awaitService(ctx, a, u, answer.Started)
}

// atLogin is the step service of setup. It does the same as "service install" without flags.
type atLogin struct {
	supervisor.Job
	app *app
}

// File returns the path of the unit.
func (l atLogin) File() string { return l.Path }

// Installed reports whether the unit exists and was written by teambridge.
func (l atLogin) Installed() (bool, error) {
	_, err := l.Read()
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Install installs and starts the service.
func (l atLogin) Install(ctx context.Context) (changed bool, err error) {
	answer, err := installWith(ctx, l.app, l.Job, installOptions{serveOptions: serveOptions{keepWork: server.KeepWork, as: api.Guest}})
	return answer.Changed, err
}

// Uninstall stops the service.
func (l atLogin) Uninstall(ctx context.Context) (removed bool, err error) {
	answer, stopped, err := l.Job.Uninstall(ctx)
	if err == nil && !stopped {
		l.app.warn("%s", l.NotStopped())
	}
	return answer.Removed, err
}

// unitText returns the unit of the service, with the flags and the environment of this call.
func unitText(a *app, u supervisor.Job, o serveOptions) (string, error) {
	if err := o.check(); err != nil {
		return "", err
	}
	binary, err := ownBinary()
	if err != nil {
		return "", err
	}
	root, err := a.root()
	if err != nil {
		return "", err
	}
	if _, err := server.New(server.Options{Root: root, State: a.state, Listen: o.listen}); err != nil {
		return "", err // an invalid address
	}
	args := []string{binary, "serve", "--claude-dir", root.Path(), "--state-dir", a.state}
	for _, l := range o.listen {
		if path, ok := strings.CutPrefix(l, "unix:"); ok {
			if path, err = filepath.Abs(path); err != nil {
				return "", err
			}
			l = "unix:" + path
		}
		args = append(args, "--listen", l)
	}
	if o.readOnly {
		args = append(args, "--read-only")
	}
	if o.keepWork != server.KeepWork {
		args = append(args, "--keep-work", o.keepWork.String())
	}
	for _, team := range o.keep {
		args = append(args, "--keep-transcripts", team)
	}
	if o.as != api.Guest {
		args = append(args, "--as", o.as)
	}
	if _, err := payloads(a, o.modes); err != nil {
		return "", err
	}
	if o.modes != "" {
		args = append(args, "--permission-mode-map", o.modes)
	}
	told, err := o.alerts.destinations(a.lookup)
	if err != nil {
		return "", err
	}
	for _, d := range told {
		if d.Variable != "" {
			return "", usage("put it into a file that you alone can read: --alert "+d.Kind+"=FILE", "--alert %s=env:%s: the variable would have to be in the unit, which others can read", d.Kind, d.Variable)
		}
		args = append(args, "--alert", d.Kind+"="+d.File)
	}
	if o.alerts.text {
		args = append(args, "--alert-text")
	}
	if a.verbose {
		args = append(args, "--verbose")
	}
	path, _ := a.lookup("PATH")
	env := []string{"PATH=" + path}
	if value, _ := a.lookup(relay.ModernVariable); value != "" {
		env = append(env, relay.ModernVariable+"="+value)
	}
	return u.Text(args, env)
}

// installError adds a hint to err if the system could not start the service because another one runs.
func installError(a *app, err error) error {
	d, ok := errors.AsType[*api.Decided](err)
	if root, rerr := a.root(); rerr == nil && ok && d.Code == api.CodeError && !errors.Is(err, exec.ErrNotFound) {
		if c, ferr := client.Find(a.state, root.Path()); ferr == nil {
			d.Hint = "a service that the system did not start runs at " + c.Where() + ": end it, and install again"
		}
	}
	return err
}

func restartService(ctx context.Context, a *app) error {
	u, err := a.job()
	if err != nil {
		return err
	}
	if err := u.Restart(ctx); err != nil {
		return err
	}
	if err := awaitService(ctx, a, u, true); err != nil {
		return err
	}
	return serviceStatus(ctx, a)
}

func uninstallService(ctx context.Context, a *app) error {
	u, err := a.job()
	if err != nil {
		return err
	}
	answer, stopped, err := u.Uninstall(ctx)
	if err != nil {
		return err
	}
	if !answer.Removed && !a.json {
		a.note("%s does not exist", u.Path)
		return nil
	}
	if !stopped {
		a.warn("%s", u.NotStopped())
	}
	return a.answer(answer, "removed  %s\n", escape(u.Path, false))
}

type serviceState struct {
	Installed bool     `json:"installed"`
	Unit      string   `json:"unit"`
	State     string   `json:"state"`            // the system's word: active, inactive, failed, …; unknown
	Answers   bool     `json:"answers"`          // a service for the Claude directory answers
	PID       int      `json:"pid,omitempty"`    // its process
	Listen    []string `json:"listen,omitempty"` // its addresses
	Version   string   `json:"version,omitempty"`
	Other     bool     `json:"other,omitempty"`  // its version or build is not this program's, as after an upgrade
	Reason    string   `json:"reason,omitempty"` // why it does not answer
}

func serviceStatus(ctx context.Context, a *app) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	u, err := a.job()
	if err != nil {
		return err
	}
	s := serviceState{Unit: u.Path, State: "unknown"}
	switch _, err := u.Read(); {
	case err == nil:
		s.Installed = true
		state, err := u.State(ctx)
		if s.State = cmp.Or(state, s.State); err != nil {
			a.debug("%v", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		a.warn("%s", view.Describe(err))
	}
	switch err := askVersion(ctx, a, root.Path(), &s); {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case errors.Is(err, fs.ErrNotExist):
		s.Reason = "no service runs for " + root.Path()
	default:
		s.Reason = view.Describe(err)
	}
	if err := printService(a, u.System, s); err != nil {
		return err
	}
	if !s.Answers {
		return exitStatus(api.ExitNotFound)
	}
	return nil
}

// askVersion asks the service of a Claude directory for its version, and fills in s.
func askVersion(ctx context.Context, a *app, root string, s *serviceState) error {
	c, err := client.FindWith(a.state, root, client.Options{Patience: cmp.Or(a.wait, answerWait)})
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.Version(ctx)
	if err != nil {
		return err
	}
	s.Answers, s.Version, s.Other = true, v.Version.Version, v.Version.Other(build())
	if card, err := api.ReadCard(a.state, root); err == nil {
		s.PID, s.Listen = card.PID, card.Listen
	}
	return nil
}

func printService(a *app, system string, s serviceState) error {
	if a.json {
		return a.printJSON(s)
	}
	var b strings.Builder
	line := func(name, text string) { fmt.Fprintf(&b, "%-10s%s\n", name, escape(text, false)) }
	if s.Answers {
		line("service", fmt.Sprintf("answers: process %d, teambridge %s", s.PID, s.Version))
		for _, l := range s.Listen {
			line("listens", l)
		}
		if s.Other {
			line("", "another version than this program: restart it with \"teambridge service restart\"")
		}
	} else {
		line("service", s.Reason)
	}
	if s.Installed {
		line(system, s.State)
		line("unit", s.Unit)
	} else {
		line(system, "not installed")
	}
	return a.print([]byte(b.String()))
}

const logLines = 100

func serviceLogs(ctx context.Context, a *app, follow bool) error {
	u, err := a.job()
	if err != nil {
		return err
	}
	command, err := u.LogCommand(follow, logLines, a.json)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = a.stdout, a.stderr
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return api.Decide(api.CodeError, "\"teambridge serve\" logs to its stderr", "%s was not found", command[0])
	case err != nil:
		return fmt.Errorf("%s: %w", command[0], err)
	}
	return nil
}
