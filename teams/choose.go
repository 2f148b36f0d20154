package teams

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Candidate is a team that Choose may choose.
type Candidate struct {
	Name string
	Cwd  string // the lead's directory; empty if unknown
	Lead Liveness
}

// Choose opens the default team: the only one whose lead is not known to be gone, or else the only one of
// those whose lead runs in cwd. The errors are [*AmbiguousTeamError], and a [*NotFoundError] that names the
// dead teams. A team with a corrupt config.json counts; one without a config.json does not.
func (r *Root) Choose(ctx context.Context, cwd string) (*Team, error) {
	all, err := r.Teams()
	if err != nil {
		return nil, err
	}
	var live, here []Candidate
	var dead []string
	for _, l := range all {
		if l.Orphan || l.Err != nil {
			continue
		}
		c, err := r.candidate(ctx, l.Name)
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("teams: choose a team: %w", context.Cause(ctx))
		case errors.Is(err, ErrTeamGone):
			continue
		case c.Lead == Gone:
			dead = append(dead, c.Name)
			continue
		}
		live = append(live, c)
		if sameDir(c.Cwd, cwd) {
			here = append(here, c)
		}
	}
	switch {
	case len(live) == 1:
		return r.Team(live[0].Name)
	case len(here) == 1:
		return r.Team(here[0].Name)
	case len(live) == 0:
		return nil, &NotFoundError{Kind: "team", Nearest: dead}
	}
	return nil, &AmbiguousTeamError{Teams: live}
}

// Living returns the names of the teams that [Root.Having] opens.
func (r *Root) Living(ctx context.Context, member string) (found []string, err error) {
	all, err := r.Having(ctx, member)
	for _, t := range all {
		found = append(found, t.Name())
		t.Close()
	}
	return found, err
}

// Having opens the teams that have all these members, in any spelling of their names, and a lead that is not
// known to be gone. Unreadable teams are skipped. The caller must close the teams.
func (r *Root) Having(ctx context.Context, members ...string) (found []*Team, err error) {
	all, err := r.Teams()
	for _, l := range all {
		if l.Orphan || l.Err != nil {
			continue
		}
		switch t, err := r.Team(l.Name); {
		case err != nil:
		case t.has(ctx, members):
			found = append(found, t)
		default:
			t.Close()
		}
	}
	return found, err
}

func (t *Team) has(ctx context.Context, members []string) bool {
	c, err := t.Config(ctx)
	if err != nil {
		return false
	}
	for _, m := range members {
		if name, err := c.Resolve(m, nil); err != nil || name == "" {
			return false
		}
	}
	return t.LeadState(c, time.Now()) != Gone
}

// candidate examines one team. Unreadable parts stay unknown.
func (r *Root) candidate(ctx context.Context, name string) (Candidate, error) {
	found := Candidate{Name: name}
	t, err := r.Team(name)
	if err != nil {
		return found, err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return found, err
	}
	lead, _ := c.Lead()
	found.Cwd = lead.Cwd
	found.Lead, _ = t.processState(c)
	return found, nil
}

// sameDir reports whether a and b name the same directory.
func sameDir(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	fa, erra := os.Stat(a)
	fb, errb := os.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || erra == nil && errb == nil && os.SameFile(fa, fb)
}
