package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

type tasksOptions struct {
	session    string
	all, watch bool
}

func newTasks(a *app) *cobra.Command {
	var o tasksOptions
	cmd := &cobra.Command{
		Use:   "tasks [MEMBER|ID]",
		Short: "List the tasks of a team or a session",
		Long: `List the tasks that agents keep with Claude Code's own tools for tasks.

They are those of a team: who has each, what it waits for, and since when it is
as it is. With the name of a member or the id of a task, only those are listed.

Claude Code keeps a list for each team, and one for each session in no team. Up
to 2.1.177 the list of a team is deleted with it; later ones stay, and can be
named with --team after the team has ended. --session selects the list of a
session by its id (or the first 8 characters), and --all every list.

Tasks are sorted by number, as Claude Code sorts them. WAITS FOR has the tasks
that are not completed yet, of those that block this one; with --json,
"blockedBy" has them all. SINCE is when the task last changed in any way.
Nothing is recorded: what a task was before, and deleted ones, are not known.

With --watch, the list is printed again whenever it has changed; with --json,
each time on one line. Nothing is ever written.

Exit status: 0, even if there are none; 3 no such team, session, member or task;
6 a file is no task (the others are listed).`,
		Example: `  teambridge tasks worker
  teambridge tasks --team myteam --watch`,
		Args:              between(0, 1),
		ValidArgsFunction: a.completeFirst(a.taskWords),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tasks(cmd.Context(), strings.Join(args, ""), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.session, "session", "", "the tasks of this session: its id, or the first 8 characters of it")
	f.BoolVar(&o.all, "all", false, "the tasks of all teams and sessions")
	f.BoolVar(&o.watch, "watch", false, "keep running, and print the tasks again whenever they change")
	return cmd
}

func (a *app) tasks(ctx context.Context, who string, o tasksOptions) error {
	q := api.TaskQuery{Session: o.session, Who: who}
	switch {
	case o.all && (o.session != "" || a.teamName != ""), o.session != "" && a.teamName != "":
		return usage("omit all but one of them", "--team, --session and --all cannot be used together")
	case !o.all && o.session == "":
		var err error
		if q.Team, err = a.teamOfTasks(ctx); err != nil {
			return err
		}
	}
	if !o.watch {
		found, err := a.bridge(ctx).Tasks(ctx, q)
		if err != nil {
			return err
		}
		return a.printTasks(found, q.Team == "")
	}
	ctx, stop := a.whileRead(ctx)
	defer stop()
	for found, err := range a.bridge(ctx).FollowTasks(ctx, q) {
		if err != nil {
			return err
		}
		for _, p := range found.Problems {
			a.warn("%s", p.Message)
		}
		found.Problems = nil
		if a.json {
			err = a.printJSON(found.Tasks)
		} else {
			err = errors.Join(a.printf("%s\n", clock(time.Now())), a.printTasks(found, q.Team == ""))
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// teamOfTasks is the team that is meant. One that was named may have ended.
func (a *app) teamOfTasks(ctx context.Context) (string, error) {
	if name, err := a.namedTeam(""); err != nil || name != "" {
		return name, err
	}
	to, err := a.target(ctx)
	if err == nil && to.Way != api.WayInbox {
		err = api.Decide(api.CodeNotFound, "see those of all teams and sessions with: teambridge tasks --all", "%s have no list of tasks", to.Team)
	}
	return to.Team, err
}

// printTasks prints tasks, with their lists if there are several. What is wrong with a list is an error, after the tasks.
func (a *app) printTasks(found api.Tasks, lists bool) error {
	head := []string{"ID", "STATUS", "OWNER", "SUBJECT", "WAITS FOR", "SINCE"}
	if lists {
		head = append([]string{"LIST"}, head...)
	}
	err := printList(a, found.Tasks, "no tasks", head, func(t api.Task) []string {
		waits := "-"
		if len(t.WaitsFor) > 0 {
			waits = strings.Join(t.WaitsFor, ", ")
		}
		row := []string{t.ID, cmp.Or(t.Status, "-"), cmp.Or(t.Owner, "-"), cmp.Or(t.Subject, "-"), waits, clock(t.Since)}
		if lists {
			row = append([]string{t.List}, row...)
		}
		return row
	})
	if err != nil {
		return err
	}
	var faults []error
	for _, p := range found.Problems {
		faults = append(faults, api.Decide(p.Code, p.Hint, "%s", p.Message))
	}
	return errors.Join(faults...)
}
