package attention

import (
	"context"
	"slices"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/excerpt"
)

// Place sets the section of each status of a team in an overview, the agent's task and tool, and the way to it, as a
// snapshot does.
func (c *Cache) Place(ctx context.Context, team string, list []api.Status) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(ctx, team); err != nil {
		return err
	}
	e := c.entries[team]
	if e == nil {
		e = &cachedTeam{} // without ledger or journal, only the states are known
	}
	c.place(e, list)
	return nil
}

// place does the work of Place, with the cached team e. c.mu is held.
func (c *Cache) place(e *cachedTeam, list []api.Status) {
	open := c.open(e)
	for i := range list {
		s := &list[i]
		elsewhere := s.Overview // of a member on another machine: that machine's overview
		s.Overview = api.Overview{Cwd: e.dirs[s.Member]}
		if name := api.WaitOf(elsewhere.SectionKind).Section; s.Basis == api.BasisMachine && name != "" {
			s.Overview = elsewhere
			s.Section = name
			view.Reached(s, e.ways[s.Member])
			continue
		}
		view.Reached(s, e.ways[s.Member])
		section(s, open)
		e.assign(s)
		if s.Section == api.SectionEnded {
			continue
		}
		if t, ok := e.tasks[s.Member]; ok {
			s.Doing, s.DoingFrom, s.DoingSince = t.what, t.from, &t.at
		}
		if t := e.tools[s.Member]; t.what != "" {
			s.Tool, s.ToolSince = t.what, &t.at
		}
	}
}

// section sets an agent's section. Items that wait decide first: those that need the person, and the oldest of
// them. Without items, the agent's state decides.
func section(s *api.Status, open []api.Attention) {
	at := len(api.Sections)
	for _, a := range open {
		member := a.Member
		if a.Kind == api.WaitsUnread {
			member = a.From // the item is in the person's inbox
		}
		kind := api.WaitOf(a.Kind)
		n := slices.Index(api.Sections, kind.Section)
		if teams.MemberIn(member, s.Team) != s.Member || n < 0 || n > at || n == at && !sooner(a.Since, s.SectionSince) {
			continue
		}
		at = n
		s.Section, s.SectionWhy, s.SectionSince, s.SectionKind = kind.Section, a.What, a.Since, a.Kind
	}
	if s.Section != "" {
		return
	}
	if s.SectionWhy = s.Why; !s.WordSince.IsZero() {
		s.SectionSince = new(s.WordSince)
	}
	switch s.Word {
	case api.WordWaiting:
		s.Section = api.SectionNeedsYou
	case api.WordBlocked:
		s.Section = api.SectionStuck
	case api.WordWorking:
		s.Section = api.SectionWorking
	case api.WordEnded:
		s.Section = api.SectionEnded
	default:
		s.Section = api.SectionIdle
	}
}

func sooner(a, b *time.Time) bool { return a != nil && (b == nil || a.Before(*b)) }

// silentInterval is how often the transcript of a silent agent is checked for new lines, since no event
// announces them.
const silentInterval = 30 * time.Second

// abandoned is the time after which an agent that possibly still works no longer counts as stuck.
const abandoned = 24 * time.Hour

// silentWaits returns items for agents that work without news for [status.IdleAfter]. written returns when a
// member's transcript was last written, or zero. It is called only for these agents.
func (e *cachedTeam) silentWaits(now time.Time, written func(i int) time.Time) (list []api.Attention) {
	e.silent = map[string]bool{}
	for i, s := range e.states {
		if s.Basis == api.BasisPane || s.Basis == api.BasisProcess && e.team.Sessions {
			s.Heard = s.WordSince // otherwise Heard is the time of the last look
		}
		s.Heard = status.LastSign(s)
		switch {
		case s.Word == api.WordWorking && !status.Silent(s, now):
			e.dueAt(s.Heard.Add(status.IdleAfter))
			continue
		case !status.Silent(s, now), e.shares(i):
			continue
		case s.Word == api.WordUnknown && (e.team.LeadState != teams.Alive.String() || now.Sub(s.Heard) > abandoned):
			continue
		}
		last := s.Heard
		if at := written(i); at.After(last) {
			last = at
		}
		if now.Sub(last) < status.IdleAfter {
			e.dueAt(last.Add(status.IdleAfter))
			continue
		}
		e.dueAt(now.Add(silentInterval))
		e.silent[s.Member] = true
		what := "works, and nothing new has come from it"
		if s.Word == api.WordUnknown {
			what = "was working, and has not been heard since"
		}
		list = append(list, api.Attention{
			ID: attentionID(api.WaitsSilent, last, e.team.Team, s.Member), Kind: api.WaitsSilent, Team: e.team.Team, Member: s.Member, Since: new(last.UTC()),
			What: what, Do: "look at its work, or ask it: teambridge ask " + s.Member + "@" + e.team.Team + " TEXT",
		})
	}
	return list
}

// shares reports whether a member's process has teammates in it. Such a process is busy while any of them is.
func (e *cachedTeam) shares(i int) bool {
	if i >= len(e.known) || e.known[i].Process == nil {
		return false
	}
	return slices.ContainsFunc(e.known, func(k status.Known) bool {
		return k.Process != nil && k.Process.Shared && k.Process.PID == e.known[i].Process.PID
	})
}

// readTools reads the last tool calls of working members whose calls are not known yet. Later calls come from
// changes of the journal.
func (c *Cache) readTools(ctx context.Context, e *cachedTeam, was *cachedTeam) error {
	if e.tools = map[string]task{}; was != nil && was.createdAt == e.createdAt && was.tools != nil {
		e.tools = was.tools
	}
	if c.opts.Journal == nil {
		return nil
	}
	for _, s := range e.states {
		if _, known := e.tools[s.Member]; known || s.Word != api.WordWorking {
			continue
		}
		e.tools[s.Member] = task{}
		q := journal.Query{Root: c.opts.Root.Path(), Team: e.team.Team, CreatedAt: e.createdAt, Inbox: s.Member, Limit: 1}
		for call, err := range view.ToolCalls(ctx, c.opts.Journal, q) {
			if err != nil {
				return err
			}
			e.called(call)
		}
	}
	return nil
}

// called records a tool call, and reports whether it was one.
func (e *cachedTeam) called(call journal.Envelope) (noted bool) {
	what := view.ToolCall(call)
	if what == "" || e.tools == nil {
		return false
	}
	e.tools[call.Inbox] = task{what: excerpt.Line(what, maxTask), at: call.At}
	return true
}
