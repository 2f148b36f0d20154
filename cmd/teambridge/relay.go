package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/teams"
)

func newRelay(a *app) *cobra.Command {
	var all, relays bool
	list := &cobra.Command{
		Use:   "list",
		Short: "List relays, and deliveries that are under way or failed",
		Long: `List the relays, and the deliveries that are under way or failed.

The list has relays that were added, with an id, and relays started with
"teambridge run"; with --team only the relays of that team. --json prints only
the deliveries, or with --relays only the relays.

Exit status: 0, even if there are none; 3 there is no Claude directory
(--relays); 4 a service runs and does not answer, so the reasons of stopped
relays are unknown.`,
		Example: `  teambridge relay list --team myteam`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return listRelays(cmd.Context(), a, all, relays) },
	}
	allFlag(list, &all, "include deliveries that have ended")
	list.Flags().BoolVar(&relays, "relays", false, "list relays only")
	retry := &cobra.Command{
		Use:   "retry DELIVERY|RELAY|MEMBER[@TEAM]",
		Short: "Retry a failed message, or an agent that has died",
		Long: `Put a failed delivery into the queue again, or retry an agent that has died.

A delivery is sent again as a new message, by the running relay or the next one.
The agent may already have done a part of its work, and may do it twice. If a
relay was added, and its agent did not stay alive, the service starts it again.
The first 4 characters of an id are enough, or more if several ids begin with
them.

Exit status: 0; 2 several match; 3 no such delivery or relay; 5 the delivery has
not failed, or the agent has not died.`,
		Example: `  teambridge relay retry 3f0c`,
		Args:    exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(func(ctx context.Context) []string {
			return append(completer{a}.deliveryIDs(ctx), completer{a}.relayIDs(ctx)...)
		}),
		RunE: func(cmd *cobra.Command, args []string) error { return retryRelay(cmd.Context(), a, args[0]) },
	}
	drop := &cobra.Command{
		Use:   "drop DELIVERY",
		Short: "Give up a message that waits or failed",
		Long: `Give up a delivery that waits or failed: it is never sent to the agent.

A delivery that the agent is working on cannot be given up. The first 4
characters of its id are enough, or more if several ids begin with them.

Exit status: 0; 2 several match; 3 no such delivery; 5 the delivery is under way
or has ended.`,
		Example:           `  teambridge relay drop 3f0c`,
		Args:              exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.deliveryIDs),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := a.bridge(cmd.Context()).DropDelivery(cmd.Context(), args[0])
			return err
		},
	}
	return group("relay", "Headless agents: their relays, deliveries and queues",
		`Show and control the relays of headless agents, and choose those of the service.`,
		list, retry, drop, newRelayHold(a), newRelayRelease(a), newRelayAdd(a), newRelayRemove(a))
}

func listRelays(ctx context.Context, a *app, all, relaysOnly bool) error {
	if all && relaysOnly {
		return usage("omit one of them", "--all and --relays cannot be used together")
	}
	team, err := a.namedTeam("")
	if err != nil {
		return err
	}
	b := a.bridge(ctx)
	relays := 0
	var silent error
	if relaysOnly || !a.json {
		known, err := b.Relays(ctx, team)
		silent = a.serviceError(ctx, team)
		var missing *teams.NoRootError
		switch {
		case err != nil && (relaysOnly || !errors.As(err, &missing)):
			return err
		case a.json:
			return errors.Join(a.printJSON(known), silent)
		case relaysOnly && len(known) == 0 && silent == nil:
			a.note("there are no relays")
		case len(known) > 0:
			if err := printRelays(a, known); err != nil {
				return err
			}
		}
		if relays = len(known); relaysOnly {
			return silent
		}
	}
	q := api.DeliveryQuery{Team: team}
	if !all {
		q.State = api.Unfinished
	}
	infos, err := b.Deliveries(ctx, q)
	if err != nil {
		return err
	}
	if relays > 0 && len(infos) > 0 {
		err = a.printf("\n")
	}
	for _, d := range infos {
		a.learnNames(ctx, d.Team)
	}
	head := []string{"DELIVERY", "TO", "FROM", "KIND", "STATE", "SINCE", "REASON"}
	return errors.Join(err, printList(&a.console, infos, "no deliveries are under way or failed", head, func(d api.Delivery) []string {
		from := d.From
		if d.Person {
			from = cmp.Or(from, mail.User)
		}
		return []string{shortID(d.Delivery), d.Member + "@" + d.Team, a.yours.you(d.Team, from), d.Kind, d.Word, clock(d.At), dash(d.Why)}
	}), silent)
}

// retryRelay retries a relay that has given up, or else a delivery.
func retryRelay(ctx context.Context, a *app, query string) error {
	b := a.bridge(ctx)
	e, err := relayMeant(ctx, a, query)
	if errors.Is(err, api.CodeNotFound) {
		_, err = b.RetryDelivery(ctx, query)
		return err
	}
	if err != nil {
		return err
	}
	if _, err := b.RetryRelay(ctx, e.ID); err != nil {
		return fmt.Errorf("try relay %s again: %w", e.ID, err)
	}
	noteService(ctx, a)
	return nil
}

// relayMeant returns the relay that an id or MEMBER[@TEAM] names.
func relayMeant(ctx context.Context, a *app, query string) (api.RelayEntry, error) {
	team, err := a.namedTeam("")
	if err != nil {
		return api.RelayEntry{}, err
	}
	return a.bridge(ctx).Relay(ctx, team, query)
}
