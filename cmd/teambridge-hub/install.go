package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/relay/link/hub"
	"teambridge/relay/shell"
	"teambridge/status/supervisor"
)

func newInstall(a *app) *cobra.Command {
	var o runOptions
	noStart := false
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Let systemd run the hub",
		Long: `Install "teambridge-hub run" as a systemd user unit, and start it.

The unit is ~/.config/systemd/user/teambridge-hub.service. It runs this binary
with the directory and the flags of this call, now and at each login, and starts
it again if it is killed. It can write to its directory alone. Installing again
changes what is different and then restarts the hub. A unit of that name that
teambridge-hub has not written is left alone.

Exit status: 0 it runs (with --no-start: the unit is written); 1 systemd failed,
but the unit is written; 2 usage; 5 the unit was not written by teambridge-hub.`,
		Example: `  teambridge-hub install
  loginctl enable-linger      # also while you are not logged in`,
		Args: exactly(0, "no argument"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.install(cmd.Context(), o, !noStart) },
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&noStart, "no-start", false, "only write the unit; do not run systemctl")
	return cmd
}

func newUninstall(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop the hub and remove its unit",
		Long: `Stop the hub and remove its systemd unit.

Its directory stays, with the machines that may use it and what waits for them.

Exit status: 0, even if it was not installed; 1 systemd did not stop it; 5 the
unit was not written by teambridge-hub.`,
		Example: `  teambridge-hub uninstall`,
		Args:    exactly(0, "no argument"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.uninstall(cmd.Context()) },
	}
}

func (a *app) install(ctx context.Context, o runOptions, start bool) error {
	for _, path := range []*string{&o.TLSCert, &o.TLSKey} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	if err := o.check(); err != nil {
		return err
	}
	binary, err := shell.Program()
	if err != nil {
		return err
	}
	if strings.Contains(filepath.ToSlash(binary), "/go-build") {
		return usageError{fmt.Errorf("\"go run\" removes this program when it ends: install it first: go install ./cmd/teambridge-hub")}
	}
	u, err := a.unit()
	if err != nil {
		return err
	}
	args := []string{binary, "run", "--dir", a.dir}
	for _, f := range []struct{ name, value, unless string }{
		{"--listen", o.Listen, hub.Listen}, {"--tls-cert", o.TLSCert, ""}, {"--tls-key", o.TLSKey, ""}, {"--metrics", o.metrics, ""},
	} {
		if f.value != f.unless {
			args = append(args, f.name, f.value)
		}
	}
	text, err := u.Text(args, nil)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.dir, 0o700); err != nil { // systemd needs an existing directory
		return err
	}
	i, err := u.Install(ctx, text, start)
	if err != nil {
		return err
	}
	what := "unchanged"
	if i.Changed {
		what = "installed"
	}
	fmt.Fprintf(a.stdout, "%s  %s\n", what, u.Path)
	fmt.Fprintln(a.stderr, "note:", u.Note(i))
	return nil
}

func (a *app) uninstall(ctx context.Context) error {
	u, err := a.unit()
	if err != nil {
		return err
	}
	done, stopped, err := u.Uninstall(ctx)
	if err != nil {
		return err
	}
	if !stopped {
		fmt.Fprintln(a.stderr, "warning:", u.NotStopped())
	}
	if !done.Removed {
		fmt.Fprintf(a.stderr, "note: %s does not exist\n", u.Path)
		return nil
	}
	fmt.Fprintf(a.stdout, "removed  %s\n", u.Path)
	return nil
}

// unit returns the user unit of the hub.
func (a *app) unit() (supervisor.Job, error) {
	return supervisor.Hub(a.dir, os.LookupEnv, os.UserHomeDir)
}
