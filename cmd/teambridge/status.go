package main

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

func newStatus(a *app) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "status [MEMBER]",
		Short: "Show which agents are active, idle or terminated",
		Long: `Show the state of each agent of a team, since when, and how that is known.

ACTIVE: the agent said something less than 5 minutes ago. IDLE: 5 minutes ago
or more. TERMINATED: it has shut down. The detail says more: working, waiting
for messages, failed, or stale (the team's lead is gone). The evidence comes
from the inboxes and the journal. Newer agents remove the messages they read,
so much is only known while "teambridge watch" or the service is recording.

For a headless agent, RELAY shows what its relay does (stopped means that nobody
reads its inbox), how many messages are queued or failed (dead letters), and
when the agent last acknowledged something. With --watch a line is printed for
each change until the team ends.

Exit status: 0; 3 no such team or member; 130 interrupted.`,
		Example:           `  teambridge status worker --watch`,
		Args:              between(0, 1),
		ValidArgsFunction: a.completeMembers(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.status(cmd.Context(), args, watch) },
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "keep running, and print each change")
	return cmd
}

func (a *app) status(ctx context.Context, args []string, watch bool) (err error) {
	t, err := a.teamOf(ctx, args)
	if err != nil {
		return err
	}
	rec, err := a.startRecorder(ctx, t.Root(), t.Name())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.close()) }()
	infos, err := a.statusInfos(ctx, rec, t, args)
	if err != nil {
		return err
	}
	if err := a.printStatus(infos, watch); err != nil || !watch {
		return err
	}
	ctx, stop := a.whileRead(ctx)
	defer stop()
	return a.followStatus(ctx, rec, t, args, infos)
}

// statusInfos returns the status of all members, or of one.
func (a *app) statusInfos(ctx context.Context, rec *recorder, t *teams.Team, args []string) ([]api.Status, error) {
	all, err := rec.statuses(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(args) > 0 {
		name, err := a.statusName(ctx, t, args[0], all)
		if err != nil {
			return nil, err
		}
		all = slices.DeleteFunc(all, func(s api.Status) bool { return s.Member != name })
		if len(all) == 0 {
			return nil, notFound("list the members with: teambridge members", "%s is not an agent of %s", name, t.Name())
		}
	}
	if err := view.CountUnread(ctx, t, all); err != nil {
		return nil, err
	}
	if l := rec.sends(ctx); l != nil {
		relays, err := a.relays(ctx, l, t)
		if err != nil {
			return nil, err
		}
		view.WithRelays(all, relays)
	}
	return all, nil
}

// statusName returns the name of a member, even of one that has left.
func (a *app) statusName(ctx context.Context, t *teams.Team, arg string, all []api.Status) (string, error) {
	name, _ := teams.Split(arg)
	if slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == name }) {
		return name, nil
	}
	return t.Resolve(ctx, name)
}

func (a *app) printStatus(infos []api.Status, stream bool) error {
	if a.json && !stream {
		return a.printJSON(infos)
	}
	rows := [][]string{{"MEMBER", "STATE", "SINCE", "DETAIL", "UNREAD", "RELAY", "BY"}}
	for _, i := range infos {
		if a.json {
			if err := a.printJSON(i); err != nil {
				return err
			}
			continue
		}
		by := "joined"
		if i.Evidence.Kind != "" {
			by = i.Evidence.Kind + " " + i.Evidence.ID
		}
		rows = append(rows, []string{i.Member, i.State, clock(i.Since), i.Detail, strconv.Itoa(i.Unread), relayText(i.Relay), by})
	}
	if !slices.ContainsFunc(infos, func(i api.Status) bool { return i.Relay != nil }) {
		for i, r := range rows {
			rows[i] = slices.Delete(r, 5, 6)
		}
	}
	if stream {
		rows = rows[1:]
	}
	return a.table(rows)
}

// followStatus prints what changes, until the team ends.
func (a *app) followStatus(ctx context.Context, rec *recorder, t *teams.Team, args []string, before []api.Status) error {
	for {
		if _, err := rec.changes(ctx, time.Second); err != nil { // a status can change by time alone
			return err
		}
		now, err := a.statusInfos(ctx, rec, t, args)
		if errors.Is(err, teams.ErrTeamGone) {
			a.note("the team %s has ended", t.Name())
			return nil
		}
		if err != nil {
			return err
		}
		changed := slices.DeleteFunc(slices.Clone(now), func(i api.Status) bool {
			return slices.ContainsFunc(before, func(b api.Status) bool {
				b.Unread, b.Evidence, i.Evidence = i.Unread, api.Evidence{}, api.Evidence{}
				b.Relay, i.Relay = b.Relay.Lasting(), i.Relay.Lasting()
				// Being active for longer is no change.
				if b.State == api.StateActive && i.State == api.StateActive {
					b.Since = i.Since
				}
				return reflect.DeepEqual(b, i)
			})
		})
		before = now
		if err := a.printStatus(changed, true); err != nil {
			return err
		}
	}
}
