package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
)

func newRelayRelease(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "release MEMBER[@TEAM] [SENDER]",
		Short: "Relay messages that were held to break a loop",
		Long: `Release messages that are held for a member, all or those of one sender.

When two agents answer each other 20 times within a minute, messages from one
to the other are held, so that they do not go on for ever: they stay unread in
the inbox, and "relay list" and "status" say so. Messages from others are
relayed as before. Released messages are relayed in order, within about 2
seconds or by the next run, and counting starts again.

Exit status: 0; 3 no such team or member, or nothing is held.`,
		Example:           `  teambridge relay release lead@myteam worker`,
		Args:              between(1, 2),
		ValidArgsFunction: a.completeMembers(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return releaseHeld(cmd.Context(), a, args[0], strings.Join(args[1:], ""))
		},
	}
}

func releaseHeld(ctx context.Context, a *app, address, sender string) error {
	to, err := a.target(ctx, address)
	if err != nil {
		return err
	}
	list, err := a.bridge(ctx).Release(ctx, to.Team, to.Members[0], sender)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		from := ""
		if sender != "" {
			from = " from " + sender
		}
		return notFound("see it with: teambridge relay list", "no messages%s are held for %s@%s", from, to.Members[0], to.Team)
	}
	if a.json {
		return a.printJSON(list)
	}
	for _, h := range list {
		if err := a.printf("released  %s@%s  what %s writes\n", escape(h.Member, false), escape(h.Team, false), escape(h.Sender, false)); err != nil {
			return err
		}
	}
	return nil
}
