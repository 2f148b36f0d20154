package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/history"
	"teambridge/status/links"
	"teambridge/status/local"
	"teambridge/status/view"
	"teambridge/teams"
)

// Targets finds the target of a name: a team, members, panes, sessions, or a team on another machine.
type Targets struct {
	*local.Files
	*history.Archive
	*links.Machines
}

// Target is the meaning of a scope and names: members of a team, or panes. Close it.
type Target struct {
	Team    *teams.Team // nil for panes and sessions
	Members []string    // as requested, without their team; empty: all
	Panes   []pane.Pane // the panes or sessions with these names, or all

	Machine *ledger.Machine // the machine of the team; nil: this one

	remote string // the team on Machine: TEAM@MACHINE
	person bool   // the only member is the person of the sessions
	kept   bool   // the follower of the message closes Team
}

// Way returns the way of messages to the target: [api.WayInbox], [api.WayPane], [api.WaySession] or [api.WayMachine].
func (t *Target) Way() string {
	switch {
	case t.Team != nil, t.person:
		return api.WayInbox
	case t.Machine != nil:
		return api.WayMachine
	case len(t.Panes) > 0 && t.Panes[0].IsSession():
		return api.WaySession
	}
	return api.WayPane
}

// session reports whether the members are sessions.
func (t *Target) session() bool { return t.Way() == api.WaySession }

// Name returns the name of the team.
func (t *Target) Name() string {
	switch {
	case t.Team != nil:
		return t.Team.Name()
	case t.Machine != nil:
		return t.remote
	case t.Way() == api.WaySession, t.person:
		return pane.SessionTeam
	}
	return pane.Team
}

// Member returns the name if exactly one was requested, or else "".
func (t *Target) Member() string {
	if len(t.Members) != 1 {
		return ""
	}
	return t.Members[0]
}

// Close closes the team.
func (t *Target) Close() error {
	if t.Team == nil || t.kept {
		return nil
	}
	return t.Team.Close()
}

