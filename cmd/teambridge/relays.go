package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/ledger"
	"teambridge/relay/fleet"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

func newRelayAdd(a *app) *cobra.Command {
	var r ledger.Relay
	var mode string
	cmd := &cobra.Command{
		Use:   "add MEMBER[@TEAM] [-- COMMAND [ARGS...]]",
		Short: "Have the service run a headless agent",
		Long: `Have the service run a headless agent as a member of a team.

Its inbox is relayed to it, as by "teambridge run". The agent is started
whenever the team exists, and resumed if it or the service was killed. The team
need not exist yet; with --create-team it is made for the agent. In a team that
was made so, each further agent that is added becomes a member. A member has one
relay: adding it again with the same settings changes nothing.

With --runtime opencode the agent is OpenCode, and needs no command. --url is
a server that runs already; the service has its password in --password-file or
in its own environment.

The command itself starts nothing. If no service runs, the next one starts the
agent.

Exit status: 0; 2 the command line is invalid; 5 the member has a relay with
other settings, or is an interactive lead.`,
		Example: `  teambridge relay add lead@myteam --create-team -- claude
  teambridge relay add worker@myteam --permissions allow=Read,Grep -- claude
  teambridge relay add reviewer@myteam --runtime opencode --permissions ask`,
		Args: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); n == 1 && len(args) > 1 || n < 0 && len(args) == 1 && r.Runtime == fleet.OpenCode {
				return nil
			}
			return usage("usage: "+cmd.UseLine(), "add takes a member and, after --, a command; only --runtime opencode needs none")
		},
		ValidArgsFunction: a.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Command, r.Mode = args[1:], []byte(mode)
			return a.relayAdd(cmd.Context(), args[0], r)
		},
	}
	agentFlags(cmd, &r)
	f := cmd.Flags()
	f.StringVar(&r.Dir, "dir", ".", "the agent's working directory")
	f.StringVar(&mode, "mode", "", `the mode in which a new session begins, as JSON such as {"model": "opus"}; messages can change it later`)
	f.BoolVar(&r.OwnTeam, "create-team", false, "make the team, with the agent as its lead, whenever it does not exist")
	completeDirs(cmd)
	return cmd
}

func newRelayRemove(a *app) *cobra.Command {
	team := false
	cmd := &cobra.Command{
		Use:   "remove RELAY|MEMBER[@TEAM]",
		Short: "Stop having the service run an agent",
		Long: `Remove a relay that was added, by its id (4 characters may do) or its member.

A running service lets the agent finish its turn and ends it. Waiting messages
stay in the inbox. An agent that became a member when it was added then leaves
the team. --delete-team also removes the team that was made with "relay add
--create-team", and its inboxes, once the agent has ended. If other agents work
in the team, or it is no longer that team, nothing is removed.

Exit status: 0; 2 several relays match; 3 no such relay; 5 the relay was not
added, or the team must stay.`,
		Example:           `  teambridge relay remove worker@myteam`,
		Args:              exactly(1),
		ValidArgsFunction: a.completeFirst(a.relayIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.relayRemove(cmd.Context(), args[0], team) },
	}
	cmd.Flags().BoolVar(&team, "delete-team", false, "also remove the team that was made for it")
	return cmd
}

func (a *app) relayAdd(ctx context.Context, address string, r ledger.Relay) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	if r.Member, r.Team, err = a.memberOfAnyTeam(ctx, address); err != nil {
		return err
	}
	if err := absolute(&r.PasswordFile); err != nil {
		return err
	}
	if r.Dir, err = filepath.Abs(r.Dir); err != nil {
		return err
	}
	l, err := a.ledger(ctx)
	if err != nil {
		return err
	}
	r, added, err := fleet.Admin(a.owner(root, l)).Add(ctx, r)
	if err != nil {
		return err
	}
	e := view.Entry(r)
	e.Member = root.MemberName(ctx, r.Team, r.Member)
	word := "added"
	if !added {
		word = "unchanged"
	}
	a.profileNote(r)
	a.startRelay(ctx, root, r)
	err = a.answer(e, "%s  %s  %s@%s\n", word, e.ID, escape(e.Member, false), escape(e.Team, false))
	return errors.Join(err, a.serviceNote(root))
}

