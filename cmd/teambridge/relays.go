package main

import (
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
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/pipe"
	"teambridge/status/api"
	"teambridge/status/client"
	"teambridge/status/view"
	"teambridge/teams"
)

// The relays that a service runs: relay add, remove, and list.

// relayAddOptions are the flags of relay add.
type relayAddOptions struct {
	dir         string
	onCut       string
	permissions string
	mode        string
	idleExit    time.Duration
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
not be there yet; with --create-team it is made for the agent. A member has one: adding
it again with the same settings changes nothing.

Nothing is started here. Without a service that runs, it is only recorded.

Exit status: 0; 2 a mistake in the command line; 5 there is one for this member, with
other settings.`,
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
	idleExitFlag(cmd, &o.idleExit)
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
		Use:   "remove RELAY|MEMBER[@TEAM]",
		Short: "Have the service not run an agent any more",
		Long: `Remove a relay that was added, by its id, the beginning of its id, or its member. A
service that runs ends its agent, which may finish its turn. What waits for it stays
where it is.

--delete-team removes the team with it that was made for it (relay add --create-team),
and what waits there, once the agent has ended. Where other agents are in the team, or
it is not that team any more, nothing is removed.

Exit status: 0; 2 several relays are meant; 3 no such relay; 5 it is no relay of the
service, or its team is to stay.`,
		Args:              exactly(1),
		ValidArgsFunction: a.completeMembers(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.relayRemove(cmd.Context(), args[0], team) },
	}
	cmd.Flags().BoolVar(&team, "delete-team", false, "remove the team, too, that was made for it")
	return cmd
}

func (a *app) relayAdd(ctx context.Context, address string, command []string, o relayAddOptions) error {
	if o.onCut != string(relay.NudgeAgent) && o.onCut != string(relay.ReportCut) {
		return usage("there is nudge and report", "--on-cut %q: no such way", o.onCut)
	}
	if err := checkIdleExit(o.idleExit); err != nil {
		return err
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
		member = teams.LeadName(member)
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
	r, added, err := fleet.Add(ctx, l, root, ledger.Relay{
		Team: team, Member: member, Command: command, Plain: o.plain, Dir: dir,
		OnCut: o.onCut, Permissions: permissions.String(), Mode: []byte(o.mode), IdleExit: o.idleExit, OwnTeam: o.create,
	})
	if exists, ok := errors.AsType[*fleet.ExistsError](err); ok {
		return refuse("see it with: teambridge relay list --relays; to replace it: teambridge relay remove "+exists.Relay.ID, "%s", exists.Error())
	}
	if errors.Is(err, ledger.ErrConflict) { // added this instant by another process
		return refuse("see it with: teambridge relay list --relays", "there is a relay for %s@%s", member, team)
	}
	if value, ok := errors.AsType[*ledger.ValueError](err); ok {
		return usage("", "%s %s", value.Field, value.Reason)
	}
	if err != nil {
		return err
	}
	e := view.Entry(r)
	e.Member = root.MemberName(ctx, r.Team, r.Member)
	word := "added"
	if !added {
		word = "unchanged, was added before"
	}
	if a.json {
		err = a.printJSON(e)
	} else {
		err = a.printf("%s  %s  %s@%s\n", word, e.ID, escape(e.Member, false), escape(e.Team, false))
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

func (a *app) relayRemove(ctx context.Context, query string, team bool) error {
	l, err := a.ledger(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	r, ok, err := a.findRelay(ctx, l, query)
	if err != nil {
		return err
	}
	if !ok {
		return a.notAdded(ctx, l, query)
	}
	var own fleet.TeamOwner
	var doomed *ledger.OwnedTeam
	if team {
		root, err := teams.Open(r.Root)
		if err != nil {
			return err
		}
		defer root.Close()
		if own, err = a.own(root, l); err != nil {
			return err
		}
		doomed, err = own.PendingDelete(ctx, r)
		_, occupied := errors.AsType[*teams.OccupiedError](err)
		if _, another := errors.AsType[*fleet.NotOwnerError](err); occupied || another {
			return refuse("nothing was removed; without --delete-team the relay goes, and the team stays", "%s", view.Describe(err))
		}
		if err != nil {
			return err
		}
	}
	err = l.RemoveRelay(ctx, r.ID, doomed)
	if errors.Is(err, ledger.ErrUnknown) {
		return notFound("see them with: teambridge relay list --relays", "no relay %s", query)
	}
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(view.Entry(r))
	} else {
		err = a.printf("removed  %s  %s@%s\n", r.ID, escape(r.Member, false), escape(r.Team, false))
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
	return errors.Join(err, own.Reap(ctx))
}

// relayQuery is what a relay is called on the command line: its id, or else its member,
// as MEMBER or MEMBER@TEAM, or else the beginning of its id.
type relayQuery struct {
	text         string
	root         *teams.Root // nil where there is none: then there are only ids
	member, team string
}

// relayQuery understands text. Close its root.
func (a *app) relayQuery(text string) (q relayQuery, close func(), err error) {
	q.text = text
	q.member, q.team = teams.Split(text)
	if q.team == "" {
		if q.team = a.teamName; q.team == "" {
			q.team, _ = a.lookup("TEAMBRIDGE_TEAM")
		}
	}
	root, err := a.root()
	if _, missing := errors.AsType[*teams.NoRootError](err); missing {
		return q, func() {}, nil
	}
	if err != nil {
		return q, nil, err
	}
	q.root = root
	return q, func() { root.Close() }, nil
}

// relayName is what a relay can be called by. The member has the name that it has in
// its team.
type relayName struct{ id, root, team, member string }

func (q relayQuery) isMember(ctx context.Context, n relayName) bool {
	return q.root != nil && n.root == q.root.Path() && (q.team == "" || n.team == q.team) &&
		n.member == q.root.MemberName(ctx, n.team, q.member)
}

// pick returns the index of the one that is meant, or -1. It is a usage error if that
// is said of several.
func (q relayQuery) pick(ctx context.Context, all []relayName) (int, error) {
	for _, fits := range []func(relayName) bool{
		func(n relayName) bool { return n.id == q.text },
		func(n relayName) bool { return q.isMember(ctx, n) },
		func(n relayName) bool { return q.text != "" && strings.HasPrefix(n.id, q.text) },
	} {
		last := -1
		var candidates []string
		for i, n := range all {
			if fits(n) {
				last = i
				candidates = append(candidates, fmt.Sprintf("%s (%s@%s)", n.id, n.member, n.team))
			}
		}
		if len(candidates) > 1 {
			return -1, usage("it can be "+strings.Join(candidates, ", "), "%q can be any of %d relays", q.text, len(candidates))
		}
		if last >= 0 {
			return last, nil
		}
	}
	return -1, nil
}

// findRelay returns the relay that was added and is meant, if there is one, with the
// name that its member has now.
func (a *app) findRelay(ctx context.Context, l *ledger.Ledger, query string) (r ledger.Relay, ok bool, err error) {
	all, err := l.Relays(ctx, "")
	if err != nil {
		return r, false, err
	}
	q, done, err := a.relayQuery(query)
	if err != nil {
		return r, false, err
	}
	defer done()
	names := make([]relayName, len(all))
	for i, r := range all {
		if q.root != nil && r.Root == q.root.Path() {
			all[i].Member = q.root.MemberName(ctx, r.Team, r.Member)
		}
		names[i] = relayName{r.ID, r.Root, r.Team, all[i].Member}
	}
	i, err := q.pick(ctx, names)
	if i < 0 || err != nil {
		return r, false, err
	}
	return all[i], true, nil
}

// findRun returns the relay that was not added, but run, and is meant, if there is one.
func (a *app) findRun(ctx context.Context, l *ledger.Ledger, query string) (e api.RelayEntry, ok bool, err error) {
	q, done, err := a.relayQuery(query)
	if err != nil {
		return e, false, err
	}
	defer done()
	if q.root == nil {
		return e, false, nil
	}
	known, err := a.relaysKnown(ctx, l)
	if err != nil {
		return e, false, err
	}
	known = slices.DeleteFunc(known, func(e api.RelayEntry) bool { return e.Created != nil })
	names := make([]relayName, len(known))
	for i, e := range known {
		names[i] = relayName{e.ID, q.root.Path(), e.Team, e.Member}
	}
	i, err := q.pick(ctx, names)
	if i < 0 || err != nil {
		return e, false, err
	}
	return known[i], true, nil
}

// notAdded says why nothing can be done with a relay that was not added.
func (a *app) notAdded(ctx context.Context, l *ledger.Ledger, query string) error {
	e, ok, err := a.findRun(ctx, l, query)
	if err != nil {
		return err
	}
	if !ok {
		return notFound("see them with: teambridge relay list --relays", "no relay %s", query)
	}
	hint, reason := view.Elsewhere(e)
	return refuse(hint, "%s", reason)
}

// own is what keeps the teams of agents that have one of their own.
func (a *app) own(root *teams.Root, l *ledger.Ledger) (fleet.TeamOwner, error) {
	locker, err := a.locks()
	if err != nil {
		return fleet.TeamOwner{}, err
	}
	state, err := a.state()
	return fleet.TeamOwner{Root: root, Ledger: l, Locker: locker, State: state}, err
}

// relaysKnown lists the relays that are to be run, and those that were. A service that
// runs is asked: it alone knows why one that it runs is stopped.
func (a *app) relaysKnown(ctx context.Context, l *ledger.Ledger) ([]api.RelayEntry, error) {
	root, err := a.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list, asked := a.relaysServed(ctx, root)
	if list != nil {
		return list, nil
	}
	state, err := a.state()
	if err != nil {
		return nil, err
	}
	if list, err = view.Entries(ctx, l, state, root, a.teamName); err != nil {
		return nil, err
	}
	reason := "no service runs"
	if asked {
		reason = "the service does not answer"
	}
	for i, e := range list {
		if e.Created != nil && e.State == string(relay.Stopped) && e.Reason == "" {
			list[i].Reason = reason
		}
	}
	return list, nil
}

// relaysServed asks the service for them, if one runs. list is nil if there is no answer.
func (a *app) relaysServed(ctx context.Context, root *teams.Root) (list []api.RelayEntry, asked bool) {
	c := a.service(root)
	if c == nil {
		return nil, false
	}
	defer c.Close()
	asking, done := a.present(ctx, c)
	defer done()
	list, err := c.Relays(asking, client.RelayQuery{Team: a.teamName})
	if err != nil {
		a.debug("the service does not list its relays: %v", err)
		return nil, true
	}
	return list, true
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

// relayRevive tries a relay again that gave up, if one that was added is meant.
func (a *app) relayRevive(ctx context.Context, l *ledger.Ledger, query string) (was bool, err error) {
	r, ok, err := a.findRelay(ctx, l, query)
	if err != nil {
		return false, err
	}
	if !ok {
		e, ok, err := a.findRun(ctx, l, query)
		if ok {
			hint, reason := view.Elsewhere(e)
			err = refuse(hint, "%s", reason)
		}
		return ok, err // else it is a delivery, if it is anything
	}
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
	post := ledger.InboxKey{Root: r.Root, Team: r.Team, CreatedAt: c.Instance().CreatedAt, Inbox: member}
	s, _, err := l.Session(ctx, post)
	if err != nil {
		return true, err
	}
	if s.Dead == "" {
		return true, refuse("see how it stands with: teambridge relay list", "the relay %s has not given up", r.ID)
	}
	if err := l.Revive(ctx, post); err != nil {
		return true, fmt.Errorf("try relay %s again: %w", r.ID, err)
	}
	return true, a.serviceNote(root)
}
