package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// TeamOwner makes teams for headless agents that have none, knows them again after a
// crash, and removes them: those alone that it made itself, which the ledger says.
type TeamOwner struct {
	Root   *teams.Root
	Ledger *ledger.Ledger
	Locker *lockedfile.Locker
	State  string // our state directory
}

// Acquire makes a team with that lead where there is none of its name, or takes back
// the one that was made so and whose process has died since: with all who have come
// into it, and with what waits in its inboxes. ours is false where the team is
// another, was made by somebody else, or taken over by somebody (see
// [teams.Config.Founded]), or where a process or a relay that lives serves it: that
// one is left as it is. session, which may be empty, and dir are the lead's in a new
// team.
//
// A team of ours that has lost its config.json, as one does of which a removal was
// interrupted, gets it again, and is taken back as well; if nothing is left but empty
// directories, and the ledger has forgotten it, the team is made again. What earlier processes left
// behind that were killed while they made or removed a team is removed.
func (o TeamOwner) Acquire(ctx context.Context, team, lead, session, dir string) (f teams.OwnedTeam, ours bool, err error) {
	keep := func(next teams.OwnedTeam) error {
		f = next
		return o.Ledger.AddTeam(ctx, o.record(next))
	}
	_ = o.Root.Sweep() // what cannot be removed is in nobody's way; doctor shows it
	made, err := o.Root.Create(ctx, team, lead, session, dir, keep)
	lost := errors.Is(err, teams.ErrTeamGone) // its config.json, or all of it in this instant
	if err != nil && !lost {
		return f, false, err
	}
	gone := err
	known, err := o.Ledger.Teams(ctx, o.Root.Path(), team)
	if err != nil {
		return f, made, err
	}
	if made {
		// There is one team of a name: of the others this ledger can forget.
		for _, k := range known {
			if k.CreatedAt != f.CreatedAt {
				err = errors.Join(err, o.Ledger.RemoveTeam(ctx, k))
			}
		}
		return f, true, err
	}
	for _, k := range known {
		if !strings.EqualFold(teams.LeadName(k.Lead), teams.LeadName(lead)) {
			continue
		}
		if k.PendingDelete { // its relay was removed, and there is another now
			if err := o.Ledger.AddTeam(ctx, k); err != nil {
				return f, false, err
			}
		}
		f = ownedTeam(k)
		// It may be that the system does not tell whether a process lives.
		if served, err := o.served(f); served || err != nil {
			return f, false, err
		}
		var taken bool
		if lost {
			taken, err = o.Root.Restore(f, dir, keep)
		} else {
			taken, err = o.Root.Adopt(ctx, o.Locker, f, keep)
		}
		if taken || err != nil {
			return f, taken, err
		}
	}
	if lost {
		if swept, err := o.swept(ctx, team); err != nil {
			return teams.OwnedTeam{}, false, err
		} else if swept {
			return o.Acquire(ctx, team, lead, session, dir)
		}
	}
	return teams.OwnedTeam{}, false, gone
}

// swept removes what is left of a team without config.json in whose name a relay of this
// ledger has run, if that is nothing but empty directories, and reports whether it did. A
// team in whose name none has may be one that somebody is making.
func (o TeamOwner) swept(ctx context.Context, team string) (bool, error) {
	sessions, err := o.Ledger.Sessions(ctx, o.Root.Path())
	if err != nil || !slices.ContainsFunc(sessions, func(s ledger.Session) bool { return s.Team == team }) {
		return false, err
	}
	t, err := o.Root.Team(team)
	if err == nil {
		err = errors.Join(t.Sweep(), t.Close())
		if err != nil {
			return false, err
		}
		t, err = o.Root.Team(team)
	}
	if errors.Is(err, teams.ErrTeamGone) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, t.Close()
}

