// Package status determines whether each member of a team is working, idle or gone, and which message proves
// it.
//
// Claude Code does not record the state of a member, so it is inferred from messages:
//
//   - [api.StateActive]: the member's last event, a message or a recorded turn, is less
//     than 5 minutes old.
//   - [api.StateIdle]: it is 5 minutes old or older; exactly 5 minutes is idle.
//   - [api.StateTerminated]: its last lifecycle event says that it has shut down: a
//     shutdown_approved, a shutdown_response that approves, or a teammate_terminated that
//     names it. A later message from it ends this state. Only events of the member and of
//     Claude Code ("system") count; those of other members count if the member has left
//     config.json. A member that was asked to shut down, did not refuse, and has left
//     config.json has shut down: its answer may have been taken before a watcher saw it.
//
// The start of a member is an event. For a member that never sent anything, it is its joinedAt. A member that
// was restarted under the same name is not terminated by events of its predecessor.
//
// The detail distinguishes working from waiting. A waiting member has reported that it is idle, with a
// reason, and has taken nothing since. Agents also report idle between two tasks: without a reason, or
// milliseconds before they take the next row. If the inbox file has not changed since the report, nothing was
// taken. If it has changed within 2 seconds of the last row written to it, that row was taken.
//
// The word is for people, and uses more sources: see [Known.Decide].
//
// The time of an event is its timestamp, but not later than when it was first seen, so that a clock that is ahead does
// not keep a member active. If a timestamp cannot be parsed, the event has the time when it was first seen.
package status

import (
	"cmp"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/teams"
)

// IdleAfter is the age of the last event at which a member becomes idle.
const IdleAfter = 5 * time.Minute

// Event is a row with the time when it was first seen. For a row that is not in the journal, that is now.
type Event struct {
	inbox.Entry
	FirstSeen time.Time
}

// Taken has, by member, when rows were last taken from inboxes.
type Taken map[string]LastTaken

// LastTaken is when rows were last taken from an inbox.
type LastTaken struct {
	// Seen is when a watcher last saw a row leave; zero if none did.
	Seen time.Time

	// Written is when the newest taken row was written, of those sent from here and those taken while nobody
	// watched. It cannot have been taken earlier.
	Written time.Time

	// By is a time after which nothing was taken, by the time of the inbox file; zero if unknown.
	By time.Time
}

// seenWithin is the longest delay between the timestamp of an event and the time when a watcher sees it.
const seenWithin = 2 * time.Second

// takenWithin is the time after a row's write within which a change of the inbox file counts as taking that
// row. Agents poll every 500 ms or every second.
const takenWithin = 2 * time.Second

// after reports whether a member has taken a row since the event c.
func (t Taken) after(member string, c *claim) bool {
	last := t[member]
	// On a busy machine, a row that was taken before an agent's report can seem to be taken after it.
	if !last.By.IsZero() && last.By.Before(c.at) {
		return false
	}
	at := c.at
	// A row that was written after the report was taken after it. So was an earlier one if the file changed
	// after the report. Times are compared in milliseconds, the report's resolution.
	later := func(t time.Time) bool { return t.Truncate(time.Millisecond).After(c.at) }
	if later(last.Written) || !last.Written.IsZero() && last.By.Sub(last.Written) < takenWithin && later(last.By.Add(-tick)) {
		return true
	}
	// If a watcher saw the event, compare by its clock, which also dated the taking.
	if seen := c.event.FirstSeen; seen.After(at) && seen.Sub(at) < seenWithin {
		at = seen
	}
	return last.Seen.After(at)
}

// Of returns the status of every agent of a team: first those in config, in its order, then those that have shut down
// and left it, by name. People who joined the team are not included. Events may be in any order, repeated, and from any
// inbox of the team.
//
// Recorded turns count as events of their member, but do not revive one that has shut down. WordSince and Basis are
// those of the newest message; [Known.Decide] needs them.
func Of(now time.Time, config *teams.Config, events []Event, taken Taken, turns map[string]Turn) []api.Status {
	members := map[string]*history{}
	of := func(name string) *history {
		if members[name] == nil {
			members[name] = &history{}
		}
		return members[name]
	}
	var guests []string
	for _, m := range config.Members {
		if m.Guest() {
			guests = append(guests, m.Name)
			continue
		}
		h := of(m.Name)
		if h.present, h.joined = true, m.JoinedAt; m.JoinedAt.IsZero() {
			h.joined = config.CreatedAt
		}
	}
	for _, e := range events {
		for _, c := range claims(now, e) {
			if !slices.Contains(guests, c.member) {
				of(c.member).add(c)
			}
		}
	}
	stale := config.LeadProcess.Liveness() == teams.Gone
	var all, left []api.Status
	for _, m := range config.Members {
		if h := members[m.Name]; h != nil && h.present {
			all = append(all, h.status(now, m.Name, stale, taken, turns[m.Name].Heard))
			delete(members, m.Name)
		}
	}
	for name, h := range members {
		if s := h.status(now, name, stale, taken, turns[name].Heard); !h.present && s.State == api.StateTerminated {
			left = append(left, s)
		}
	}
	slices.SortFunc(left, func(a, b api.Status) int { return cmp.Compare(a.Member, b.Member) })
	all = append(all, left...)
	for i := range all {
		all[i].Team = config.Team
	}
	return all
}

