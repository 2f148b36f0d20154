package teams

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Resolve returns the name of the inbox that query means, by the first of these rules that fits:
//
//  1. a member of that name;
//  2. an inbox of that name (inboxes lists them): it need not have a member;
//  3. "lead": the member whose agent id is leadAgentId;
//  4. "name@team" with this team: what the name means;
//  5. the one member or inbox whose name differs in case only, or else "lead".
//
// Otherwise the error is a [*NotFoundError] with the names most alike, or
// [ErrBadName] if nobody can be called that.
func (c *Config) Resolve(query string, inboxes []string) (string, error) {
	name, team := Split(query)
	if err := CheckName("member", name); err != nil {
		return "", err
	}
	if team != "" {
		if err := CheckName("team", team); err != nil {
			return "", err
		}
	}
	known := c.known(inboxes)
	if badName(query) == "" {
		if found, ok := c.resolve(query, known); ok {
			return found, nil
		}
	}
	if team != "" && (team == c.Team || team == c.Name) {
		if found, ok := c.resolve(name, known); ok {
			return found, nil
		}
	}
	return "", &NotFoundError{Kind: "member", Query: query, Team: c.Team, Nearest: nearest(name, known)}
}

// LeadName returns "team-lead", as Claude Code calls leads, for "lead", and other names as
// they are. It is for teams that do not exist yet; see [Config.Resolve].
func LeadName(name string) string {
	if strings.EqualFold(name, "lead") {
		return "team-lead"
	}
	return name
}

// MemberName returns the member that name means in the team, as by [Config.Resolve]. If team
// is empty, all teams that have such a member must agree. Otherwise it returns [LeadName].
func (r *Root) MemberName(ctx context.Context, team, name string) string {
	among := []Listing{{Name: team}}
	if team == "" {
		among, _ = r.Teams()
	}
	one := ""
	for _, l := range among {
		switch found := r.member(ctx, l.Name, name); {
		case one == "":
			one = found
		case found != "" && found != one:
			return LeadName(name)
		}
	}
	return cmp.Or(one, LeadName(name))
}

// member resolves the name in the team, or returns "".
func (r *Root) member(ctx context.Context, team, name string) string {
	t, err := r.Team(team)
	if err != nil {
		return ""
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return ""
	}
	found, _ := c.Resolve(name, nil)
	return found
}

// known lists all existing names, each once.
func (c *Config) known(inboxes []string) []string {
	known := slices.Clone(inboxes)
	for _, m := range c.Members {
		known = append(known, m.Name)
	}
	slices.Sort(known)
	return slices.DeleteFunc(slices.Compact(known), func(n string) bool { return badName(n) != "" })
}

func (c *Config) resolve(name string, known []string) (string, bool) {
	if slices.Contains(known, name) {
		return name, true
	}
	if name == "lead" {
		if m, ok := c.Lead(); ok {
			return m.Name, true
		}
	}
	var found []string
	for _, n := range known {
		if strings.EqualFold(n, name) {
			found = append(found, n)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], true
	case len(found) == 0 && name != "lead" && strings.EqualFold(name, "lead"):
		return c.resolve("lead", known)
	}
	return "", false
}

// nearest returns the 5 names most like query, the most alike first.
func nearest(query string, names []string) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return edits(query, a) - edits(query, b) })
	return names[:min(5, len(names))]
}

// Alike returns those of the names that query may be meant to be, the most alike first, 5 at most: they begin with it, or differ
// by few letters.
func Alike(query string, names []string) []string {
	return slices.DeleteFunc(nearest(query, names), func(n string) bool {
		return edits(query, n) > 1+len(query)/4 && !strings.HasPrefix(strings.ToLower(n), strings.ToLower(query))
	})
}

// edits is the distance between a name and a query, ignoring case.
func edits(query, name string) int {
	return distance([]rune(strings.ToLower(query)), []rune(strings.ToLower(name)))
}

// distance counts the insertions, deletions, replacements and swaps of neighbors that make a into b (Levenshtein, with the swaps of
// Damerau in their restricted form).
func distance(a, b []rune) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range b {
			cost := last[j]
			if a[i] != b[j] {
				cost++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			row[j+1] = min(cost, row[j]+1, last[j+1]+1)
		}
	}
	return row[len(b)]
}