// served reports whether a relay of ours serves the lead of a team now.
func (o TeamOwner) served(f teams.OwnedTeam) (bool, error) {
	t, err := o.Root.Team(f.Team)
	if errors.Is(err, teams.ErrTeamGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer t.Close()
	return relay.Running(o.State, t, f.Lead)
}

// Discard removes such a team, as [teams.Root.Discard] does: where it is another, or
// led by another process that lives, it stays. [*teams.OccupiedError] where agents
// are in it.
func (o TeamOwner) Discard(ctx context.Context, f teams.OwnedTeam) (removed bool, err error) {
	if removed, err = o.Root.Discard(ctx, f); !removed {
		return false, err
	}
	return true, errors.Join(err, o.Ledger.RemoveTeam(ctx, o.record(f)))
}

// Of returns the team of that name as one that was made here, if it is: it is there,
// and nobody else has taken it over.
func (o TeamOwner) Of(ctx context.Context, team string) (f teams.OwnedTeam, c *teams.Config, ok bool, err error) {
	t, err := o.Root.Team(team)
	if err == nil {
		defer t.Close()
		c, err = t.Config(ctx)
	}
	if errors.Is(err, teams.ErrTeamGone) {
		return f, nil, false, nil
	}
	if err != nil {
		return f, nil, false, err
	}
	known, err := o.Ledger.Teams(ctx, o.Root.Path(), team)
	if err != nil {
		return f, c, false, err
	}
	for _, k := range known {
		if f = ownedTeam(k); c.Founded(f) {
			return f, c, true, nil
		}
	}
	return teams.OwnedTeam{}, c, false, nil
}

// NotOwnerError says that a team was not made for the relay with which it is to go: it
// is somebody else's, or has become that.
type NotOwnerError struct{ Team string }

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("the team %s was not made for this relay, or somebody else has taken it over", e.Team)
}

// PendingDelete is the team that goes with a relay which is removed: nil where there is none
// of that name. *[NotOwnerError], and [*teams.OccupiedError] where agents are in it.
func (o TeamOwner) PendingDelete(ctx context.Context, r ledger.Relay) (*ledger.OwnedTeam, error) {
	f, c, ok, err := o.Of(ctx, r.Team)
	switch {
	case err != nil || c == nil:
		return nil, err
	case !ok || !r.OwnTeam || f.Lead != teams.LeadName(r.Member):
		return nil, &NotOwnerError{Team: r.Team}
	}
	if in := c.Occupants(); len(in) > 0 {
		return nil, &teams.OccupiedError{Team: r.Team, Members: in}
	}
	k := o.record(f)
	return &k, nil
}

// Reap removes the teams that are to go with a relay that was removed, as soon as
// nothing serves them. What keeps one is an error; the others go all the same.
func (o TeamOwner) Reap(ctx context.Context) error {
	known, err := o.Ledger.Teams(ctx, o.Root.Path(), "")
	for _, k := range known {
		if !k.PendingDelete {
			continue
		}
		f := ownedTeam(k)
		served, ferr := o.served(f)
		if served {
			continue
		}
		removed := false
		if ferr == nil {
			removed, ferr = o.Root.Discard(ctx, f)
		}
		if _, occupied := errors.AsType[*teams.OccupiedError](ferr); occupied {
			// Somebody came into it in between: it stays, for good.
			err = errors.Join(err, fmt.Errorf("fleet: the team is kept: %w", ferr), o.Ledger.AddTeam(ctx, k))
			continue
		}
		if removed || ferr == nil {
			// Or it is gone, or somebody else's.
			ferr = errors.Join(ferr, o.Ledger.RemoveTeam(ctx, k))
		}
		err = errors.Join(err, ferr)
	}
	return err
}

func (o TeamOwner) record(f teams.OwnedTeam) ledger.OwnedTeam { return LedgerTeam(o.Root, f) }

// LedgerTeam is a team that was made as the ledger has it.
func LedgerTeam(root *teams.Root, f teams.OwnedTeam) ledger.OwnedTeam {
	return ledger.OwnedTeam{Root: root.Path(), Team: f.Team, CreatedAt: f.CreatedAt, Lead: f.Lead, Session: f.Session, Leaders: f.Leaders}
}

func ownedTeam(k ledger.OwnedTeam) teams.OwnedTeam {
	return teams.OwnedTeam{Team: k.Team, CreatedAt: k.CreatedAt, Lead: k.Lead, Session: k.Session, Leaders: k.Leaders}
}
