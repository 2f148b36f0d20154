package attention

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/excerpt"
)

// lately is how many of a team's last messages are examined.
const lately = 200

// Two agents are in a loop if they have answered each other loopExchanges times within loopWindow, and neither
// exchanged messages with others or called a tool in between. A turn that reads, changes or tests something
// takes a minute or more, so agents at work answer each other at most ten times in that window. A relay holds
// messages sooner, at 20 within a minute: see [relay.MaxExchanges].
//
// A slow pair is in a loop after slowExchanges within a day. This number is high because not all tool calls of
// agents at terminals are known: a pair at work stays below it for fifty tasks.
const (
	loopExchanges = 16
	loopWindow    = 10 * time.Minute
	slowExchanges = 100
	slowWindow    = 24 * time.Hour
)

// talk returns a team's last messages, newest first.
func (c *Cache) talk(ctx context.Context, q journal.Query) (list []journal.Record, err error) {
	q.Newest, q.Limit = true, lately
	for m, err := range c.opts.Journal.Messages.All(ctx, q) {
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

// A pair is two agents, in the order of their names.
type pair [2]string

func pairOf(a, b string) pair { return pair{min(a, b), max(a, b)} }

// A loop is a series of messages that two agents wrote each other in turn, and nothing else.
type loop struct {
	exchanges int           // answers within the window
	window    time.Duration // loopWindow or slowWindow
	since     time.Time     // the first of these messages that is known
	ends      time.Time     // when it expires, unless it continues
}

// loopsOf finds the loops in a team's last messages, newest first. It skips messages that agents did not write
// themselves, such as reports that they are idle.
func loopsOf(talk []journal.Record, now time.Time) map[pair]loop {
	type run struct {
		loop
		slow     int       // exchanges within a day
		slowEnds time.Time // when there are too few of those, unless the loop continues
		from     string    // the sender of the last message examined
		closed   bool
	}
	runs := map[pair]*run{}
	with := map[string]pair{} // the pair of each agent's newest message
	for _, m := range talk {
		if m.Answer != "" || m.Kind() != "message" {
			continue
		}
		from := teams.MemberIn(m.From, m.Team)
		p := pairOf(from, m.Inbox)
		other := false
		for _, name := range p {
			if was, ok := with[name]; !ok {
				with[name] = p
			} else if was != p {
				other = true
				if runs[was] != nil {
					runs[was].closed = true
				}
			}
		}
		switch r := runs[p]; {
		case from == m.Inbox:
		case r == nil:
			runs[p] = &run{loop: loop{since: m.FirstSeen, window: loopWindow}, from: from, closed: other}
		case r.closed || other:
			r.closed = true
		default:
			if r.from != from && now.Sub(m.FirstSeen) <= loopWindow {
				r.exchanges++
				if r.exchanges == loopExchanges {
					r.ends = m.FirstSeen.Add(loopWindow)
				}
			}
			if r.from != from && now.Sub(m.FirstSeen) <= slowWindow {
				r.slow++
				if r.slow == slowExchanges {
					r.slowEnds = m.FirstSeen.Add(slowWindow)
				}
			}
			r.from, r.since = from, m.FirstSeen
		}
	}
	found := map[pair]loop{}
	for p, r := range runs {
		switch {
		case r.exchanges >= loopExchanges:
			found[p] = r.loop
		case r.slow >= slowExchanges:
			found[p] = loop{exchanges: r.slow, window: slowWindow, since: r.since, ends: r.slowEnds}
		}
	}
	return found
}

// keepLoops keeps the start time of a loop that continues, even if its first messages are no longer among the
// last ones.
func (e *cachedTeam) keepLoops(was *cachedTeam) {
	if was == nil || was.createdAt != e.createdAt {
		return
	}
	for p, l := range e.loops {
		if before, ok := was.loops[p]; ok && before.since.Before(l.since) {
			l.since = before.since
			e.loops[p] = l
		}
	}
}

// loopWaits returns the items for agents of a team in loops.
func (e *cachedTeam) loopWaits() (list []api.Attention) {
	agents := map[string]*api.Relay{}
	for _, s := range e.states {
		agents[s.Member] = s.Relay
	}
	held := func(to, from string) bool {
		return agents[to] != nil && slices.ContainsFunc(agents[to].Held, func(h api.Hold) bool { return h.Sender == from })
	}
	for p, l := range e.loops {
		_, isAgent := agents[p[0]]
		if _, other := agents[p[1]]; !isAgent || !other {
			continue // a person talks to one of them
		}
		if held(p[0], p[1]) || held(p[1], p[0]) {
			continue // the loop is over, and held messages are items themselves
		}
		if began := l.ends.Add(-l.window); e.tools[p[0]].at.After(began) || e.tools[p[1]].at.After(began) {
			continue
		}
		var holdable []string
		for _, name := range p {
			if view.Delivers(agents[name]) {
				holdable = append(holdable, name)
			}
		}
		for i, name := range p {
			other := p[1-i]
			what := fmt.Sprintf("%s and %s only answer each other: %d times within %s", name, other, l.exchanges, windowText(l.window))
			do := "hold back their messages to each other: teambridge relay hold " + name + "@" + e.team.Team + " " + other
			switch len(holdable) {
			case 0:
				do = "no relay can hold their messages, so tell one of them to stop: teambridge send " + name + "@" + e.team.Team + " TEXT"
			case 1:
				what += fmt.Sprintf("; to hold what %s gets from %s ends it", holdable[0], p[1-slices.Index(p[:], holdable[0])])
			}
			e.dueAt(l.ends)
			list = append(list, api.Attention{
				ID: attentionID(api.WaitsLoop, l.since, e.team.Team, name, other), Kind: api.WaitsLoop, Team: e.team.Team, Member: name, Since: new(l.since),
				From: other, Count: l.exchanges, What: what, Do: do, Holdable: holdable,
			})
		}
	}
	slices.SortFunc(list, func(a, b api.Attention) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

func windowText(window time.Duration) string {
	if window == slowWindow {
		return "24 hours"
	}
	return fmt.Sprintf("%d minutes", int(window.Minutes()))
}

// A task is the last message to an agent.
type task struct {
	what, from string
	at         time.Time
}

// maxTask is the longest task that is shown, in characters.
const maxTask = 120

// tasksOf returns the newest message to each agent, from a team's last messages.
func tasksOf(talk []journal.Record) map[string]task {
	list := map[string]task{}
	for _, m := range talk {
		if _, ok := list[m.Inbox]; ok || m.Answer != "" {
			continue
		}
		var text string
		switch m.Kind() {
		case "message":
			text = cmp.Or(strings.TrimSpace(m.Summary), m.Text)
		case "task_assignment":
			var assigned struct{ Subject string }
			_ = json.Unmarshal([]byte(m.Text), &assigned) // valid, since its kind was read from it
			text = assigned.Subject
		}
		if text = excerpt.Line(text, maxTask); text != "" {
			list[m.Inbox] = task{text, m.From, m.FirstSeen}
		}
	}
	return list
}