// startRelay makes a running service look at a relay that was added, and waits until it has
// made the relay's team. Otherwise the next command would not find the team. A failure is
// only a warning, since the service also looks by itself.
func (a *app) startRelay(ctx context.Context, root *teams.Root, r ledger.Relay) {
	n := api.NewRelay{
		Team: r.Team, Member: r.Member, Runtime: r.Runtime, Command: r.Command, URL: r.URL, PasswordFile: r.PasswordFile, Profile: r.Profile,
		Dir: r.Dir, OnCut: r.OnCut, Permissions: r.Permissions, Mode: r.Mode, Plain: r.Plain, CreateTeam: r.OwnTeam,
	}
	if r.IdleExit > 0 {
		n.IdleExit = r.IdleExit.String()
	}
	answered, err := a.askService(ctx, root, func(ctx context.Context, c *client.Client) error {
		_, err := c.AddRelay(ctx, n)
		return err
	})
	if err != nil && ctx.Err() == nil {
		a.warn("%s; the agent is not started before the service looks by itself", view.Describe(err))
	}
	if !answered {
		return
	}
	bound, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if r.OwnTeam && poll(bound, func() (bool, error) {
		t, err := root.Team(r.Team)
		if err != nil {
			return false, nil // not yet
		}
		return true, t.Close()
	}) != nil {
		a.note("the service has not made the team yet; see why with: teambridge relay list")
	}
}

// memberOfAnyTeam splits MEMBER[@TEAM]. The team need not exist yet.
func (a *app) memberOfAnyTeam(ctx context.Context, address string) (member, team string, err error) {
	member, named := teams.Split(address)
	if team, err = a.namedTeam(named); err != nil || team != "" {
		return member, team, err
	}
	t, err := a.team(ctx, "")
	if err != nil {
		return "", "", err
	}
	return member, t.Name(), nil
}

// serviceNote notes that no service runs.
func (a *app) serviceNote(root *teams.Root) error {
	running, err := fleet.Running(a.state, root)
	if err == nil && !running {
		a.note("no service is running; the next one starts it")
	}
	return err
}

func (a *app) relayRemove(ctx context.Context, query string, deleteTeam bool) error {
	l, r, err := a.findRelay(ctx, query)
	if err != nil || r == nil {
		return cmp.Or(err, noRelay(query))
	}
	admin := fleet.Admin{Ledger: l}
	root, err := teams.Open(r.Root)
	if err == nil {
		defer root.Close()
		admin = fleet.Admin(a.owner(root, l))
	} else if deleteTeam || !errors.As(err, new(*teams.NoRootError)) {
		return err
	}
	later, err := admin.Remove(ctx, *r, deleteTeam)
	if errors.Is(err, fleet.ErrUnknown) {
		return noRelay(query)
	}
	if err != nil {
		return err
	}
	err = a.answer(view.Entry(*r), "removed  %s  %s@%s\n", r.ID, escape(r.Member, false), escape(r.Team, false))
	if later {
		a.note("the service removes the team %s when the agent has ended", r.Team)
	}
	return err
}

func noRelay(query string) error {
	return notFound("list the relays with: teambridge relay list --relays", "there is no relay %s", query)
}

type candidate struct{ id, root, team, member string }

// pick returns the index of the relay with the id query, else of MEMBER[@TEAM], else whose
// id begins with it. It returns -1 if there is none, and a usage error if there are
// several. Members are not known without a root.
func (a *app) pick(ctx context.Context, root *teams.Root, query string, all []candidate) (int, error) {
	fallback, _ := a.lookup("TEAMBRIDGE_TEAM")
	member, team := teams.Split(query)
	team = cmp.Or(team, a.teamName, fallback)
	for _, fits := range []func(candidate) bool{
		func(c candidate) bool { return c.id == query },
		func(c candidate) bool {
			return root != nil && c.root == root.Path() && (team == "" || c.team == team) && c.member == root.MemberName(ctx, c.team, member)
		},
		func(c candidate) bool { return len(query) >= view.MinPrefix && strings.HasPrefix(c.id, query) },
	} {
		last := -1
		var found []string
		for i, c := range all {
			if fits(c) {
				last = i
				found = append(found, fmt.Sprintf("%s (%s@%s)", c.id, c.member, c.team))
			}
		}
		if len(found) > 1 {
			return -1, usage("matches are "+strings.Join(found, ", "), "%q matches %d relays", query, len(found))
		}
		if last >= 0 {
			return last, nil
		}
	}
	return -1, nil
}

