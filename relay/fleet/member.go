package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/runtimes"
	"teambridge/teams"
)

// Enlist makes an agent a member of a team, so that other members can write to it, and records that. The team
// must be ours ([TeamOwner.Of]) unless the runtime has [runtimes.JoinsAny]. If there is no such team, or its
// member of that name is not ours, enlisted is false and nothing changes.
func (o TeamOwner) Enlist(ctx context.Context, r ledger.Relay) (enlisted bool, err error) {
	_, c, ok, err := o.Of(ctx, r.Team)
	if err != nil || c == nil || !ok && !runtimes.JoinsAny(r) {
		return false, err
	}
	if name, err := c.Resolve(r.Member, nil); err == nil {
		m, ours, err := o.member(ctx, c, name)
		if ours && m.PendingDelete { // its relay was removed and then replaced
			m.PendingDelete = false
			err = o.Ledger.Teams.AddMember(ctx, m)
		}
		return ours, err
	}
	t, err := o.Root.Team(r.Team)
	if err != nil {
		return false, err
	}
	defer t.Close()
	_, err = t.Enlist(ctx, o.Locker, r.Member, r.Dir, func(m teams.Membership) error {
		i := c.Instance()
		return o.Ledger.Teams.AddMember(ctx, ledger.OwnedMember{
			Root: o.Root.Path(), Team: i.Team, CreatedAt: i.CreatedAt, Member: m.Name, AgentID: m.AgentID, JoinedAt: m.JoinedAt,
		})
	})
	return err == nil, err
}

// Dismiss ends the membership of an enlisted agent ([TeamOwner.Enlist]) that has ended. It also removes the
// team if that was due. A member stays if it is not ours, or if a relay for it is recorded.
func (o TeamOwner) Dismiss(ctx context.Context, team, member string) error {
	m, ours, err := o.memberOf(ctx, team, member)
	if err != nil || !ours {
		return err
	}
	if added, err := o.added(ctx, m); added || err != nil {
		return err
	}
	return errors.Join(o.dismiss(ctx, m), o.Reap(ctx))
}

// leave is Dismiss for an agent that was shut down: its relay stays recorded, but does not run.
func (o TeamOwner) leave(ctx context.Context, team, member string) error {
	m, ours, err := o.memberOf(ctx, team, member)
	if err != nil || !ours {
		return err
	}
	return o.dismiss(ctx, m)
}

// memberOf is [TeamOwner.member] for the current team of a name.
func (o TeamOwner) memberOf(ctx context.Context, team, member string) (m ledger.OwnedMember, ours bool, err error) {
	_, c, _, err := o.Of(ctx, team)
	if err != nil || c == nil {
		return m, false, err
	}
	return o.member(ctx, c, member)
}

// dismiss removes the entry of a member, unless a relay serves it.
func (o TeamOwner) dismiss(ctx context.Context, m ledger.OwnedMember) error {
	if served, err := o.served(ctx, m.Team, m.Member); served || err != nil {
		return err
	}
	t, err := o.Root.Team(m.Team)
	if err == nil {
		defer t.Close()
		var c *teams.Config
		if c, err = t.Config(ctx); err == nil && c.Instance() == (teams.Instance{Team: m.Team, CreatedAt: m.CreatedAt}) {
			_, err = t.Dismiss(ctx, o.Locker, teams.Membership{Name: m.Member, AgentID: m.AgentID, JoinedAt: m.JoinedAt})
		}
	}
	if err != nil && !errors.Is(err, teams.ErrTeamGone) && !errors.Is(err, teams.ErrNotOurs) {
		return err
	}
	return o.Ledger.Teams.RemoveMember(ctx, m)
}

// member returns the record of a member of this instance of a team. ours is false if we did not make the
// member, or if another entry has its name now.
func (o TeamOwner) member(ctx context.Context, c *teams.Config, name string) (m ledger.OwnedMember, ours bool, err error) {
	there, ok := c.Member(name)
	if !ok {
		return m, false, nil
	}
	all, err := o.Ledger.Teams.Members(ctx, o.Root.Path(), c.Team)
	i := slices.IndexFunc(all, func(m ledger.OwnedMember) bool {
		return m.Member == name && m.CreatedAt == c.Instance().CreatedAt && m.AgentID == there.AgentID && m.JoinedAt.Equal(there.JoinedAt)
	})
	if err != nil || i < 0 {
		return m, false, err
	}
	return all[i], true, nil
}

// occupants divides the agents of a team, except its lead, into members that we made and the names of all
// others.
func (o TeamOwner) occupants(ctx context.Context, c *teams.Config) (ours []ledger.OwnedMember, others []string, err error) {
	for _, name := range c.Occupants() {
		m, is, err := o.member(ctx, c, name)
		switch {
		case err != nil:
			return nil, nil, err
		case is:
			ours = append(ours, m)
		default:
			others = append(others, name)
		}
	}
	return ours, others, nil
}

// added reports whether a relay for a member is recorded.
func (o TeamOwner) added(ctx context.Context, m ledger.OwnedMember) (bool, error) {
	all, err := o.Ledger.Relays.List(ctx, m.Root)
	return slices.ContainsFunc(all, func(r ledger.Relay) bool {
		return r.Team == m.Team && o.Root.MemberName(ctx, r.Team, r.Member) == m.Member
	}), err
}

// wanted reports whether a relay serves a member now, or is recorded for it.
func (o TeamOwner) wanted(ctx context.Context, m ledger.OwnedMember) (bool, error) {
	if added, err := o.added(ctx, m); added || err != nil {
		return added, err
	}
	return o.served(ctx, m.Team, m.Member)
}

// Member resolves the name of the member that an agent will be. If that member is a lead that runs in another
// process, the error is a *[LeadError]: an interactive agent reads its inbox itself.
func Member(ctx context.Context, t *teams.Team, as string) (string, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return "", err
	}
	member, err := c.Resolve(as, nil)
	if err != nil {
		return "", err
	}
	lead, _ := c.Lead()
	if member != lead.Name {
		return member, nil
	}
	if pid, state := t.Leader(c); pid != os.Getpid() && state == teams.Alive {
		return "", &LeadError{Team: t.Name(), PID: pid}
	}
	return member, nil
}

// MemberOf is [Member] for a team that need not exist yet. Without the team, the name stays as it is.
func MemberOf(ctx context.Context, root *teams.Root, team, as string) (string, error) {
	if err := errors.Join(teams.CheckName("team", team), teams.CheckName("member", as)); err != nil {
		return "", err
	}
	t, err := root.Team(team)
	if err == nil {
		defer t.Close()
		as, err = Member(ctx, t, as)
	}
	if errors.Is(err, teams.ErrTeamGone) {
		return as, nil
	}
	return as, err
}

// Key returns the ledger's key of a member's inbox. member may be any name of the member.
func Key(ctx context.Context, t *teams.Team, member string) (inbox.InboxKey, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return inbox.InboxKey{}, err
	}
	name, err := c.Resolve(member, nil)
	if err != nil {
		return inbox.InboxKey{}, err
	}
	return inbox.KeyOf(t, c, name), nil
}

// LeadError means that another process is the living lead of a team.
type LeadError struct {
	Team string
	PID  int
}

func (e *LeadError) Error() string {
	return fmt.Sprintf("the lead of %s is alive (process %d)", e.Team, e.PID)
}