// history is the record of one member.
type history struct {
	present bool // in config.json
	joined  time.Time
	last    *claim // its newest event
	asked   *claim // the newest request to shut down
	hearsay *claim // the newest statement of another member that it has ended
	refused time.Time
}

// claim is an event's statement about a member.
type claim struct {
	member  string
	at      time.Time
	event   Event
	ends    bool   // the member has shut down
	asks    bool   // the member is asked to shut down
	refuses bool   // the member refuses to shut down
	reason  string // why it is idle
	hearsay bool   // another member claims it
}

func (h *history) add(c claim) {
	newest := func(p **claim) {
		if *p == nil || c.at.After((*p).at) {
			*p = &c
		}
	}
	switch {
	case c.asks:
		newest(&h.asked)
		return
	case c.hearsay:
		newest(&h.hearsay)
		return
	case c.refuses && c.at.After(h.refused):
		h.refused = c.at
	}
	// Of two events at the same time, the end is the later one, since an agent sends it last.
	if h.last == nil || c.at.After(h.last.at) || c.at.Equal(h.last.at) && (c.ends || !h.last.ends) {
		h.last = &c
	}
}

func (h *history) status(now time.Time, name string, stale bool, taken Taken, heard time.Time) api.Status {
	s := api.Status{Member: name, Basis: api.BasisMessage}
	c := h.last
	if a := h.asked; !h.present && a != nil && a.at.After(h.refused) && c != nil && !c.ends {
		end := *a
		end.ends = true
		if c.at.After(end.at) {
			end.at = c.at
		}
		c = &end
	}
	if r := h.hearsay; !h.present && r != nil && c != nil && !c.ends && !c.at.After(r.at) {
		c = r
	}
	if c == nil || h.present && h.joined.After(c.at) {
		c, s.Basis = &claim{at: h.joined}, api.BasisTeam
	} else {
		s.Evidence = api.Evidence{Inbox: c.event.Inbox, ID: c.event.ID(), Kind: c.event.Kind(), Timestamp: c.event.Timestamp}
	}
	s.WordSince, s.Heard = c.at.UTC(), c.at.UTC()
	if c.ends {
		s.State, s.Since, s.Detail = api.StateTerminated, c.at.UTC(), api.DetailShutDown
		return s
	}
	if heard.After(now) {
		heard = now
	}
	s.Heard = latest(s.Heard, heard)
	if now.Sub(s.Heard) < IdleAfter {
		s.State, s.Since = api.StateActive, s.Heard
	} else {
		s.State, s.Since = api.StateIdle, s.Heard.Add(IdleAfter)
	}
	switch {
	case stale:
		s.Detail = api.DetailStale
	case s.Evidence.Kind != "idle_notification", c.reason == "", taken.after(name, c):
		s.Detail = api.DetailWorking
	case c.reason == "failed":
		s.Detail = api.DetailFailed
	default:
		s.Detail = api.DetailWaiting
	}
	return s
}

// claims returns the statements of an event: that its author was there, and the [Lifecycle] of its author or
// of another member.
func claims(now time.Time, e Event) (list []claim) {
	at := e.FirstSeen
	if at.IsZero() || at.After(now) {
		at = now
	}
	if t, ok := e.Time(); ok && t.Before(at) {
		at = t
	}
	own := claim{member: e.From, at: at, event: e}
	l, ok := LifecycleOf(&e.Entry)
	switch {
	case !ok:
	case l.Member == e.From:
		own.ends, own.refuses, own.reason = l.Ends, l.Refuses, l.IdleReason
	case l.Ends || l.Asks:
		list = append(list, claim{member: l.Member, at: at, event: e, ends: l.Ends, asks: l.Asks, hearsay: l.Hearsay})
	}
	if e.From != "" && e.From != system {
		list = append(list, own)
	}
	return list
}