// findRelay returns the ledger, and the added relay that query means, with the current name
// of its member; nil if there is none. A relay of "teambridge run" is refused.
func (a *app) findRelay(ctx context.Context, query string) (l *ledger.Ledger, r *ledger.Relay, err error) {
	if l, err = a.ledger(ctx); err != nil {
		return nil, nil, err
	}
	all, err := l.Relays(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	root, err := a.root()
	if err != nil && !errors.As(err, new(*teams.NoRootError)) {
		return nil, nil, err
	}
	added := make([]candidate, len(all))
	for i, r := range all {
		if root != nil && r.Root == root.Path() {
			all[i].Member = root.MemberName(ctx, r.Team, r.Member)
		}
		added[i] = candidate{r.ID, r.Root, r.Team, all[i].Member}
	}
	i, err := a.pick(ctx, root, query, added)
	switch {
	case err != nil:
		return nil, nil, err
	case i >= 0:
		return l, &all[i], nil
	case root == nil:
		return l, nil, nil
	}
	known, err := view.Entries(ctx, l, a.state, root, a.teamName)
	if err != nil {
		return nil, nil, err
	}
	known = slices.DeleteFunc(known, func(e api.RelayEntry) bool { return e.Created != nil })
	run := make([]candidate, len(known))
	for i, e := range known {
		run[i] = candidate{e.ID, root.Path(), e.Team, e.Member}
	}
	if i, err = a.pick(ctx, root, query, run); err != nil || i < 0 {
		return l, nil, err
	}
	hint, reason := view.Elsewhere(known[i])
	return nil, nil, refuse(hint, "%s", reason)
}

// owner makes and removes the teams that agents own.
func (a *app) owner(root *teams.Root, l *ledger.Ledger) fleet.TeamOwner {
	return fleet.TeamOwner{Root: root, Ledger: l, Locker: a.locks(), State: a.state}
}

// relaysKnown lists the relays that were added or run. It asks the service if one runs,
// since only the service knows why a relay is stopped; silent is why it could not.
func (a *app) relaysKnown(ctx context.Context, l *ledger.Ledger, team string) (list []api.RelayEntry, silent, err error) {
	root, err := a.root()
	if err != nil {
		return nil, nil, err
	}
	answered := false
	if hasRelays(ctx, l, root, team) {
		answered, silent = a.askService(ctx, root, func(ctx context.Context, c *client.Client) (err error) {
			list, err = c.Relays(ctx, team)
			return err
		})
	}
	if answered || ctx.Err() != nil {
		return list, nil, silent
	}
	list, err = a.local().Relays(ctx, team)
	return list, silent, err
}

// hasRelays reports whether relays were added to the service, for one team or any. Only then
// there is something that the service alone knows.
func hasRelays(ctx context.Context, l *ledger.Ledger, root *teams.Root, team string) bool {
	added, err := l.Relays(ctx, root.Path())
	return err != nil || slices.ContainsFunc(added, func(r ledger.Relay) bool { return team == "" || r.Team == team })
}

func (a *app) printRelays(list []api.RelayEntry) error {
	rows := [][]string{{"RELAY", "MEMBER", "STATE", "PERMISSIONS", "QUEUE", "DEAD LETTERS", "LAST ANSWER", "COMMAND", "REASON"}}
	for _, r := range list {
		last := "-"
		if r.LastAck != nil {
			last = clock(*r.LastAck)
		}
		rows = append(rows, []string{
			dash(shortID(r.ID)), r.Member + "@" + r.Team, relayState(r.State, r.Place), dash(r.PermissionMode), strconv.Itoa(r.Queue), strconv.Itoa(r.DeadLetters), last,
			r.CommandLine(), dash(r.Reason),
		})
	}
	return a.table(rows)
}
