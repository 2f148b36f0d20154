package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/server"
	"teambridge/status/view"
	"teambridge/teams/atomicfile"
)

func newService(a *app) *cobra.Command {
	return group("service", "Let systemd run the service: install, uninstall, status, logs",
		`Let systemd run "teambridge serve" as a user unit, from your login on.`,
		newServiceInstall(a), newServiceUninstall(a), newServiceStatus(a), newServiceLogs(a))
}

type installOptions struct {
	serveOptions
	noStart bool
}

func newServiceInstall(a *app) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Write the unit and start the service",
		Long: `Install "teambridge serve" as a systemd user unit, and start it.

The unit is ~/.config/systemd/user/teambridge.service. It runs this binary with
the Claude directory, state directory, flags and $PATH of this call, now and at
each login. Installing again changes what is different and then restarts the
service. A unit of that name that teambridge has not written is left alone.

Exit status: 0 it runs (with --no-start: the unit is written); 1 systemd failed,
but the unit is written; 2 invalid address; 3 no Claude directory; 5 the unit
was not written by teambridge.`,
		Example: `  teambridge service install --listen 127.0.0.1:7420
  loginctl enable-linger      # also while you are not logged in`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serviceInstall(cmd.Context(), o) },
	}
	serveFlags(cmd, &o.serveOptions)
	cmd.Flags().BoolVar(&o.noStart, "no-start", false, "only write the unit; do not run systemctl")
	return cmd
}

func newServiceUninstall(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the service and remove the unit",
		Long: `Stop the service and remove its systemd unit.

Its records and its token stay in the state directory.

Exit status: 0, even if it was not installed; 1 systemd did not stop it; 5 the
unit was not written by teambridge.`,
		Example: `  teambridge service uninstall`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serviceUninstall(cmd.Context()) },
	}
}

func newServiceStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show whether the service runs, and where it listens",
		Long: `Show whether the service is installed and whether one answers.

A service counts however it was started, if it serves the Claude directory.

Exit status: 0 a service answers; 3 none does.`,
		Example: `  teambridge service status`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serviceStatus(cmd.Context()) },
	}
}

func newServiceLogs(a *app) *cobra.Command {
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of the service",
		Long: `Show the log of the service from journalctl.

Exit status: 0; 1 journalctl is missing or failed.`,
		Example: `  teambridge service logs --follow`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.serviceLogs(cmd.Context(), follow, lines) },
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep printing new lines")
	cmd.Flags().IntVarP(&lines, "lines", "n", 100, "number of lines")
	return cmd
}

type installed struct {
	Unit    string `json:"unit"`
	Changed bool   `json:"changed"` // it was written
	Started bool   `json:"started"` // systemd says that it runs
}

func (a *app) serviceInstall(ctx context.Context, o installOptions) error {
	text, err := a.unitText(o.serveOptions)
	if err != nil {
		return err
	}
	path, err := a.unitPath()
	if err != nil {
		return err
	}
	answer := installed{Unit: path}
	was, err := readUnit(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if answer.Changed = was != text; answer.Changed {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), atomicfile.Write(path, []byte(text))); err != nil {
			return err
		}
	}
	if !o.noStart {
		if err := a.startUnit(ctx, answer.Changed && was != ""); err != nil {
			return &api.Decided{
				Err:  fmt.Errorf("the unit is written to %s, but systemd did not start it: %w", path, err),
				Code: api.CodeError, Hint: a.installHint(err),
			}
		}
		answer.Started = true
	}
	word := "installed"
	if !answer.Changed {
		word = "unchanged"
	}
	if err := a.answer(answer, "%s  %s\n", word, escape(path, false)); err != nil {
		return err
	}
	if o.noStart {
		a.note("start it with: systemctl --user daemon-reload && systemctl --user enable --now %s", unitName)
	} else {
		a.note("the service runs while you are logged in; \"loginctl enable-linger\" keeps it running")
	}
	return nil
}

// unitText is the unit for the flags and the environment of this call.
func (a *app) unitText(o serveOptions) (string, error) {
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
	args := []string{"--claude-dir", root.Path(), "--state-dir", a.state}
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
	if _, err := a.payloads(o.modes); err != nil {
		return "", err
	}
	if o.modes != "" {
		args = append(args, "--permission-mode-map", o.modes)
	}
	if a.verbose {
		args = append(args, "--verbose")
	}
	path, _ := a.lookup("PATH")
	env := []string{"PATH=" + path}
	if value, _ := a.lookup(relay.ModernVariable); value != "" {
		env = append(env, relay.ModernVariable+"="+value)
	}
	return unit{binary, args, env}.text()
}

// readUnit reads a unit, and refuses one that we have not written.
func readUnit(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	var data []byte
	if info.Mode().IsRegular() {
		if data, err = os.ReadFile(path); err != nil {
			return "", err
		}
	}
	if !bytes.HasPrefix(data, []byte(unitMark+"\n")) {
		return "", refuse("move it away, or edit it by hand", "%s was not written by teambridge", path)
	}
	return string(data), nil
}

// startUnit lets systemd read the unit and start the service, or restart it.
func (a *app) startUnit(ctx context.Context, again bool) error {
	_, err := a.systemctl(ctx, "daemon-reload")
	if err == nil {
		_, err = a.systemctl(ctx, "enable", "--now", unitName)
	}
	if err == nil && again {
		_, err = a.systemctl(ctx, "restart", unitName)
	}
	return err
}

// startWait bounds each call of systemctl. Stopping the service may take TimeoutStopSec.
const startWait = 2 * time.Minute