// Resolve returns the target of names such as MEMBER or MEMBER@TEAM. If the scope or the names give a team,
// that team decides. Otherwise the first rule that fits decides:
//   - all names are panes;
//   - only one living team has all members;
//   - all names are sessions;
//   - only one team of a linked machine has all members;
//   - all names are sessions that were stopped in the background;
//   - all names are abbreviations, or the names of sessions that are members of teams;
//   - the team is the one that [teams.Root.Choose] chooses. In this case, members are not looked up.
//
// The errors are the errors of [teams.Root.Team], [teams.Root.Choose] and [history.Archive.Open],
// *[pane.NotFoundError], *[pane.SessionError], [api.CodeUsage] for names of two teams, and
// [api.CodeAmbiguousTeam] for a pane whose name is also a member's.
func (l *Targets) Resolve(ctx context.Context, s api.Scope, names ...string) (to Target, err error) {
	defer func() {
		if nf, ok := errors.AsType[*teams.NotFoundError](err); ok && nf.Kind == "team" && nf.Query != "" {
			err = l.OrEnded(ctx, nf.Query, err) // in a service, [history.Archive.Open] does not
		}
	}()
	shared := ""
	members := make([]string, len(names))
	for i, name := range names {
		var team string
		var err error
		if members[i], team, err = l.Split(ctx, name); err != nil {
			return Target{}, err
		}
		if team != "" && shared != "" && team != shared {
			return Target{}, api.Decide(api.CodeUsage, "read them separately", "the inboxes are of two teams, %s and %s", shared, team)
		}
		shared = max(shared, team)
	}
	switch {
	case shared != "" && s.Team != "" && shared != s.Team:
		return Target{}, twoTeams(s.Team, shared)
	case shared != "" || !s.AnyTeam():
		return l.In(ctx, cmp.Or(shared, s.Team, s.Default), members...)
	}
	list, err := l.Registered(ctx)
	if err != nil { // the names may still be members
		l.Opts.Debug("panes are not known: %v", err)
	}
	some, panes := named(list, members)
	panes = panes && len(members) > 0
	having, err := l.having(ctx, members)
	if err == nil && len(having) == 1 && !panes {
		return Target{Team: having[0], Members: members}, nil
	}
	var living []string
	for _, t := range having {
		living = append(living, t.Name())
		err = cmp.Or(err, t.Close())
	}
	if err != nil {
		return Target{}, err
	}
	if panes {
		if len(living) > 0 {
			who := strings.Join(members, " and ")
			return Target{}, api.Decide(api.CodeAmbiguousTeam, fmt.Sprintf("say which: %s@%s, or %s@%s", who, pane.Team, who, strings.Join(living, ", "+who+"@")),
				"%s is a pane, and a member of %s", who, strings.Join(living, " and of "))
		}
		return Target{Members: members, Panes: some}, nil
	}
	if len(living) == 0 && len(members) > 0 {
		some, err := l.FindSessions(ctx, members)
		stopped := err == nil && slices.ContainsFunc(some, func(p pane.Pane) bool { return p.Ref.PID == 0 })
		if e, ok := errors.AsType[*pane.SessionError](err); !stopped && (err == nil || ok && (e.Several || e.Refuses != "") || err != nil && !ok) {
			return Target{Members: members, Panes: some}, err
		}
		teams, err := l.Offered(ctx, "", members)
		switch {
		case err != nil:
			return Target{}, err
		case len(teams) == 1:
			return l.onMachine(ctx, teams[0], members)
		case len(teams) > 1:
			who := strings.Join(members, " and ")
			return Target{}, api.Decide(api.CodeAmbiguousTeam, "say which: "+who+"@"+strings.Join(teams, ", "+who+"@"), "%s is a member of %s", who, strings.Join(teams, " and of "))
		}
		if stopped {
			return Target{Members: members, Panes: some}, nil
		}
		if whole, err := l.completed(ctx, members); err != nil || whole != nil {
			if err != nil {
				return Target{}, err
			}
			return l.Resolve(ctx, s, whole...)
		}
	}
	t, err := l.Open(ctx, s)
	several, ambiguous := errors.AsType[*teams.AmbiguousTeamError](err)
	switch {
	case ambiguous && len(living) > 0:
		several.Teams = slices.DeleteFunc(several.Teams, func(c teams.Candidate) bool { return !slices.Contains(living, c.Name) })
		who := strings.Join(members, " and ")
		err = &api.Decided{Err: err, Code: api.CodeAmbiguousTeam, Hint: "say which: " + who + "@" + strings.Join(living, ", "+who+"@")}
	case ambiguous || errors.As(err, new(*teams.NotFoundError)):
		err = cmp.Or(unknownName(l.addresses(ctx), members), err)
	}
	return Target{Team: t, Members: members}, err
}

// Target returns the target of a scope and names; see [api.Bridge].
func (l *Local) Target(ctx context.Context, s api.Scope, names ...string) (api.Target, error) {
	if s.Via == api.ViaQueue && len(names) == 1 { // these sessions take messages only there
		if name, team := queueOf(s.Team, names[0]); team == pane.SessionTeam {
			return api.Target{Team: team, Members: []string{name}, Way: api.WaySession, Queued: true}, nil
		}
	}
	t, err := l.Resolve(ctx, s, names...)
	if s.ToRead && s.AnyTeam() && len(names) == 0 && err != nil && view.Explain(err).Code == api.CodeNotFound {
		if some, none := l.In(ctx, pane.SessionTeam); none == nil {
			t, err = some, nil
		}
	}
	if err != nil {
		return api.Target{}, err
	}
	defer t.Close() // it was only read
	to := l.by(&t).describe(&t)
	to.Team, to.Members, to.Way = t.Name(), t.Members, t.Way()
	if s.Existing && len(names) > 0 {
		to.Members, err = l.existing(ctx, &t)
	}
	return to, err
}

// queueOf returns the team and name for an address in Codex's queue: a session, unless the address has a team.
func queueOf(team, address string) (string, string) {
	name, of := teams.Split(address)
	return name, cmp.Or(of, team, pane.SessionTeam)
}

