// Command teambridge-probe measures whether Claude Code does what teambridge relies on. "teambridge-probe
// --help" explains it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"teambridge/cmd/stdio"
	"teambridge/relay/probe"
	"teambridge/status/api"
	"teambridge/status/doctor"
	"teambridge/status/plain"
	"teambridge/teams"
)

// quiet is how long a probe waits for events that must not happen; 0: the default. Tests set it.
var quiet time.Duration

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt kills
	status := api.ExitOK
	cmd := newCommand(&status)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return status
	}
	fmt.Fprintln(os.Stderr, "teambridge-probe:", err)
	if d, ok := errors.AsType[*api.Decided](err); ok {
		if d.Hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", d.Hint)
		}
		return d.Code.Exit()
	}
	switch {
	case errors.As(err, new(*teams.OutdatedError)):
		return api.CodeRefused.Exit()
	case ctx.Err() != nil:
		return api.CodeInterrupted.Exit()
	}
	return api.ExitError
}

// newCommand returns the command line. It sets status to the exit status of a run without an error.
func newCommand(status *int) *cobra.Command {
	asJSON, state := false, ""
	cmd := &cobra.Command{
		Use:   "teambridge-probe [-- PROGRAM [ARGS]]",
		Short: "Measure whether Claude Code does what teambridge relies on",
		Long: `Measure whether Claude Code does what teambridge relies on.

It runs claude, or PROGRAM, offline: in a temporary directory with a home of its
own, with a dummy key, and with a stand-in for the model on loopback. Nothing in
your home directory is read or written, and no account is needed. It takes about
half a minute, and 2 minutes at most.

For each point, the table says what is expected of this version, what was found,
and what that means. "?" stands for what was never measured on this version, or
could not be measured now. What was found is kept by version in the state
directory, and "teambridge doctor" shows it. What has changed is
measured twice, and counts if it was found twice.

Exit status: 0 all is as expected; 9 something has changed; 7 nothing has, but
something could not be measured; 5 it is older than ` + teams.Oldest.String() + `, and teambridge
needs that or newer; 1 nothing could be measured; 2 usage; 3 there is no such
program; 130 interrupted: what it had started has ended.`,
		Example: `  teambridge-probe
  teambridge-probe --json -- /opt/claude/2.1.332/claude`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if cmd.ArgsLenAtDash() != 0 && len(args) > 0 {
				return api.Decide(api.CodeUsage, `put "--" before the program`, "it takes a program after --")
			}
			if state == "" {
				if state, err = api.StateDir(os.LookupEnv); err != nil {
					return err
				}
			}
			command, r, err := measure(cmd.Context(), args)
			if err != nil {
				return err
			}
			found := described(command, r)
			if err := doctor.Keep(state, found); err != nil {
				fmt.Fprintln(os.Stderr, "warning:", err)
			}
			switch {
			case len(r.Changed()) > 0:
				*status = api.ExitChanged
			case len(r.Unmeasured()) > 0:
				*status = api.ExitUnknown
			}
			if asJSON {
				return json.NewEncoder(os.Stdout).Encode(found)
			}
			return show(found, r)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stderr)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return api.Decide(api.CodeUsage, "see teambridge-probe --help", "%w", err)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&state, "state-dir", "", "directory of teambridge's own files (default $TEAMBRIDGE_STATE, else $XDG_STATE_HOME/teambridge, else ~/.local/state/teambridge)")
	return cmd
}

// measure measures a program, and measures changed points again. It also returns the command that was started.
func measure(ctx context.Context, command []string) ([]string, probe.Result, error) {
	if len(command) == 0 {
		command = []string{"claude"}
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		path, err = filepath.Abs(path) // it runs in another directory
	}
	if err != nil {
		return nil, probe.Result{}, api.Decide(api.CodeNotFound, "name it: teambridge-probe -- /path/to/claude", "there is no program %q: %w", command[0], errors.Unwrap(err))
	}
	command = append([]string{path}, command[1:]...)
	fmt.Fprintf(os.Stderr, "note: measuring %s, which takes up to 2 minutes\n", plain.Escape(path, false))
	var progress *stdio.Progress
	if stdio.IsTerminal(os.Stderr) {
		progress = &stdio.Progress{W: os.Stderr, Columns: func() int { return stdio.Columns(os.Stderr) }, Style: func(s string) string { return s }}
	}
	done := progress.Start("starting " + plain.Escape(path, false))
	defer done()
	points := len(probe.Points())
	o := probe.Options{Command: command, Quiet: quiet, Progress: func(at string) { progress.Say(fmt.Sprintf("%d points: %s", points, at)) }}
	r, err := probe.Run(ctx, o)
	if err == nil && len(r.Changed()) > 0 {
		progress.Aside(func() {
			fmt.Fprintf(os.Stderr, "note: %s not as expected, so it is measured again\n", plain.Plural(len(r.Changed()), "point"))
		})
		var again probe.Result
		if again, err = probe.Run(ctx, o); err == nil {
			r = r.Confirm(again)
		}
	}
	if err != nil {
		return nil, probe.Result{}, fmt.Errorf("probe %s: %w", path, err)
	}
	return command, r, nil
}

// described returns a result in the form that is printed as JSON and kept.
func described(command []string, r probe.Result) api.Probe {
	p := api.Probe{
		Version: r.Version.String(), Listed: !r.Version.Newer(), Command: command, At: r.At.UTC(), Seconds: math.Round(r.Took.Seconds()*10) / 10,
	}
	for _, f := range r.Points {
		means := ""
		switch f.Found {
		case probe.Yes:
			means = f.Yes
		case probe.No:
			means = f.No
		}
		p.Points = append(p.Points, api.ProbePoint{
			Name: f.Name, Says: f.Says, Expected: f.Expected.String(), Found: f.Found.String(), Means: means, Changed: f.Changed(), Why: f.Why,
		})
	}
	return p
}
