package bridge

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/mail"
	"teambridge/relay/link"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// addresses returns the addresses of all recipients, by name: sessions, registered panes, members of living teams,
// and members on other machines. It skips whatever cannot be read, since it only helps to explain an error.
func (l *Targets) addresses(ctx context.Context) map[string][]string {
	all := map[string][]string{}
	add := func(name, team string) {
		if address := name + "@" + team; !slices.Contains(all[name], address) {
			all[name] = append(all[name], address)
		}
	}
	if list, err := l.FindSessions(ctx, nil); err == nil {
		for _, s := range list {
			add(s.Inbox, pane.SessionTeam)
		}
	}
	if list, err := l.Registered(ctx); err == nil {
		for _, p := range list {
			add(p.Inbox, pane.Team)
		}
	}
	if root, err := l.Opts.Root(); err == nil {
		listed, _ := root.Teams()
		for _, one := range listed {
			t, err := root.Team(one.Name)
			if err != nil {
				continue
			}
			if c, err := t.Config(ctx); err == nil && t.LeadState(c, time.Now()) != teams.Gone {
				for _, m := range c.Members {
					add(m.Name, t.Name())
				}
				inboxes, _ := t.Inboxes()
				for _, name := range inboxes {
					add(name, t.Name())
				}
			}
			_ = t.Close() // it was only read
		}
	}
	if list, err := l.Linked(ctx); err == nil {
		for _, m := range list {
			p, _ := link.PresenceOf(m)
			for _, t := range p.Teams {
				for _, member := range t.Members {
					add(member.Member, t.Team+"@"+m.Name)
				}
			}
		}
	}
	return all
}

// leastLetters is the length of the shortest accepted prefix of a name.
const leastLetters = 2

// shortens reports whether name abbreviates another name: by a prefix, or by the last element of the directory dir.
func shortens(name, whole, dir string) bool {
	return len(name) >= leastLetters && (strings.HasPrefix(whole, name) || dir != "" && filepath.Base(dir) == name)
}

// completed returns the addresses that abbreviated names stand for: a name must be the prefix of only one
// recipient's name, or the last directory of only one session, or else mean the session of only one member. It returns nil if one of the names stands for no
// recipient. The error is [api.CodeAmbiguousTeam] if one stands for several.
func (l *Targets) completed(ctx context.Context, names []string) (whole []string, err error) {
	all := l.addresses(ctx)
	for _, name := range names {
		if all[name] != nil || name == mail.User || strings.EqualFold(name, "lead") {
			return nil, nil // the name is complete
		}
		var found []string
		for _, other := range slices.Sorted(maps.Keys(all)) {
			if shortens(name, other, "") {
				found = append(found, all[other]...)
			}
		}
		sessions, err := l.FindSessions(ctx, nil)
		if err != nil {
			return nil, err
		}
		var ended []string
		for _, s := range sessions {
			address := s.Inbox + "@" + pane.SessionTeam
			if shortens(name, s.Inbox, s.Cwd) && !slices.Contains(found, address) {
				found = append(found, address)
			}
			if s.Ended {
				ended = append(ended, address)
			}
		}
		if found = alive(found, ended); len(found) == 0 {
			if found, err = l.membersOf(ctx, name); err != nil {
				return nil, err
			}
		}
		switch len(found) {
		case 0:
			return nil, nil
		case 1:
			whole = append(whole, found[0])
		default:
			return nil, severalMeant(name, found)
		}
	}
	return whole, nil
}

// membersOf returns the addresses of the members whose sessions have a name, an id or a directory, or abbreviate to it.
func (l *Targets) membersOf(ctx context.Context, name string) (found []string, err error) {
	sessions, err := l.Sessions(ctx)
	for _, s := range sessions {
		address := s.Member + "@" + s.Team
		if s.Member != "" && (shortens(name, cmp.Or(s.As, s.Name), s.Cwd) || shortens(name, s.Session, "")) && !slices.Contains(found, address) {
			found = append(found, address)
		}
	}
	return found, err
}

