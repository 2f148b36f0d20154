package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/bridge"
	"teambridge/teams"
)

type switchOptions struct {
	to      string
	force   bool
	timeout time.Duration
	noWait  bool
}

func newSwitch(a *app) *cobra.Command {
	var o switchOptions
	cmd := &cobra.Command{
		Use:   "switch MEMBER[@TEAM] --to local|remote",
		Short: "Move a session between its terminal and its relay",
		Long: `Move the session of a member between a person's terminal and its relay.

Only a session of "teambridge run --local" can move. The command waits until the
session has moved, and prints why it is held: while the agent works, a dialog is
open, or a draft at the prompt cannot be kept. --force interrupts the turn and
leaves the dialog. The switch is refused if it would end living teammates or
delete their unread messages.

If no team is named, MEMBER is looked for among the sessions that can move. When
the time is up, or the command is interrupted, the request is withdrawn; with
--no-wait it stays.

Exit status: 0 the session has moved, or its move was requested; 3 no such
member; 4 timed out; 5 the session cannot move, or the switch was refused; 130
interrupted.`,
		Example:           `  teambridge switch lead --to local`,
		Args:              exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.movable),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.switchTo(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "where the session is wanted: "+api.PlaceLocal+" or "+api.PlaceRemote)
	forceFlag(cmd, &o.force, "interrupt the agent, and give up a draft that cannot be kept")
	timeoutFlag(cmd, &o.timeout, 0, "how long to wait (30s, 5m)")
	f.BoolVar(&o.noWait, "no-wait", false, "do not wait until the session is there")
	complete(cmd, "to", api.PlaceLocal, api.PlaceRemote)
	return cmd
}

func (a *app) switchTo(ctx context.Context, address string, o switchOptions) (err error) {
	if err := oneOfThese("to", o.to, api.PlaceLocal, api.PlaceRemote); err != nil {
		return err
	}
	if o.noWait && o.timeout != 0 {
		return usage("omit one of them", "--no-wait and --timeout cannot be used together")
	}
	member, named := teams.Split(address)
	team, err := a.namedTeam(named)
	if err != nil {
		return err
	}
	w, err := a.local().Wish(ctx, team, member, api.NewPlace{To: o.to, Force: o.force})
	if err != nil {
		return err
	}
	defer w.Close() // it was only read
	who := w.Member + "@" + w.Team
	word := w.Place.At
	switch {
	case w.Asked() && o.noWait:
		word = "requested"
	case w.Asked():
		waiting, cancel := bridge.Within(ctx, o.timeout, who+" is not "+o.to)
		defer cancel()
		done := a.working("waiting for %s to be %s", who, o.to)
		err = w.Wait(waiting, func(at, reason string) { a.note("%s is %s, and the switch is held: %s", who, at, reason) })
		done()
		if err != nil {
			return err
		}
		word = w.Place.At
	}
	return a.answer(w.Placed, "%s  %s\n", a.paint(green, word), escape(who, false))
}

// movable lists the sessions that can move.
func (c completer) movable(ctx context.Context) (words []string) {
	list, _ := c.local().Movable(ctx)
	for _, h := range list {
		words = append(words, described(h.Inbox+"@"+h.Team, fmt.Sprintf("its session is %s", h.At)))
	}
	return words
}