// addressed returns the target for a message to a name. If from, an agent, sends it, the recipient must exist.
// For an agent, "user" is the person, under a name that the agent's team can answer, and a name without a team
// is a member of the agent's own team, if there is one. detail is [Local.Team].
func (l *Targets) addressed(ctx context.Context, s api.Scope, from, name string, detail func(context.Context, string) (api.TeamDetail, error)) (to Target, err error) {
	if !Agent(ctx) {
		return l.Resolve(ctx, s, name)
	}
	defer func() {
		if err == nil {
			to.Members, err = l.existing(ctx, &to)
		}
		if err != nil && view.Explain(err).Code == api.CodeNotFound {
			err = api.Decide(api.CodeNotFound, "nothing was sent; see whom you can write to with list_agents", "there is no agent %.100q to write to", name)
		}
	}()
	who, team := teams.Split(from)
	alone, err := l.OfSessions(cmp.Or(team, pane.SessionTeam))
	switch {
	case err != nil:
		return to, err
	case name == mail.User && alone:
		return l.In(ctx, pane.SessionTeam, name)
	case name == mail.User:
		d, err := detail(ctx, team)
		if err != nil {
			return to, err
		}
		return l.In(ctx, team, d.From)
	}
	own := !alone && !strings.Contains(name, "@")
	if own {
		if to, err = l.In(ctx, team, name); err == nil {
			to.Members, err = l.existing(ctx, &to)
		}
	}
	if !own || err != nil && view.Explain(err).Code == api.CodeNotFound {
		to, err = l.Resolve(ctx, s, name)
	}
	if err == nil && to.Name() == team && (to.Member() == who || len(to.Panes) == 1 && to.Panes[0].Ref.ID == who) {
		err = errors.Join(api.Decide(api.CodeInvalid, "nothing was sent", "%s is you", name), to.Close())
	}
	return to, err
}

// existing returns the names of a target's members if they are members or inboxes. Otherwise it closes the target.
func (l *Targets) existing(ctx context.Context, t *Target) ([]string, error) {
	if t.Team == nil {
		return t.Members, nil
	}
	found, err := l.Inboxes(ctx, t.Team, t.Members, false)
	if err != nil {
		err = errors.Join(err, t.Close())
	}
	return found, err
}

func twoTeams(flag, name string) error {
	return api.Decide(api.CodeUsage, "omit one of them", "--team says %q and the name says %q", flag, name)
}

// In returns the target for members of a team, as [Targets.Resolve] does. The team of the registered panes is
// [pane.Team], and the team of the sessions is [pane.SessionTeam], unless a real team has that name.
//
// TEAM@MACHINE is a team on another machine, and so is TEAM if no team here has the name and one machine has.
func (l *Targets) In(ctx context.Context, team string, members ...string) (Target, error) {
	if _, _, ok := local.Elsewhere(team); ok {
		return l.onMachine(ctx, team, members)
	}
	if team != pane.Team && team != pane.SessionTeam {
		t, err := l.Open(ctx, api.Scope{Team: team})
		if nf, ok := errors.AsType[*teams.NotFoundError](err); ok && nf.Kind == "team" && team != "" && ctx.Value(machineKey{}) == nil {
			if there, oerr := l.Offered(ctx, team, nil); oerr == nil && len(there) == 1 {
				return l.onMachine(ctx, there[0], members)
			}
			if whole, cerr := l.completedTeam(ctx, team); cerr != nil || whole != "" {
				if cerr != nil {
					return Target{}, cerr
				}
				return l.In(ctx, whole, members...)
			}
		}
		return Target{Team: t, Members: members}, err
	}
	root, err := l.Opts.Root()
	if err != nil {
		return Target{}, err
	}
	if t, err := root.Team(team); err == nil { // doctor reports this team
		return Target{Team: t, Members: members}, nil
	} else if !errors.Is(err, teams.ErrTeamGone) && !errors.As(err, new(*teams.NotFoundError)) {
		return Target{}, err
	}
	switch {
	case team == pane.SessionTeam && slices.Contains(members, mail.User) && len(members) > 1:
		return Target{}, api.Decide(api.CodeUsage, "read them separately", "%s is you, and the others are sessions", mail.User)
	case team == pane.SessionTeam && slices.Contains(members, mail.User):
		return Target{Members: members, person: true}, nil
	case team == pane.SessionTeam:
		some, err := l.FindSessions(ctx, members)
		if e, ok := errors.AsType[*pane.SessionError](err); ok && !e.Several && e.Refuses == "" {
			some, err = l.shortened(ctx, members, err)
		}
		if err == nil && len(some) == 0 {
			err = api.Decide(api.CodeNotFound, "see all, and what they lack, with: teambridge sessions", "no session takes messages")
		}
		return Target{Members: members, Panes: some}, err
	}
	list, err := l.Registered(ctx)
	if err != nil {
		return Target{}, err
	}
	if some, ok := named(list, members); ok && len(list) > 0 {
		return Target{Members: members, Panes: some}, nil
	}
	if len(list) == 0 {
		return Target{}, api.Decide(api.CodeNotFound, "register one with: teambridge pane add NAME --pane TARGET", "no panes are registered")
	}
	i := slices.IndexFunc(members, func(m string) bool { _, ok := named(list, []string{m}); return !ok })
	return Target{}, &pane.NotFoundError{Name: members[i], Panes: list}
}

