package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

func newDoctor(a *app) *cobra.Command {
	var fix bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find problems that keep messages from arriving",
		Long: `Find problems that keep messages from arriving, and say how to solve them.

doctor checks locks, inboxes, teams whose lead is gone, inboxes without a
member, relays, panes, sessions, our hooks, and teambridge's own files; with
--team only that team. Without --team, it also lists the state of everything
else: the versions of Claude Code that are installed or run an agent, and their
measurements; OpenCode, if it is installed; whether agent teams are enabled;
whether the service runs; since when messages are recorded; the size of the
databases; and the way of messages to each session, with a better one if there
is one. Without --fix, it changes nothing.

--fix removes leftovers: anything in the place of a lock that is not a lock (a
file, or a directory that is not empty), and temporary files of killed
teambridge processes. A leftover counts as in use, and stays, if it was changed
within 10 s, is locked, is open in a process (on Linux), or names a running
process. --fix also makes teambridge's own directory private. It never changes
an inbox.

Exit status: 0 no problems, or all are fixed; 1 problems were found; 3 no such
team, or no such directory as --claude-dir names.`,
		Example: `  teambridge doctor --fix`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return examine(cmd.Context(), a, fix) },
	}
	cmd.Flags().BoolVar(&fix, "fix", false, "remove leftovers that block agents and that no process uses")
	return cmd
}

func examine(ctx context.Context, a *app, fix bool) error {
	team, err := a.namedTeam("")
	if err != nil {
		return err
	}
	done := a.working("checking")
	defer done()
	if a.claudeDir != "" { // a wrong --claude-dir is an error, not a finding
		if _, err := a.root(); err != nil {
			return err
		}
	}
	report, err := a.local().Findings(ctx, team, fix) // never by a service: the environment of this shell counts
	if err != nil {
		return err
	}
	done()
	if err := printReport(a, report); err != nil {
		return err
	}
	if report.Problems() > 0 {
		return exitStatus(api.ExitError)
	}
	return nil
}

func printReport(a *app, r api.Report) error {
	if a.json {
		return a.printJSON(r.Findings)
	}
	for _, f := range r.Findings {
		level := a.paint(yellow, f.Level)
		switch {
		case f.Fixed:
			level = a.paint(green, "fixed")
		case f.Level == api.LevelOK:
			level = a.paint(green, f.Level)
		case f.Level == api.LevelProblem:
			level = a.paint(red, f.Level)
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s  %s\n", level, escape(f.Message, false))
		if f.Path != "" {
			fmt.Fprintf(&b, "    %s\n", escape(f.Path, false))
		}
		if !f.Fixed {
			a.indent(&b, escape(f.Advice, false))
		}
		if err := a.print([]byte(b.String())); err != nil {
			return err
		}
	}
	found := "no problems"
	if n := r.Problems(); n > 0 {
		found = plural(n, "problem")
	}
	return a.printf("%s and %s checked; %s found\n", plural(r.Teams, "team"), plural(r.Inboxes, "inbox"), found)
}
