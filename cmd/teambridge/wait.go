package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
)

func newWait(a *app) *cobra.Command {
	var o api.Occasion
	cmd := &cobra.Command{
		Use:   "wait [NAME] [--for OCCASION]",
		Short: "Wait until an agent is idle, or something else happens",
		Long: `Wait until an agent is idle, or something else happens, and print it.

  reply       a message to you, from NAME if one is given
  message     a message to anybody, from NAME if one is given
  idle        NAME is idle, as in "teambridge status", and no message waits
              for it (not just the moment between two tasks); the default with
              a NAME
  all-idle    every agent but the lead is idle
  terminated  NAME has shut down, or its process or that of the team's lead is
              not running

A pane is idle if its agent is, its prompt is empty, and no message of ours is
on its way or being worked on; it has terminated if no agent is in it.

If a member has shut down or was killed, or its team's lead is not running,
nothing more can come from it, and the command ends at once. A message counts if
it comes after the call. An agent's earlier reports count if they are in the
journal; otherwise its next report counts.

Exit status: 0 it happened; 3 no such team or member, the team has ended, or the
occasion cannot happen; 4 timed out; 5 its Claude Code is too old; 130
interrupted.`,
		Example: `  teambridge wait worker --timeout 10m
  teambridge wait --for reply`,
		Args:              between(0, 1),
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if o.Member != "" {
					return usage("omit one of them", "%q and --member %s are both names", args[0], o.Member)
				}
				if o.Member = args[0]; o.For == "" {
					o.For = api.ForIdle
				}
			}
			return a.waitFor(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.For, "for", "", "occasion: "+strings.Join(api.Occasions(), ", "))
	f.StringVar(&o.Member, "member", "", "the same as NAME")
	timeoutFlag(cmd, &o.Timeout, 0, "how long to wait (30s, 5m)")
	must(cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(api.Occasions(), cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("member", completer{a}.completeMembers(-1)))
	return cmd
}

func (a *app) waitFor(ctx context.Context, o api.Occasion) error {
	if o.For == "" {
		return usage("such as: teambridge wait worker", "wait needs the NAME of an agent, or --for")
	}
	if err := oneOfThese("for", o.For, api.Occasions()...); err != nil {
		return err
	}
	if o.Member == "" && (o.For == api.ForIdle || o.For == api.ForTerminated) {
		return usage("such as: teambridge wait worker --for "+o.For, "--for %s needs the NAME of an agent", o.For)
	}
	var names []string
	if o.Member != "" {
		names = []string{o.Member}
	}
	to, err := a.targetToRead(ctx, names...)
	if err != nil {
		return err
	}
	o.Member = to.Member()
	a.warnServiceError(ctx, to.Team)
	done := a.working("waiting for %s", occasionText(o))
	h, err := a.bridge(ctx).Wait(ctx, to.Team, o)
	done()
	switch {
	case err != nil:
		return err
	case h.Message != nil:
		a.learnNames(ctx, h.Message.Team)
		return a.printRecord(*h.Message)
	}
	return a.printStatus(h.Status, false, false)
}

// occasionText describes what the command waits for.
func occasionText(o api.Occasion) string {
	switch {
	case o.For == api.ForIdle:
		return o.Member + " to be idle"
	case o.For == api.ForAllIdle:
		return "all agents to be idle"
	case o.For == api.ForTerminated:
		return o.Member + " to shut down"
	case o.Member == "":
		return "a " + o.For
	}
	return "a " + o.For + " from " + o.Member
}