func (a *app) systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	args = append([]string{"--user"}, args...)
	a.debug("systemctl %s", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
		err = fmt.Errorf("%s: %w", strings.Join(lines, "; "), err)
	}
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// systemdHint is what to do after systemctl has failed.
func systemdHint(err error) string {
	if errors.Is(err, exec.ErrNotFound) {
		return "there is no systemd here: run \"teambridge serve\" another way"
	}
	if strings.Contains(err.Error(), "connect to bus") {
		return "systemd does not manage this session: log in as yourself (not with su or sudo), then run: teambridge service install"
	}
	return "see why with: teambridge service logs"
}

// installHint is what to do if the service could not be started.
func (a *app) installHint(err error) string {
	if root, rerr := a.root(); rerr == nil && !errors.Is(err, exec.ErrNotFound) {
		if c, ferr := client.Find(a.state, root.Path()); ferr == nil {
			return "a service that systemd did not start runs at " + c.Where() + ": end it, and install again"
		}
	}
	return systemdHint(err)
}

type uninstalled struct {
	Unit    string `json:"unit"`
	Removed bool   `json:"removed"`
}

func (a *app) serviceUninstall(ctx context.Context) error {
	path, err := a.unitPath()
	if err != nil {
		return err
	}
	_, err = readUnit(path)
	if errors.Is(err, fs.ErrNotExist) {
		if a.json {
			return a.printJSON(uninstalled{Unit: path})
		}
		a.note("%s does not exist", path)
		return nil
	}
	if err != nil {
		return err
	}
	// While the file is there: it says how the service is to be stopped.
	_, stopping := a.systemctl(ctx, "disable", "--now", unitName)
	if stopping != nil && !errors.Is(stopping, exec.ErrNotFound) && !strings.Contains(stopping.Error(), "connect to bus") {
		return &api.Decided{Err: fmt.Errorf("systemd did not stop the service, and nothing was removed: %w", stopping), Code: api.CodeError, Hint: systemdHint(stopping)}
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	if stopping != nil {
		// What disable would have removed.
		link := filepath.Join(filepath.Dir(path), "default.target.wants", unitName)
		if to, err := os.Readlink(link); err == nil && filepath.Base(to) == unitName {
			if err := os.Remove(link); err != nil {
				return err
			}
		}
		a.warn("systemd does not answer in this session; a service that runs in another session goes on until it ends")
	} else if _, err := a.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	return a.answer(uninstalled{path, true}, "removed  %s\n", escape(path, false))
}

type serviceState struct {
	Installed bool     `json:"installed"`
	Unit      string   `json:"unit"`
	State     string   `json:"state"`            // what systemd says: active, inactive, failed, …; unknown
	Answers   bool     `json:"answers"`          // a service for the Claude directory
	PID       int      `json:"pid,omitempty"`    // its process
	Listen    []string `json:"listen,omitempty"` // where it listens
	Version   string   `json:"version,omitempty"`
	Reason    string   `json:"reason,omitempty"` // why it does not answer
}

func (a *app) serviceStatus(ctx context.Context) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	s := serviceState{State: "unknown"}
	if s.Unit, err = a.unitPath(); err != nil {
		return err
	}
	switch _, err := readUnit(s.Unit); {
	case err == nil:
		s.Installed = true
		out, err := a.systemctl(ctx, "show", "--property=ActiveState", "--value", unitName)
		if s.State = cmp.Or(strings.TrimSpace(out), "unknown"); err != nil {
			a.debug("%v", err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		a.warn("%s", view.Describe(err))
	}
	switch err := a.askVersion(ctx, root.Path(), &s); {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case errors.Is(err, fs.ErrNotExist):
		s.Reason = "no service runs for " + root.Path()
	default:
		s.Reason = view.Describe(err)
	}
	if err := a.printService(s); err != nil {
		return err
	}
	if !s.Answers {
		return exitStatus(api.ExitNotFound)
	}
	return nil
}

// askVersion asks the service of a Claude directory, and completes s.
func (a *app) askVersion(ctx context.Context, root string, s *serviceState) error {
	c, err := client.FindPatient(a.state, root, cmp.Or(a.wait, answerWait))
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.Version(ctx)
	if err != nil {
		return err
	}
	s.Answers, s.Version = true, v.Version.Version
	if card, err := api.ReadCard(a.state, root); err == nil {
		s.PID, s.Listen = card.PID, card.Listen
	}
	return nil
}

func (a *app) printService(s serviceState) error {
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
	} else {
		line("service", s.Reason)
	}
	if s.Installed {
		line("systemd", s.State)
		line("unit", s.Unit)
	} else {
		line("systemd", "not installed")
	}
	return a.print([]byte(b.String()))
}

func (a *app) serviceLogs(ctx context.Context, follow bool, lines int) error {
	if lines < 0 {
		return usage("", "--lines %d is negative", lines)
	}
	args := []string{"--user", "--unit", unitName, "--no-pager", "--lines", strconv.Itoa(lines)}
	if follow {
		args = append(args, "--follow")
	}
	if a.json {
		args = append(args, "--output", "json")
	}
	cmd := exec.CommandContext(ctx, "journalctl", args...)
	cmd.Stdout, cmd.Stderr = a.stdout, a.stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, exec.ErrNotFound):
		return api.Decide(api.CodeError, "\"teambridge serve\" logs to its stderr", "journalctl was not found")
	case err != nil:
		return fmt.Errorf("journalctl: %w", err)
	}
	return nil
}
