package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

type tasksOptions struct {
	session    string
	all, watch bool
	history    bool
}

func newTasks(a *app) *cobra.Command {
	var o tasksOptions
	cmd := &cobra.Command{
		Use:   "tasks [NAME|ID]",
		Short: "List the tasks of a team or a session",
		Long: `List the tasks that agents keep with Claude Code's own tools for tasks.

By default, these are the tasks of a team, with their owners, blockers and last
changes. With the name of a member or the id of a task, only those are listed.

Claude Code keeps a list for each team, and one for each session in no team,
which the session's name selects. Without a team, the tasks of all sessions are
listed. The list of a team stays, and --team can select it after the team has
ended. --session selects the list of a session by its id (or the first 8
characters), and --all every list.

Tasks are sorted by number, as Claude Code sorts them. WAITS FOR has the tasks
that are not completed yet, of those that block this one; with --json,
"blockedBy" has them all. SINCE is when the task last changed in any way.

With --watch, the list is printed again whenever it has changed; with --json,
each time on one line. No task is ever written.

--history prints the changes of tasks, the last ones at the end: when each was
created or deleted, or got another status, owner or other blockers. A member's
tasks are those that it has or had. Changes are recorded while a service runs
(teambridge serve). A change while none ran has two times between which it was
made. The author of a change is unknown. "teambridge gc" deletes old changes
with the work of agents.

Exit status: 0, even if there are none; 3 no such team, session, member or task;
6 a file is no task (the others are listed).`,
		Example: `  teambridge tasks worker
  teambridge tasks --team myteam --watch`,
		Args:              between(0, 1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.taskWords),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tasks(cmd.Context(), strings.Join(args, ""), o)
		},
	}
	f := cmd.Flags()
	sessionFlag(cmd, &o.session, "the tasks of this session: its id, or the first 8 characters of it")
	allFlag(cmd, &o.all, "the tasks of all teams and sessions")
	watchFlag(cmd, &o.watch)
	f.BoolVar(&o.history, "history", false, "print the changes that a service has recorded")
	return cmd
}

func (a *app) tasks(ctx context.Context, who string, o tasksOptions) error {
	q := api.TaskQuery{Session: o.session, Who: who}
	switch {
	case o.history && o.watch:
		return usage("omit one of them", "--history and --watch cannot be used together")
	case o.all && (o.session != "" || a.teamName != ""), o.session != "" && a.teamName != "":
		return usage("omit all but one of them", "--team, --session and --all cannot be used together")
	case !o.all && o.session == "":
		var err error
		if q, err = a.tasksOf(ctx, who); err != nil {
			return err
		}
	}
	if o.history {
		h, err := a.bridge(ctx).TaskHistory(ctx, api.TaskHistoryQuery{TaskQuery: q, Limit: api.MostTaskChanges})
		if err != nil {
			return err
		}
		return a.printTaskHistory(h, q.Team == "")
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

// printTaskHistory prints changes of tasks, the newest last, with a column for the list if there are several.
func (c *console) printTaskHistory(h api.TaskHistory, lists bool) error {
	head := []string{"AT", "ID", "CHANGE", "SUBJECT"}
	if lists {
		head = append([]string{"LIST"}, head...)
	}
	slices.Reverse(h.Changes)
	none := "no changes are recorded; a service records them: teambridge serve"
	if h.Since != nil {
		none = "no changes since " + clock(*h.Since)
	}
	if h.More && !c.json {
		c.note("there are earlier changes; a program can read them from the service")
	}
	return printList(c, h.Changes, none, head, func(c api.TaskChange) []string {
		at := clock(c.At)
		if c.After != nil {
			at = "between " + clock(*c.After) + " and " + at
		}
		row := []string{at, c.ID, taskChange(c), cmp.Or(c.Subject, "-")}
		if lists {
			row = append([]string{c.List}, row...)
		}
		return row
	})
}

// taskChange describes a change.
func taskChange(c api.TaskChange) string {
	switch c.What {
	case api.TaskCreated:
		return "created: " + cmp.Or(c.Now, "-")
	case api.TaskDeleted:
		return "deleted, was " + cmp.Or(c.Was, "-")
	case api.TaskBlockedBy:
		return "waits for: " + cmp.Or(c.Was, "-") + " → " + cmp.Or(c.Now, "-")
	}
	return c.What + ": " + cmp.Or(c.Was, "-") + " → " + cmp.Or(c.Now, "-")
}

// tasksOf returns the query for the tasks of the team, or of the sessions if who is a session or there is no team.
func (a *access) tasksOf(ctx context.Context, who string) (q api.TaskQuery, err error) {
	q.Who = who
	if q.Team, err = a.namedTeam(""); err != nil || q.Team != "" {
		return q, err
	}
	if who != "" {
		if to, err := a.bridge(ctx).Target(ctx, a.scope(), who); err == nil && to.Apart {
			return api.TaskQuery{Team: to.Team, Who: to.Member()}, nil
		}
	}
	to, err := a.targetToRead(ctx)
	if !to.Apart { // without a team, the lists of all sessions are meant
		q.Team = to.Team
	}
	return q, err
}

// printTasks prints tasks, with a column for the list if there are several. It returns the problems of the lists as
// an error, after printing.
func (c *console) printTasks(found api.Tasks, lists bool) error {
	head := []string{"ID", "STATUS", "OWNER", "SUBJECT", "WAITS FOR", "SINCE"}
	if lists {
		head = append([]string{"LIST"}, head...)
	}
	const none = "no tasks; sessions of Claude Code have the tools for them only with CLAUDE_CODE_ENABLE_TODO_TOOLS=1 in their environment"
	err := printList(c, found.Tasks, none, head, func(t api.Task) []string {
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