// withInboxes returns the target for members of a team, as [Targets.In] does. If they are panes, it returns the
// error refused.
func (l *Targets) withInboxes(ctx context.Context, refused error, team string, members ...string) (Target, error) {
	to, err := l.In(ctx, team, members...)
	if err == nil && to.Team == nil {
		err = refused
	}
	return to, err
}

// hasInboxes reports whether members of a team have inboxes rather than panes.
func (l *Targets) hasInboxes(ctx context.Context, team, member string) (bool, error) {
	to, err := l.In(ctx, team, member)
	if err != nil {
		return false, err
	}
	return to.Team != nil, to.Close() // it was only read
}

// named returns the panes with these names, or all if there are no names; ok is false if one of the names is
// not a pane's.
func named(list []pane.Pane, names []string) (some []pane.Pane, ok bool) {
	if len(names) == 0 {
		return list, true
	}
	for _, name := range names {
		i := slices.IndexFunc(list, func(p pane.Pane) bool { return p.Inbox == name })
		if i < 0 {
			return nil, false
		}
		some = append(some, list[i])
	}
	return some, true
}

// having opens the living teams that have all members. Without members, it opens none.
func (l *Targets) having(ctx context.Context, members []string) ([]*teams.Team, error) {
	root, err := l.Opts.Root()
	if err != nil || len(members) == 0 || slices.Contains(members, "") {
		return nil, err
	}
	return root.Having(ctx, members...)
}

// Inboxes returns the inboxes of a team with these names, or all; with own, only the person's.
func (l *Targets) Inboxes(ctx context.Context, t *teams.Team, names []string, own bool) (wanted []string, err error) {
	for _, name := range names {
		found, err := t.Resolve(ctx, name)
		if nf, ok := errors.AsType[*teams.NotFoundError](err); ok && nf.Kind == "member" && name == mail.User {
			found, err = name, nil // the person's inbox does not exist yet
		}
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, found)
	}
	if !own {
		if len(names) == 0 {
			return t.Inboxes()
		}
		return wanted, nil
	}
	ours, err := l.Ours(ctx, t)
	if err != nil || len(names) == 0 {
		return ours, err
	}
	for _, name := range wanted {
		if !slices.Contains(ours, name) {
			return nil, api.Decide(api.CodeRefused, "--mark-read is for \"user\" and for the name you joined under",
				"cannot mark messages to %s as read: it would never get them", name)
		}
	}
	return wanted, nil
}

// Ours returns the names of the person's inboxes in a team.
func (l *Targets) Ours(ctx context.Context, t *teams.Team) ([]string, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	lg, err := l.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	if lg == nil { // without a ledger, no team was joined
		return []string{mail.User}, nil
	}
	return mail.Ours(ctx, lg, t, c)
}
