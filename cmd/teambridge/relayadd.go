package main

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/ledger"
	"teambridge/relay/fleet"
	"teambridge/relay/runtimes"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

func newRelayAdd(a *app) *cobra.Command {
	var r ledger.Relay
	var mode string
	cmd := &cobra.Command{
		Use:   "add MEMBER[@TEAM] [-- COMMAND [ARGS...]]",
		Short: "Make the service run a headless agent",
		Long: `Make the service run a headless agent as a member of a team.

Its inbox is relayed to it, as by "teambridge run". The agent is started
whenever the team exists, and resumed if it or the service was killed. The team
need not exist yet; with --create-team the service creates it for the agent. In
such a team, each further agent that is added becomes a member. A member has one
relay: adding it again with the same settings changes nothing.

With --runtime opencode, the agent is OpenCode, and needs no command. --url is a
server that runs already; the service needs its password in its environment.
With --runtime acp, the agent is the program after --, which speaks the Agent
Client Protocol on its standard input and output; --runtime codex, gemini or
qwen is the same with the command codex-acp, gemini --acp or qwen --acp.

This command itself starts nothing. If no service runs, the next one starts the
agent.

Exit status: 0; 2 the command line is invalid; 5 the member has a relay with
other settings, or is an interactive lead.`,
		Example: `  teambridge relay add lead@myteam --create-team -- claude
  teambridge relay add worker@myteam --permissions allow=Read,Grep -- claude
  teambridge relay add reviewer@myteam --runtime opencode --permissions ask`,
		Args: func(cmd *cobra.Command, args []string) error {
			kind, known := runtimes.Find(r.Runtime) // addRelay reports an unknown one
			needed := known && (kind.Name == runtimes.Claude || kind.NeedsCommand)
			if n := cmd.ArgsLenAtDash(); n == 1 && len(args) > 1 || n < 0 && len(args) == 1 && !needed {
				return nil
			}
			return usage("such as: teambridge relay add worker@myteam -- claude",
				"relay add needs a member and, after --, the command of the agent; only --runtime opencode, codex, gemini and qwen need no command")
		},
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Command, r.Mode = args[1:], []byte(mode)
			return addRelay(cmd.Context(), a, args[0], r)
		},
	}
	agentFlags(cmd, &r)
	dirFlag(cmd, &r.Dir)
	modeFlag(cmd, &mode, "the mode of a new session, until a message changes it")
	return cmd
}

func newRelayRemove(a *app) *cobra.Command {
	team := false
	cmd := &cobra.Command{
		Use:   "remove RELAY|MEMBER[@TEAM]",
		Short: "Make the service stop running an agent",
		Long: `Remove a relay that was added, by its id (4 characters may do) or its member.

A running service lets the agent finish its turn and ends it. Waiting messages
stay in the inbox. If the agent became a member when it was added, it then
leaves the team. --delete-team also removes the team that was created with
"relay add --create-team", and its inboxes, once the agent has ended. If other
agents work in the team, or another team has its name now, nothing is removed.

Exit status: 0; 2 several relays match; 3 no such relay; 5 the relay was not
added, or the team must stay.`,
		Example:           `  teambridge relay remove worker@myteam`,
		Args:              exactly(1),
		ValidArgsFunction: completer{a}.completeFirst(completer{a}.relayIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return removeRelay(cmd.Context(), a, args[0], team) },
	}
	cmd.Flags().BoolVar(&team, "delete-team", false, "also remove the team that was created for the agent")
	return cmd
}

