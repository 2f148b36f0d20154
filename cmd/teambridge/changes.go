package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

func newChanges(a *app) *cobra.Command {
	var q api.ChangesQuery
	var since string
	cmd := &cobra.Command{
		Use:   "changes SESSION|MEMBER[@TEAM] [FILE]",
		Short: "Show which files an agent has changed",
		Long: `Show the files that an agent and its subagents have changed, the last one first,
and with --diff the changes themselves.

The list comes from the records of Claude Code's file tools in the transcript.
Changes by the agent's shell commands, and later changes by others, are not
included. Lines are counted in each change: a line that was added and then
removed counts twice. FILE is a path, or the end of one.

SESSION and MEMBER are the same as in "teambridge transcript". For agents of
other programs, changes are unknown.

Exit status: 0, even if nothing was changed; 2 usage; 3 no such session or
member, or it has no transcript.`,
		Example: `  teambridge changes worker --since 1h
  teambridge changes worker main.go --diff`,
		Args:              between(1, 2),
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if q.Since, err = parseFrom(since); err != nil {
				return err
			}
			if len(args) > 1 {
				q.File = args[1]
			}
			return printChanges(cmd.Context(), a, args[0], q)
		},
	}
	sinceFlag(cmd, &since, "changes")
	cmd.Flags().BoolVar(&q.Patches, "diff", false, "show what was changed")
	return cmd
}

func printChanges(ctx context.Context, a *app, name string, q api.ChangesQuery) error {
	team, member, err := a.conversation(ctx, name)
	if err != nil {
		return err
	}
	list, err := a.bridge(ctx).Changes(ctx, team, member, q)
	if err != nil {
		return err
	}
	const none = "no changes of files are in the transcript"
	if !q.Patches || a.json || len(list) == 0 {
		return printList(&a.console, list, none, []string{"LAST", "CHANGES", "ADDED", "REMOVED", "FILE"}, func(f api.FileChanges) []string {
			file := f.File
			if f.Created {
				file += " (new)"
			}
			return []string{clock(f.Last), strconv.Itoa(f.Changes), "+" + strconv.Itoa(f.Added), "-" + strconv.Itoa(f.Removed), file}
		})
	}
	for i, f := range list {
		if i > 0 {
			if err := a.printf("\n"); err != nil {
				return err
			}
		}
		if err := a.printf("%s\n", a.paint(bold, escape(f.File, false))); err != nil {
			return err
		}
		for _, p := range f.Patches {
			if err := a.printPatch(p); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *console) printPatch(p api.Patch) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", clock(p.At))
	for line := range strings.Lines(p.Text) {
		line = escape(strings.TrimSuffix(line, "\n"), false)
		switch {
		case strings.HasPrefix(line, "+"):
			line = c.paint(green, line)
		case strings.HasPrefix(line, "-"):
			line = c.paint(red, line)
		}
		text.WriteString(line + "\n")
	}
	if p.Cut {
		text.WriteString("… the rest is left out\n")
	}
	return c.print([]byte(text.String()))
}
