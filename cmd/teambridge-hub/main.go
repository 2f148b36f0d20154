// Command teambridge-hub keeps messages between machines until they are taken. "teambridge-hub --help" explains it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"teambridge/relay/link/hub"
	"teambridge/status/api"
)

func main() { os.Exit(run(os.Args[1:])) }

// app is one run of the program.
type app struct {
	dir            string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// usageError is an error of the command line.
type usageError struct{ error }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt kills
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return api.ExitOK
	}
	fmt.Fprintln(a.stderr, "teambridge-hub:", err)
	if d, ok := errors.AsType[*api.Decided](err); ok {
		if d.Hint != "" {
			fmt.Fprintln(a.stderr, "hint:", d.Hint)
		}
		return d.Code.Exit()
	}
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return api.ExitUsage
	case errors.Is(err, hub.ErrNone), errors.Is(err, fs.ErrNotExist):
		return api.ExitNotFound
	case errors.Is(err, hub.ErrOther), errors.Is(err, hub.ErrRunning):
		return api.ExitRefused
	}
	return api.ExitError
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "teambridge-hub",
		Short: "A meeting point for teambridge on several machines",
		Long: `teambridge-hub keeps messages between machines until they are taken.

It is a NATS server with JetStream for this one purpose. It cannot read what it
keeps, and nothing is lost if it loses it: the senders have it until the
recipients have it. Machines reach it with TLS, or through ssh, for which it
needs no open port and no certificate.

Exit status: 0 done; 1 error; 2 usage; 3 not found, or no hub runs; 5 refused.`,
		Example: `  teambridge-hub run
  teambridge-hub add "$(teambridge link card)"`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("there is no command %q; see teambridge-hub --help", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) (err error) {
			a.dir, err = findDir(a.dir)
			return err
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&a.dir, "dir", "", "directory of the hub (default $TEAMBRIDGE_HUB_DIR, else ~/.local/state/teambridge-hub)")
	root.AddCommand(newRun(a), newInstall(a), newUninstall(a), newAdd(a), newRemove(a), newList(a), newDialStdio(a), newSetup(a), newVersion(a))
	return root
}

// findDir returns the directory of the hub.
func findDir(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	if dir := os.Getenv("TEAMBRIDGE_HUB_DIR"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "teambridge-hub"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the directory of the hub: %w; set $TEAMBRIDGE_HUB_DIR", err)
	}
	return filepath.Join(home, ".local", "state", "teambridge-hub"), nil
}

// exactly accepts n arguments.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError{fmt.Errorf("%s takes %s; see teambridge-hub %[1]s --help", cmd.Name(), what)}
		}
		return nil
	}
}