func addRelay(ctx context.Context, a *app, address string, r ledger.Relay) (err error) {
	if r.Member, r.Team, err = memberOfAnyTeam(ctx, a, address); err != nil && view.Explain(err).Code == api.CodeNotFound && !strings.Contains(address, "@") {
		return notFound("name its team: "+address+"@TEAM; with --create-team it is made", "%s", view.Describe(err))
	} else if err != nil {
		return err
	}
	if a.there != nil {
		if err := dirThere("dir", &r.Dir); err != nil {
			return err
		}
	} else if r.Dir, err = filepath.Abs(r.Dir); err != nil {
		return err
	}
	n := api.NewRelay{
		Team: r.Team, Member: r.Member, Runtime: r.Runtime, Command: r.Command, URL: r.URL, Profile: r.Profile,
		Dir: r.Dir, Permissions: r.Permissions, Mode: r.Mode, Plain: r.Plain, CreateTeam: r.OwnTeam, IdleReports: r.IdleReports,
	}
	if r.IdleExit != 0 {
		n.IdleExit = r.IdleExit.String()
	}
	b := a.bridge(ctx)
	e, err := b.AddRelay(ctx, n)
	if err != nil {
		return err
	}
	if a.there == nil {
		profileNote(a, ledger.Relay{Root: a.where(), Runtime: e.Runtime, Profile: e.Profile, Dir: e.Dir})
		warnNeverAsked(a, a.where(), ledger.Relay{Runtime: e.Runtime, Dir: e.Dir, Command: e.Command, Permissions: e.Permissions})
	}
	switch {
	case b.unused != nil:
		a.warn("%s; the agent is not started before the service looks by itself", view.Describe(b.unused))
	case b.service != nil && e.CreateTeam:
		awaitTeam(ctx, a, b, e.Team)
	}
	err = a.answer(e, "%s  %s  %s@%s\n", orUnchanged("added", e.Added), e.ID, escape(e.Member, false), escape(e.Team, false))
	noteService(ctx, a)
	return err
}

// awaitTeam waits until the service has created the team of a relay. Otherwise the next command would not find it.
func awaitTeam(ctx context.Context, a *app, b api.Bridge, team string) {
	bound, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for tick := time.Tick(20 * time.Millisecond); ; {
		if _, err := b.Team(bound, team); err == nil {
			return
		}
		select {
		case <-tick:
		case <-bound.Done():
			a.note("the service has not made the team yet; see why with: teambridge relay list")
			return
		}
	}
}

// memberOfAnyTeam splits MEMBER[@TEAM]. The team need not exist yet.
func memberOfAnyTeam(ctx context.Context, a *app, address string) (member, team string, err error) {
	member, named := teams.Split(address)
	if team, err = a.namedTeam(named); err != nil || team != "" {
		return member, team, err
	}
	to, err := a.target(ctx)
	return member, to.Team, err
}

// serviceRuns reports whether a service runs agents, even one that does not answer.
func serviceRuns(ctx context.Context, a *app) bool {
	if a.bridge(ctx).service != nil {
		return true
	}
	root, err := a.root()
	if err != nil {
		return false
	}
	running, err := fleet.Running(a.state, root)
	if err != nil {
		a.debug("whether a service runs is not known: %v", err)
	}
	return running
}

// noteService notes that no service runs.
func noteService(ctx context.Context, a *app) {
	if !serviceRuns(ctx, a) {
		a.note("no service is running; the next one starts it")
	}
}

func removeRelay(ctx context.Context, a *app, query string, deleteTeam bool) error {
	e, err := relayMeant(ctx, a, query)
	if err != nil {
		return err
	}
	if e, err = a.bridge(ctx).RemoveRelay(ctx, e.ID, deleteTeam); err != nil {
		return err
	}
	err = a.answer(e, "removed  %s  %s@%s\n", e.ID, escape(e.Member, false), escape(e.Team, false))
	if deleteTeam && serviceRuns(ctx, a) {
		a.note("the service removes the team %s when the agent has ended", e.Team)
	}
	return err
}

// owner returns the [fleet.TeamOwner], which creates and removes teams of headless agents.
func owner(a *app, root *teams.Root, l *ledger.Ledger) fleet.TeamOwner {
	return fleet.TeamOwner{Root: root, Ledger: l, Locker: a.locks(), State: a.state}
}

// hasRelays reports whether relays were added to the service, for one team or any. Without relays, the service knows
// no more than the files.
func hasRelays(ctx context.Context, l *ledger.Ledger, root *teams.Root, team string) bool {
	added, err := l.Relays.List(ctx, root.Path())
	return err != nil || slices.ContainsFunc(added, func(r ledger.Relay) bool { return team == "" || r.Team == team })
}

func printRelays(a *app, list []api.RelayEntry) error {
	rows := [][]string{{"RELAY", "MEMBER", "STATE", "PERMISSIONS", "UNDER WAY", "FAILED", "LAST ANSWER", "COMMAND", "REASON"}}
	for _, r := range list {
		last := "-"
		if r.LastAck != nil {
			last = clock(*r.LastAck)
		}
		rows = append(rows, []string{
			dash(shortID(r.ID)), r.Member + "@" + r.Team, view.RelayState(r.State, r.Place), dash(r.PermissionMode), strconv.Itoa(r.Queue), strconv.Itoa(r.DeadLetters), last,
			r.CommandLine(), dash(r.Reason),
		})
	}
	return a.table(rows)
}
