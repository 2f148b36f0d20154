package bridge

import (
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

// addresses returns whom one can write to, by name: sessions, registered panes, members of living teams, and members on
// other machines. What cannot be read is left out: an error is being explained.
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
			_ = t.Close() // nothing was written through it
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

// leastLetters is how many letters of a name are enough, if no other name begins with them.
const leastLetters = 2

// shortens reports whether name stands for another one: as the beginning of it, or as the last part of the directory in which
// the other one is.
func shortens(name, whole, dir string) bool {
	return len(name) >= leastLetters && (strings.HasPrefix(whole, name) || dir != "" && filepath.Base(dir) == name)
}

// completed returns the addresses of those whom shortened names stand for: the only ones whose names begin so, or the only sessions in
// directories that end so. It returns nil if one of the names stands for nobody. The error is [api.CodeAmbiguousTeam] if one
// stands for several.
func (l *Targets) completed(ctx context.Context, names []string) (whole []string, err error) {
	all := l.addresses(ctx)
	for _, name := range names {
		if all[name] != nil || name == mail.User || strings.EqualFold(name, "lead") {
			return nil, nil // it is somebody's whole name
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
		for _, s := range sessions {
			if address := s.Inbox + "@" + pane.SessionTeam; shortens(name, s.Inbox, s.Cwd) && !slices.Contains(found, address) {
				found = append(found, address)
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

// shortened returns the sessions that names stand for, as [Targets.completed] does among sessions. none is the error if a name stands for
// none.
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
		var found []string
		for _, s := range all {
			if shortens(name, s.Inbox, s.Cwd) {
				found = append(found, s.Inbox)
				some = append(some, s)
			}
		}
		switch len(found) {
		case 0:
			return nil, none
		case 1:
		default:
			return nil, severalMeant(name, found)
		}
	}
	return some, nil
}

// completedTeam returns the living team that a name stands for: the only one whose name begins so, or whose lead is in a directory
// that ends so; "" if there is none. The error is [api.CodeAmbiguousTeam] if there are several.
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
		_ = t.Close() // nothing was written through it
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
	return api.Decide(api.CodeAmbiguousTeam, "say which: "+strings.Join(found, ", ")+more, "%q could be several", name)
}

// mostNamed is how many addresses an error names.
const mostNamed = 5

// nobody says which of names nobody has, and whom there is, the most alike first; all is what addresses returns. It returns nil
// if there is nobody at all, or somebody has each name.
func nobody(all map[string][]string, names []string) error {
	i := slices.IndexFunc(names, func(name string) bool {
		return all[name] == nil && name != mail.User && !strings.EqualFold(name, "lead")
	})
	if i < 0 || len(all) == 0 {
		return nil
	}
	there := slices.Concat(teams.Alike(names[i], slices.Sorted(maps.Keys(all))), slices.Sorted(maps.Keys(all)))
	var list []string
	for _, name := range there {
		for _, address := range all[name] {
			if n, team := teams.Split(address); team == pane.SessionTeam || team == pane.Team {
				address = n // which is enough
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
	return api.Decide(api.CodeNotFound, "there are: "+strings.Join(list, ", ")+more, "nobody is called %q", names[i])
}

// alike adds to the error that a team has no such member whom else the name may mean. hint is what else helps; "": as usual.
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
