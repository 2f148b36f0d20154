package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/relay/probe"
	"teambridge/status/api"
	"teambridge/status/doctor"
	"teambridge/status/view"
	"teambridge/teams"
)

func newProbe(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "probe [-- PROGRAM [ARGS]]",
		Short: "Measure whether Claude Code does what teambridge relies on",
		Long: `Measure whether Claude Code does what teambridge relies on.

It runs claude, or PROGRAM, offline: in a temporary directory with a home of its
own, with a dummy key, and with a stand-in for the model on loopback. Nothing in
your home directory is read or written, and no account is needed. It takes about
half a minute, and 2 minutes at most.

For each point, the table says what is expected of this version, what was found,
and what that means. "?" stands for what was never measured on this version, or
could not be measured now. What was found is kept by version in the state
directory, and doctor shows it. --keep=false keeps nothing. What has changed is
measured twice, and counts if it was found twice.

Exit status: 0 all is as expected; 9 something has changed; 7 nothing has, but
something could not be measured; 5 it is older than ` + teams.Oldest.String() + `, and teambridge
needs that or newer; 1 nothing could be measured; 3 there is no such program;
130 interrupted: what it had started has ended.`,
		Example: `  teambridge probe
  teambridge probe --json -- /opt/claude/2.1.332/claude`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() != 0 && len(args) > 0 {
				return usage(`put "--" before the program`, "probe takes a program after --")
			}
			return a.probe(cmd.Context(), args, keep)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", true, "keep what was found")
	return cmd
}

func (a *app) probe(ctx context.Context, command []string, keep bool) error {
	if len(command) == 0 {
		command = []string{"claude"}
	}
	path, err := exec.LookPath(command[0])
	if err == nil {
		path, err = filepath.Abs(path) // it is run in another directory
	}
	if err != nil {
		return notFound("name it: teambridge probe -- /path/to/claude", "there is no program %q: %w", command[0], errors.Unwrap(err))
	}
	command = append([]string{path}, command[1:]...)
	a.note("measuring %s, which takes up to 2 minutes", path)
	done := a.working("starting %s", path)
	defer done()
	points := len(probe.Points())
	o := probe.Options{Command: command, Quiet: a.quiet, Progress: func(at string) {
		a.progress.Say(fmt.Sprintf("%d points: %s", points, at))
		a.debug("%s", at)
	}}
	r, err := probe.Run(ctx, o)
	if err == nil && len(r.Changed()) > 0 {
		a.note("%s, so it is measured again", plural(len(r.Changed()), "point")+" not as expected")
		var again probe.Result
		if again, err = probe.Run(ctx, o); err == nil {
			r = r.Confirm(again)
		}
	}
	done()
	if err != nil {
		return fmt.Errorf("probe %s: %w", path, err)
	}
	found := probed(r, command)
	if keep {
		if err := doctor.Keep(a.state, found); err != nil {
			a.warn("%s", view.Describe(err))
		}
	}
	if err := a.printProbe(found); err != nil {
		return err
	}
	switch {
	case len(r.Changed()) > 0:
		return exitStatus(api.ExitChanged)
	case len(r.Unmeasured()) > 0:
		return exitStatus(api.ExitUnknown)
	}
	return nil
}

// probed is a result as it is printed.
func probed(r probe.Result, command []string) api.Probe {
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

func (a *app) printProbe(p api.Probe) error {
	if a.json {
		return a.printJSON(p)
	}
	rows := [][]string{{"POINT", "EXPECTED", "FOUND", "WHAT IT MEANS"}}
	changed, unmeasured := 0, 0
	word := func(s string) string {
		if s == probe.Unsure.String() {
			return "?"
		}
		return s
	}
	for _, f := range p.Points {
		found, means := word(f.Found), f.Means
		switch {
		case f.Changed:
			changed++
			found = a.paint(red, found)
			means = "CHANGED: " + means
		case f.Found == probe.Unsure.String() && f.Expected == probe.Unsure.String():
			means = "not measured: " + escape(f.Why, false)
		case f.Found == probe.Unsure.String():
			unmeasured++
			found = a.paint(yellow, found)
			means = "not measured: " + escape(f.Why, false)
		}
		rows = append(rows, []string{f.Says, word(f.Expected), found, means})
	}
	if err := a.table(rows); err != nil {
		return err
	}
	what := "all as expected"
	if changed > 0 || unmeasured > 0 {
		what = strings.TrimPrefix(fmt.Sprintf("%d as expected", len(p.Points)-changed-unmeasured), "0 as expected, ")
		if changed > 0 {
			what += fmt.Sprintf(", %d changed", changed)
		}
		if unmeasured > 0 {
			what += fmt.Sprintf(", %d not measured", unmeasured)
		}
	}
	listed := ""
	if !p.Listed {
		listed = ", which is newer than " + teams.Measured.String() + ","
	}
	return a.printf("\nClaude Code %s%s in %s: %s, %s\n", p.Version, listed, time.Duration(p.Seconds*float64(time.Second)), plural(len(p.Points), "point"), what)
}

// versionNote warns, once for each version on this machine, of members whose version is newer than those that teambridge was
// measured with, and which nobody has measured here.
func (a *app) versionNote(sent ...api.Sent) {
	for _, s := range sent {
		v, err := teams.ParseVersion(s.Unlisted)
		if err != nil || v.Outdated() || a.state == "" {
			continue
		}
		dir := doctor.Measured(a.state)
		if _, err := os.Stat(filepath.Join(dir, v.String()+".json")); err == nil {
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			continue // it is said again next time
		}
		told, err := os.OpenFile(filepath.Join(dir, v.String()+".told"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			continue // it was said
		}
		_ = told.Close()
		a.warn("%s; measure it with: teambridge probe", v.NewerNote(s.Member))
	}
}
