package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/status/api"
	"teambridge/status/view"
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

Only a session that "teambridge run --local" runs can move. The command waits
until it is there, and prints why it is held: it is held while the agent works,
a dialog is open, or a draft at the prompt cannot be kept. --force interrupts
the turn and leaves the dialog. The switch is refused if it would end living
teammates or delete messages that they have not read.

If no team is named, MEMBER is looked for among the sessions that can move. If
the time is up, or the command is interrupted, the request is taken back; with
--no-wait it stands.

Exit status: 0 it is there, or was asked for; 3 no such member; 4 timed out; 5
its session cannot move, or the switch was refused; 130 interrupted.`,
		Example:           `  teambridge switch lead --to local`,
		Args:              exactly(1),
		ValidArgsFunction: a.completeFirst(a.movable),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.switchTo(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "where the session is wanted: "+api.PlaceLocal+" or "+api.PlaceRemote)
	f.BoolVar(&o.force, "force", false, "interrupt the agent, and give up a draft that cannot be kept")
	durationFlag(cmd, &o.timeout, "timeout", 0, "how long to wait (30s, 5m); 0 is forever")
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
	l, err := a.ledger(ctx)
	if err != nil {
		return err
	}
	t, member, err := a.movableIn(ctx, l, address)
	if err != nil {
		return err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	m := relay.Move{State: a.state, Ledger: l, Team: t, Config: c, Member: member, To: ledger.Place(o.to), Force: o.force}
	who := member + "@" + t.Name()
	wish, h, err := m.Ask(ctx)
	if err != nil {
		return err
	}
	if wish > 0 && !o.noWait {
		waiting, cancel := within(ctx, o.timeout, who+" is not "+o.to)
		defer cancel()
		done := a.working("waiting for %s to be %s", who, o.to)
		h, err = m.Wait(waiting, wish, func(reason string) { a.note("%s is %s, and the switch is held: %s", who, h.At, reason) })
		done()
		if waiting.Err() != nil && err != nil {
			h, err = a.takeBack(ctx, &m, wish, context.Cause(waiting))
		}
		if err != nil {
			return notMoved(err, who)
		}
	} else if wish > 0 {
		h.Wanted = m.To
	}
	word := string(h.At)
	if wish > 0 && o.noWait {
		word = "asked for"
	}
	return a.answer(api.Placed{Team: t.Name(), Member: member, Place: view.Place(h)}, "%s  %s\n", a.paint(green, word), escape(who, false))
}

// takeBack withdraws a wish that was waited for in vain, because of why. It may have been
// granted just now.
func (a *app) takeBack(ctx context.Context, m *relay.Move, wish int64, why error) (ledger.Handoff, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), journalWait)
	defer cancel()
	withdrawn, err := m.Withdraw(ctx, wish)
	if err != nil || withdrawn {
		return ledger.Handoff{}, cmp.Or(err, why)
	}
	return m.Wait(ctx, wish, func(string) {})
}

// notMoved names the session in an error of [relay.Move.Wait].
func notMoved(err error, who string) error {
	if refused, ok := errors.AsType[*relay.RefusedError](err); ok {
		return refuse("", "%s was not moved: %s", who, refused.Reason)
	}
	return err
}

// movableIn returns the team and the name of a member whose session is to move.
func (a *app) movableIn(ctx context.Context, l *ledger.Ledger, address string) (*teams.Team, string, error) {
	member, named := teams.Split(address)
	team, err := a.namedTeam(named)
	if err != nil {
		return nil, "", err
	}
	root, err := a.root()
	if err != nil {
		return nil, "", err
	}
	if team == "" {
		all, err := a.moving(ctx, l, root)
		if err != nil {
			return nil, "", err
		}
		var found []string
		for _, h := range all {
			if h.Inbox == root.MemberName(ctx, h.Team, member) {
				found = append(found, h.Inbox+"@"+h.Team)
			}
		}
		switch len(found) {
		case 0:
			return nil, "", fmt.Errorf("%s: %w", address, relay.ErrStays)
		case 1:
			_, team = teams.Split(found[0])
		default:
			return nil, "", usage("they are "+strings.Join(found, ", "), "%q matches %d sessions", address, len(found))
		}
	}
	t, err := a.team(ctx, team)
	if err != nil {
		return nil, "", err
	}
	member, err = t.Resolve(ctx, member)
	return t, member, err
}

// moving lists the sessions of root that can move: their launchers run.
func (a *app) moving(ctx context.Context, l *ledger.Ledger, root *teams.Root) ([]ledger.Handoff, error) {
	all, err := l.Handoffs(ctx, root.Path())
	var list []ledger.Handoff
	for _, h := range all {
		t, err := root.Team(h.Team)
		if err != nil {
			continue // the team has ended
		}
		c, err := t.Config(ctx)
		if err == nil && c.Instance().CreatedAt == h.CreatedAt {
			if runs, err := relay.Running(a.state, t, h.Inbox); err == nil && runs {
				list = append(list, h)
			}
		}
		t.Close()
	}
	return list, err
}

// movable lists the sessions that can move.
func (a *app) movable(ctx context.Context) (words []string) {
	l, err := a.local().Ledger(ctx)
	if err != nil || l == nil {
		return nil
	}
	root, err := a.root()
	if err != nil {
		return nil
	}
	list, _ := a.moving(ctx, l, root)
	for _, h := range list {
		words = append(words, described(h.Inbox+"@"+h.Team, fmt.Sprintf("its session is %s", h.At)))
	}
	return words
}