// shortened returns the sessions that names stand for, as [Targets.completed] does among sessions. It returns
// the error none if a name stands for no session.
func (l *Targets) shortened(ctx context.Context, names []string, none error) (some []pane.Pane, err error) {
	all, err := l.FindSessions(ctx, nil)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if one, err := l.FindSessions(ctx, []string{name}); err == nil {
			some = append(some, one...)
			continue
		}
		var found, ended []string
		for _, s := range all {
			if shortens(name, s.Inbox, s.Cwd) {
				found = append(found, s.Inbox)
			}
			if s.Ended {
				ended = append(ended, s.Inbox)
			}
		}
		found = alive(found, ended)
		switch len(found) {
		case 0:
			return nil, none
		case 1:
			some = append(some, all[slices.IndexFunc(all, func(s pane.Pane) bool { return s.Inbox == found[0] })])
		default:
			return nil, severalMeant(name, found)
		}
	}
	return some, nil
}

// alive returns the found names that are not of ended agents, or all if there are no others.
func alive(found, ended []string) []string {
	living := slices.DeleteFunc(slices.Clone(found), func(one string) bool { return slices.Contains(ended, one) })
	if len(living) == 0 {
		return found
	}
	return living
}

// completedTeam returns the living team that a name abbreviates: the name must be the prefix of only one team,
// or the last directory of only one lead. It returns "" if there is none. The error is [api.CodeAmbiguousTeam]
// if there are several.
func (l *Targets) completedTeam(ctx context.Context, name string) (string, error) {
	root, err := l.Opts.Root()
	if err != nil {
		return "", err
	}
	listed, err := root.Teams()
	if err != nil {
		return "", err
	}
	var found []string
	for _, one := range listed {
		t, err := root.Team(one.Name)
		if err != nil {
			continue // it has just ended
		}
		if c, err := t.Config(ctx); err == nil && t.LeadState(c, time.Now()) != teams.Gone {
			if lead, _ := c.Lead(); shortens(name, t.Name(), lead.Cwd) {
				found = append(found, t.Name())
			}
		}
		_ = t.Close() // it was only read
	}
	if len(found) > 1 {
		return "", severalMeant(name, found)
	}
	return strings.Join(found, ""), nil
}

func severalMeant(name string, found []string) error {
	more := ""
	if len(found) > mostNamed {
		found, more = found[:mostNamed], ", …"
	}
	return api.Decide(api.CodeAmbiguousTeam, "say which: "+strings.Join(found, ", ")+more, "%q matches several agents", name)
}

// mostNamed is the number of addresses that an error lists.
const mostNamed = 5

// unknownName returns the error for the first name without a recipient. Its hint lists recipients, the most similar
// names first. all is the result of addresses. The error is nil if there is no recipient at all, or if each
// name has one.
func unknownName(all map[string][]string, names []string) error {
	known := slices.Sorted(maps.Keys(all))
	i := slices.IndexFunc(names, func(name string) bool {
		return !slices.ContainsFunc(append(known, mail.User, "lead"), func(k string) bool { return strings.EqualFold(k, name) })
	})
	if i < 0 || len(all) == 0 {
		return nil
	}
	there := slices.Concat(teams.Alike(names[i], known), known)
	var list []string
	for _, name := range there {
		for _, address := range all[name] {
			if n, team := teams.Split(address); team == pane.SessionTeam || team == pane.Team {
				address = n // the name is enough
			}
			if !slices.Contains(list, address) {
				list = append(list, address)
			}
		}
	}
	more := ""
	if len(list) > mostNamed {
		list, more = list[:mostNamed], ", …; see all with: teambridge"
	}
	return api.Decide(api.CodeNotFound, "there are: "+strings.Join(list, ", ")+more, "no agent is called %q", names[i])
}

// alike adds similar addresses to the error that a team has no such member. hint is the rest of the hint; ""
// means the usual one.
func (l *Targets) alike(ctx context.Context, err error, hint string) error {
	nf, ok := errors.AsType[*teams.NotFoundError](err)
	if !ok || nf.Kind != "member" {
		return err
	}
	if hint == "" {
		hint = view.Explain(err).Hint
	}
	all := l.addresses(ctx)
	name, _ := teams.Split(nf.Query)
	var list []string
	for _, n := range teams.Alike(name, slices.Sorted(maps.Keys(all))) {
		for _, address := range all[n] {
			if _, team := teams.Split(address); team != nf.Team {
				list = append(list, address)
			}
		}
	}
	if len(list) > 0 {
		hint = "did you mean " + strings.Join(list[:min(mostNamed, len(list))], ", ") + "? " + hint
	}
	return &api.Decided{Err: err, Code: api.CodeNotFound, Hint: hint}
}
