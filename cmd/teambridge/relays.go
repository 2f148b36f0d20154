package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/pipe"
	"teambridge/status/api"
	"teambridge/status/roster"
	"teambridge/teams"
)

// The relays that a service runs: relay add, remove, and list.

// relayAddOptions are the flags of relay add.
type relayAddOptions struct {
	dir         string
	onCut       string
	permissions string
	mode        string
	plain       bool
	create      bool
}

func newRelayAdd(a *app) *cobra.Command {
	o := relayAddOptions{onCut: string(relay.NudgeAgent)}
	cmd := &cobra.Command{
		Use:   "add MEMBER[@TEAM] -- claude [ARGS...]",
		Short: "Have a headless agent run by the service",
		Long: `Record that the service runs a headless agent as a member of a team, with its
inbox relayed to it as by "teambridge run": whenever there is a team of that name,
again when the agent or the service was killed, and with its session. The team need
not be there yet; with --create-team it is made for the agent. A member has one.

Nothing is started here. Without a service that runs, it is only recorded.

Exit status: 0; 2 a mistake in the command line; 5 there is one for this member.`,
		Example: `  teambridge relay add lead@myteam --permissions allow=Read,Grep -- claude --model sonnet
  teambridge relay add lead@another --create-team -- claude`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n != 1 || len(args) < 2 {
				return usage("usage: "+cmd.UseLine(), "add takes a member and, behind --, a command")
			}
			return nil
		},
		ValidArgsFunction: a.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.relayAdd(cmd.Context(), args[0], args[1:], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "the agent's working directory (default: this one)")
	f.StringVar(&o.onCut, "on-cut", o.onCut, "when a crash cut a turn: nudge (tell the agent to go on) or report")
	f.StringVar(&o.mode, "mode", "", `how a new session of the agent begins, as JSON: {"model": "…",
"permissionMode": "…"}; from then on messages change it`)
	f.BoolVar(&o.create, "create-team", false, "make the team, with the agent as its lead, whenever there is none of\nthat name, and take it back where the service that made it was killed")
	f.BoolVar(&o.plain, "plain", false, "add no flags to the command: for programs that speak the same lines")
	permissionsFlag(cmd, &o.permissions)
	must(cmd.RegisterFlagCompletionFunc("on-cut", cobra.FixedCompletions([]string{string(relay.NudgeAgent), string(relay.ReportCut)}, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("dir", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}))
	return cmd
}

func newRelayRemove(a *app) *cobra.Command {
	team := false
	cmd := &cobra.Command{
		Use:   "remove RELAY",
		Short: "Have the service not run an agent any more",
		Long: `Remove a relay that was added. A service that runs ends its agent, which may
finish its turn. What waits for it stays where it is.

--delete-team removes the team with it that was made for it (relay add --create-team),
and what waits there, once the agent has ended. Where other agents are in the team, or
it is not that team any more, nothing is removed.

Exit status: 0; 3 no such relay; 5 it is no relay of the service, or its team is to
stay.`,
		Args:              exactly(1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return a.relayRemove(cmd.Context(), args[0], team) },
	}
	cmd.Flags().BoolVar(&team, "delete-team", false, "remove the team, too, that was made for it")
	return cmd
}

func (a *app) relayAdd(ctx context.Context, address string, command []string, o relayAddOptions) error {
	if o.onCut != string(relay.NudgeAgent) && o.onCut != string(relay.ReportCut) {
		return usage("there is nudge and report", "--on-cut %q: no such way", o.onCut)
	}
	permissions, err := policy(o.permissions)
	if err != nil {
		return err
	}
	if o.mode != "" {
		if _, err := pipe.ParseMode([]byte(o.mode)); err != nil {
			return usage("", "--mode: %v", err)
		}
	}
	if err := checkCommand(command, o.plain); err != nil {
		return err
	}
	root, err := a.root()
	if err != nil {
		return err
	}
	defer root.Close()
	member, team, err := a.posted(ctx, root, address)
	if err != nil {
		return err
	}
	if o.create {
		member = fleet.LeadName(member)
	}
	dir := o.dir
	if dir == "" {
		if dir, err = a.cwd(); err != nil {
			return err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return usage("", "--dir: %v", err)
	}
	l, err := a.ledger(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	r, err := l.AddRelay(ctx, ledger.Relay{
		Root: root.Path(), Team: team, Member: member, Command: command, Plain: o.plain, Dir: dir,
		OnCut: o.onCut, Permissions: permissions.String(), Mode: []byte(o.mode), OwnTeam: o.create,
	})
	if errors.Is(err, ledger.ErrConflict) {
		return refuse("see it with: teambridge relay list --relays; take it away with: teambridge relay remove", "there is a relay for %s@%s", member, team)
	}
	if value, ok := errors.AsType[*ledger.ValueError](err); ok {
		return usage("", "%s %s", value.Field, value.Reason)
	}
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(roster.Entry(r))
	} else {
		err = a.printf("added  %s  %s@%s\n", r.ID, escape(member, false), escape(team, false))
	}
	return errors.Join(err, a.serviceNote(root))
}

// posted understands MEMBER[@TEAM] of a team that need not be there.
func (a *app) posted(ctx context.Context, root *teams.Root, address string) (member, team string, err error) {
	member, named := teams.Split(address)
	team = a.teamName
	if team == "" && named == "" {
		team, _ = a.lookup("TEAMBRIDGE_TEAM")
	}
	if named != "" && team != "" && named != team {
		return "", "", usage("leave one of them out", "--team says %q and the name says %q", team, named)
	}
	if named != "" {
		team = named
	}
	if team == "" {
		t, err := a.team(ctx, "")
		if err != nil {
			return "", "", err
		}
		team = t.Name()
		closeAll(t)
	}
	t, err := root.Team(team)
	if err == nil {
		// There it is: then the name can be one that it knows, or "lead".
		defer t.Close()
		member, err = fleet.Member(ctx, t, member)
		if _, ok := errors.AsType[*fleet.LeadError](err); ok {
			return "", "", refuse("an interactive agent reads its inbox by itself", "%s", err.Error())
		}
		return member, t.Name(), err
	}
	if !errors.Is(err, teams.ErrTeamGone) {
		return "", "", err
	}
	return member, team, teams.CheckName("member", member)
}

// serviceNote says that what was changed waits for a service.
func (a *app) serviceNote(root *teams.Root) error {
	state, err := a.state()
	if err != nil {
		return err
	}
	running, err := fleet.Running(state, root)
	if err != nil {
		return err
	}
	if !running {
		a.note("no service runs that would run it; it is recorded for the next one")
	}
	return nil
}

func (a *app) relayRemove(ctx context.Context, id string, team bool) error {
	l, err := a.ledger(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	all, err := l.Relays(ctx, "")
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(r ledger.Relay) bool { return r.ID == id })
	if i < 0 {
		return a.notAdded(ctx, l, id)
	}
	var own fleet.Own
	var doomed *ledger.Founding
	if team {
		root, err := teams.Open(all[i].Root)
		if err != nil {
			return err
		}
		defer root.Close()
		if own, err = a.own(root, l); err != nil {
			return err
		}
		doomed, err = own.Doomed(ctx, all[i])
		_, occupied := errors.AsType[*teams.OccupiedError](err)
		if _, another := errors.AsType[*fleet.NotOwnError](err); occupied || another {
			return refuse("nothing was removed; without --delete-team the relay goes, and the team stays", "%s", api.Describe(err))
		}
		if err != nil {
			return err
		}
	}
	err = l.RemoveRelay(ctx, id, doomed)
	if errors.Is(err, ledger.ErrUnknown) {
		return notFound("see them with: teambridge relay list --relays", "no relay %s", id)
	}
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(roster.Entry(all[i]))
	} else {
		err = a.printf("removed  %s  %s@%s\n", id, escape(all[i].Member, false), escape(all[i].Team, false))
	}
	if doomed == nil {
		return err
	}
	// Where a service runs its agent ends first.
	if running, rerr := fleet.Running(own.State, own.Root); running || rerr != nil {
		if running {
			a.note("the service removes the team %s when the agent has ended", doomed.Team)
		}
		return errors.Join(err, rerr)
	}
	return errors.Join(err, own.Bury(ctx))
}

// notAdded says why nothing can be done with a relay that was not added.
func (a *app) notAdded(ctx context.Context, l *ledger.Ledger, id string) error {
	known, err := a.relaysKnown(ctx, l)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(known, func(e api.RelayEntry) bool { return e.ID == id })
	if i < 0 {
		return notFound("see them with: teambridge relay list --relays", "no relay %s", id)
	}
	hint, reason := roster.Elsewhere(known[i])
	return refuse(hint, "%s", reason)
}

// own is what keeps the teams of agents that have one of their own.
func (a *app) own(root *teams.Root, l *ledger.Ledger) (fleet.Own, error) {
	locker, err := a.locks()
	if err != nil {
		return fleet.Own{}, err
	}
	state, err := a.state()
	return fleet.Own{Root: root, Ledger: l, Locker: locker, State: state}, err
}

// relaysKnown lists the relays that are to be run, and those that were.
func (a *app) relaysKnown(ctx context.Context, l *ledger.Ledger) ([]api.RelayEntry, error) {
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	state, err := a.state()
	if err != nil {
		return nil, err
	}
	return roster.Entries(ctx, l, state, root, a.teamName)
}

// printRelays prints them for a person.
func (a *app) printRelays(list []api.RelayEntry) error {
	rows := [][]string{{"RELAY", "MEMBER", "STATE", "QUEUE", "DEAD LETTERS", "LAST ANSWER", "COMMAND", "REASON"}}
	for _, r := range list {
		last := "-"
		if r.LastAck != nil {
			last = clock(*r.LastAck)
		}
		rows = append(rows, []string{
			dash(r.ID), r.Member + "@" + r.Team, r.State, strconv.Itoa(r.Queue), strconv.Itoa(r.DeadLetters), last,
			strings.Join(r.Command, " "), dash(r.Reason),
		})
	}
	return a.table(rows)
}

// relayRevive tries a relay again that gave up, if id is one that was added.
func (a *app) relayRevive(ctx context.Context, l *ledger.Ledger, id string) (was bool, err error) {
	all, err := l.Relays(ctx, "")
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(all, func(r ledger.Relay) bool { return r.ID == id })
	if i < 0 {
		known, err := a.relaysKnown(ctx, l)
		var missing *teams.NoRootError
		if errors.As(err, &missing) {
			return false, nil // then it is a delivery, if it is anything
		}
		if i = slices.IndexFunc(known, func(e api.RelayEntry) bool { return e.ID == id }); i >= 0 {
			hint, reason := roster.Elsewhere(known[i])
			err = refuse(hint, "%s", reason)
		}
		return i >= 0, err
	}
	r := all[i]
	root, err := teams.Open(r.Root)
	if err != nil {
		return true, err
	}
	defer root.Close()
	t, err := root.Team(r.Team)
	if err != nil {
		return true, err
	}
	defer t.Close()
	member, err := fleet.Member(ctx, t, r.Member)
	if err != nil {
		return true, err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return true, err
	}
	post := ledger.Post{Root: r.Root, Team: r.Team, CreatedAt: c.Instance().CreatedAt, Inbox: member}
	s, _, err := l.Session(ctx, post)
	if err != nil {
		return true, err
	}
	if s.Dead == "" {
		return true, refuse("see how it stands with: teambridge relay list", "the relay %s has not given up", id)
	}
	if err := l.Revive(ctx, post); err != nil {
		return true, fmt.Errorf("try relay %s again: %w", id, err)
	}
	return true, a.serviceNote(root)
}
