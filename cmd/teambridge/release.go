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
		Long: `Release the held messages to a member, all or those of one sender, and the held
messages in the other direction.

When two agents answer each other 20 times within a minute, messages from one to
the other are held, so that the loop ends: they stay unread in the inbox, and
"relay list" and "status" say so. Messages from others are relayed as before.
Released messages are relayed in order, within about 2 seconds or by the next
run, and counting starts again.

Exit status: 0; 3 no such team or member, or nothing is held.`,
		Example:           `  teambridge relay release lead@myteam worker`,
		Args:              between(1, 2),
		ValidArgsFunction: completer{a}.completeMembers(2),
		RunE:              func(cmd *cobra.Command, args []string) error { return changeHolds(cmd.Context(), a, args, true) },
	}
}

func newRelayHold(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "hold MEMBER[@TEAM] SENDER",
		Short: "Hold back the messages of two agents to each other",
		Long: `Hold back the messages of two members of a team to each other.

Messages of the sender to the member are held, and messages of the member to the
sender: in each direction that a relay delivers. One direction is enough to end
a loop.

Messages that were relayed before are not affected. New messages wait unread in
the inbox, in order, until "relay release". "inbox" and "status" show the hold.
It lasts until then, even if processes are restarted.

Exit status: 0, even if it is held already; 3 no such team or member; 5 no relay
delivers to either of them: each reads its own inbox, or its messages are typed.`,
		Example:           `  teambridge relay hold lead@myteam worker`,
		Args:              between(2, 2),
		ValidArgsFunction: completer{a}.completeMembers(2),
		RunE:              func(cmd *cobra.Command, args []string) error { return changeHolds(cmd.Context(), a, args, false) },
	}
}

// changeHolds holds or releases the messages to a member, from one sender or all, and prints the changed holds.
func changeHolds(ctx context.Context, a *app, args []string, release bool) error {
	to, err := a.target(ctx, args[0])
	if err != nil {
		return err
	}
	do, word := a.bridge(ctx).Hold, "held"
	if release {
		do, word = a.bridge(ctx).Release, "released"
	}
	list, err := do(ctx, to.Team, to.Members[0], strings.Join(args[1:], ""))
	switch {
	case err != nil:
		return err
	case release && len(list) == 0:
		return notFound("see it with: teambridge relay list", "no messages%s are held for %s@%s", strings.Join(append([]string{""}, args[1:]...), " from "), to.Members[0], to.Team)
	case a.json:
		return a.printJSON(list)
	}
	for _, h := range list {
		why := ""
		if !release {
			why = ": " + escape(h.Reason, false)
		}
		if err := a.printf("%s  %s@%s  what %s writes%s\n", word, escape(h.Member, false), escape(h.Team, false), escape(h.Sender, false), why); err != nil {
			return err
		}
	}
	return nil
}
