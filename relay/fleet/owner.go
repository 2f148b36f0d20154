package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// TeamOwner makes teams for headless agents, takes them over after a crash, and removes them. It changes only
// teams that the ledger records as ours, except that some agents join any team (see Enlist).
type TeamOwner struct {
	Root   *teams.Root
	Ledger *ledger.Ledger
	Locker *lockedfile.Locker
	State  string // our state directory

	// Handover is how long to wait for the lock of a relay that was killed. 0 is
	// [lockedfile.Handover].
	Handover time.Duration
}

// Acquire makes the team if it does not exist. If the team is ours and its process has died, Acquire takes it
// over, with its members and waiting messages. ours is false if the team belongs to another (see
// [teams.Config.IsOwned]), or if a living process or relay serves it; Acquire leaves such a team alone. The
// lead of a new team has the given session, which may be empty, and directory.
//
// If an interrupted removal deleted the config.json of a team of ours, Acquire restores it. If only empty
// directories are left, Acquire makes the team again. It also removes leftovers of killed processes.
func (o TeamOwner) Acquire(ctx context.Context, team, lead, session, dir string) (f teams.OwnedTeam, ours bool, err error) {
	keep := func(next teams.OwnedTeam) error {
		f = next
		return o.Ledger.Teams.Add(ctx, o.record(next))
	}
	_ = o.Root.Sweep() // ignore the error: leftovers are harmless, and doctor reports them
	made, err := o.Root.Create(ctx, team, lead, session, dir, keep)
	lost := errors.Is(err, teams.ErrTeamGone) // its config.json is missing, or the whole team is
	if err != nil && !lost {
		return f, false, err
	}
	gone := err
	known, err := o.Ledger.Teams.List(ctx, o.Root.Path(), team)
	if err != nil {
		return f, made, err
	}
	if made {
		// Earlier teams of this name no longer exist.
		for _, k := range known {
			if k.CreatedAt != f.CreatedAt {
				err = errors.Join(err, o.Ledger.Teams.Remove(ctx, k))
			}
		}
		return f, true, err
	}
	for _, k := range known {
		if !strings.EqualFold(teams.LeadName(k.Lead), teams.LeadName(lead)) {
			continue
		}
		if k.PendingDelete { // its relay was removed and then replaced
			k.PendingDelete = false
			if err := o.Ledger.Teams.Add(ctx, k); err != nil {
				return f, false, err
			}
		}
		f = ownedTeam(k)
		// The system may be unable to tell whether the process is alive, so look for a relay, too.
		if served, err := o.served(ctx, f.Team, f.Lead); served || err != nil {
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

// swept removes a team of which only empty directories are left, if a relay of this ledger has run under its
// name. Any other team without config.json may be in the making.
func (o TeamOwner) swept(ctx context.Context, team string) (bool, error) {
	sessions, err := o.Ledger.Sessions.List(ctx, o.Root.Path())
	if err != nil || !slices.ContainsFunc(sessions, func(s ledger.Session) bool { return s.Team == team }) {
		return false, err
	}
	t, err := o.Root.Team(team)
	if err == nil {
		if err = errors.Join(t.Sweep(), t.Close()); err != nil {
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

// served reports whether a relay serves a member now.
func (o TeamOwner) served(ctx context.Context, team, member string) (bool, error) {
	t, err := o.Root.Team(team)
	if errors.Is(err, teams.ErrTeamGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer t.Close()
	return relay.StillRunning(ctx, cmp.Or(o.Handover, lockedfile.Handover), o.State, t, member)
}

// Discard removes a team that was acquired, as [teams.Root.Discard] does. If agents that we made members are
// still in it, it is removed once they have left. If other agents are in it, the error is a
// [*teams.OccupiedError].
func (o TeamOwner) Discard(ctx context.Context, f teams.OwnedTeam) (removed bool, err error) {
	removed, err = o.Root.Discard(ctx, f)
	if _, occupied := errors.AsType[*teams.OccupiedError](err); occupied {
		_, c, ok, oerr := o.Of(ctx, f.Team)
		if oerr != nil || !ok {
			return false, oerr
		}
		if _, others, oerr := o.occupants(ctx, c); oerr != nil || len(others) > 0 {
			return false, cmp.Or(oerr, err)
		}
		k := o.record(f)
		k.PendingDelete = true
		// The last of our agents may have just left.
		return false, errors.Join(o.Ledger.Teams.Add(ctx, k), o.Reap(ctx))
	}
	if !removed {
		return false, err
	}
	return true, errors.Join(err, o.Ledger.Teams.Remove(ctx, o.record(f)))
}

// Of returns the team of that name. ok is true if we made the team and it was not taken over since.
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
	known, err := o.Ledger.Teams.List(ctx, o.Root.Path(), team)
	if err != nil {
		return f, c, false, err
	}
	for _, k := range known {
		if f = ownedTeam(k); c.IsOwned(f) {
			return f, c, true, nil
		}
	}
	return teams.OwnedTeam{}, c, false, nil
}

// NotOwnerError means that a team cannot be removed with a relay: it was not made for the relay, or it was
// taken over since.
type NotOwnerError struct{ Team string }

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("the team %s was not made for this relay, or another process has taken it over", e.Team)
}

// PendingDelete returns the team to remove with a relay, or nil, and the members made for relays that no
// relay serves any more. The error is a *[NotOwnerError], or a [*teams.OccupiedError] if other agents are in
// the team.
func (o TeamOwner) PendingDelete(ctx context.Context, r ledger.Relay) (*ledger.OwnedTeam, []ledger.OwnedMember, error) {
	f, c, ok, err := o.Of(ctx, r.Team)
	switch {
	case err != nil || c == nil:
		return nil, nil, err
	case !ok || !r.OwnTeam || f.Lead != teams.LeadName(r.Member):
		return nil, nil, &NotOwnerError{Team: r.Team}
	}
	ours, others, err := o.occupants(ctx, c)
	var unserved []ledger.OwnedMember
	for _, m := range ours {
		wanted, werr := o.wanted(ctx, m)
		if err = errors.Join(err, werr); wanted && !m.PendingDelete {
			others = append(others, m.Member)
		} else {
			unserved = append(unserved, m)
		}
	}
	if err == nil && len(others) > 0 {
		err = &teams.OccupiedError{Team: r.Team, Members: others}
	}
	if err != nil {
		return nil, nil, err
	}
	k := o.record(f)
	return &k, unserved, nil
}

// Reap removes the members and then the teams whose removal is due, unless a relay still serves them. It
// continues after an error.
func (o TeamOwner) Reap(ctx context.Context) error {
	_, err := o.reapAll(ctx)
	return err
}

// reapAll is Reap, and also reports whether a removal was due.
func (o TeamOwner) reapAll(ctx context.Context) (some bool, err error) {
	members, err := o.Ledger.Teams.Members(ctx, o.Root.Path(), "")
	for _, m := range members {
		if m.PendingDelete {
			some = true
			err = errors.Join(err, o.dismiss(ctx, m))
		}
	}
	known, kerr := o.Ledger.Teams.List(ctx, o.Root.Path(), "")
	err = errors.Join(err, kerr)
	for _, k := range known {
		if k.PendingDelete {
			some = true
			err = errors.Join(err, o.reap(ctx, k))
		}
	}
	return some, err
}

// reap removes a team if no relay serves its lead and no agent is in it.
func (o TeamOwner) reap(ctx context.Context, k ledger.OwnedTeam) error {
	f := ownedTeam(k)
	if served, err := o.served(ctx, f.Team, f.Lead); served || err != nil {
		return err
	}
	// The team is discarded even if its process is alive: that process has given it up.
	_, err := o.Root.DiscardLed(ctx, f)
	if _, occupied := errors.AsType[*teams.OccupiedError](err); occupied {
		_, c, ok, oerr := o.Of(ctx, k.Team)
		if oerr != nil || !ok {
			return oerr // the next Reap tries again
		}
		if _, others, oerr := o.occupants(ctx, c); oerr != nil || len(others) == 0 {
			return oerr // the next Reap after our agents have ended tries again
		}
		// Another agent has joined the team meanwhile, so the team stays for good.
		k.PendingDelete = false
		return errors.Join(fmt.Errorf("fleet: the team is kept: %w", err), o.Ledger.Teams.Add(ctx, k))
	}
	if err != nil {
		return err
	}
	// The team may be gone, or may belong to another by now.
	return o.Ledger.Teams.Remove(ctx, k)
}

// record converts a team for the ledger.
func (o TeamOwner) record(f teams.OwnedTeam) ledger.OwnedTeam {
	return ledger.OwnedTeam{Root: o.Root.Path(), Team: f.Team, CreatedAt: f.CreatedAt, Lead: f.Lead, Session: f.Session, Leaders: f.Leaders}
}

func ownedTeam(k ledger.OwnedTeam) teams.OwnedTeam {
	return teams.OwnedTeam{Team: k.Team, CreatedAt: k.CreatedAt, Lead: k.Lead, Session: k.Session, Leaders: k.Leaders}
}
