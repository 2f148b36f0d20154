package teams

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Resolve returns the name of the inbox that query means. The first matching rule decides:
//
//  1. a member of that name;
//  2. an inbox of that name (inboxes lists them): it need not have a member;
//  3. "lead": the member whose agent id is leadAgentId;
//  4. "name@team" with this team: as name alone;
//  5. the only member or inbox whose name differs only in case, or else "lead".
//
// Otherwise the error is a [*NotFoundError] with the most similar names, or [ErrBadName] if the name is not
// valid.
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

// LeadName returns "team-lead", Claude Code's name for leads, for "lead". It returns other names unchanged.
// It is for teams that do not exist yet; see [Config.Resolve].
func LeadName(name string) string {
	if strings.EqualFold(name, "lead") {
		return "team-lead"
	}
	return name
}

// MemberName returns the member that name means in the team, as [Config.Resolve] does. If team is empty, all
// teams with such a member must agree. Otherwise it returns [LeadName].
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

// member resolves a name in a team, or returns "".
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

// known returns all existing names, each once.
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

// nearest returns the 5 names that are most similar to query, the most similar first.
func nearest(query string, names []string) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return edits(query, a) - edits(query, b) })
	return names[:min(5, len(names))]
}

// Alike returns the names that query may stand for, the most similar first, at most 5: they begin with query,
// or differ from it by few letters.
func Alike(query string, names []string) []string {
	return slices.DeleteFunc(nearest(query, names), func(n string) bool {
		return edits(query, n) > 1+len(query)/4 && !strings.HasPrefix(strings.ToLower(n), strings.ToLower(query))
	})
}

// edits returns the distance between a name and a query, ignoring case.
func edits(query, name string) int {
	return distance([]rune(strings.ToLower(query)), []rune(strings.ToLower(name)))
}

// distance counts the insertions, deletions, replacements and swaps of neighbors that turn a into b: the
// Levenshtein distance, with Damerau's swaps in their restricted form.
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
