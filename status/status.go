// Package status says of each member of a team whether it is at work, idle or
// gone, and by which message that is known.
//
// Claude Code writes no state down, so it is inferred from what members say:
//
//   - [api.StateActive]: the last event that a member authored is less than 5 minutes old.
//   - [api.StateIdle]: it is 5 minutes old or older; exactly 5 minutes is idle.
//   - [api.StateTerminated]: its last lifecycle event says that it has shut down: a
//     shutdown_approved, a shutdown_response that approves, or a
//     teammate_terminated that names it. Any later word of it ends that. Only what it
//     says itself counts, and what Claude Code says as "system"; what another member
//     says counts if the member has left config.json. A member that was asked to
//     shut down, did not refuse, and has left config.json has shut down: its answer
//     may have been taken before anybody saw it.
//
// Being started counts as an event: a member that never said anything is known
// by its joinedAt, and one that was started again under its old name is not
// terminated by what an earlier one did.
//
// Beside that it says whether a member is at work. One that waits has said that
// it is idle, with a reason, and was given nothing since. All versions say so
// between two tasks as well: a newer agent then gives no reason, for it has taken
// what comes next already, and an older one takes the next row milliseconds
// later (measured). That is why it counts when rows were taken. Who watches may see
// that late, so what was not changed since the word was not taken from since.
//
// An event happened when its row says so, but not later than it was first seen:
// a clock that is ahead does not keep a member active. A time that cannot be
// understood is the time it was first seen.
package status

import (
	"cmp"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/teams"
)

// IdleAfter is how old the last event of an idle member is at least.
const IdleAfter = 5 * time.Minute

// Event is a row and when it was first seen. Rows that stand in a file and in
// no journal were first seen now.
type Event struct {
	inbox.Entry
	FirstSeen time.Time
}

// Given says when members were last given something to do.
type Given map[string]Taking

// Taking is when rows were last taken from an inbox.
type Taking struct {
	// Seen is when that was seen or, where it was not seen, when such a row was
	// written at the latest.
	Seen time.Time

	// By is when it was at the latest, by the inbox file itself; zero where that
	// is not known.
	By time.Time
}

// live is how much later than it was said a word is first seen at most by
// somebody who watches.
const live = 2 * time.Second

// since reports whether a member was given something after it said w.
func (g Given) since(member string, w *word) bool {
	taking := g[member]
	// What was seen late, on a machine that has much to do, can seem to come after
	// a word of an agent that did not take long.
	if !taking.By.IsZero() && taking.By.Before(w.at) {
		return false
	}
	at := w.at
	// By the same clock as the taking of rows, if it was there: when it was seen.
	// An older agent takes the next row milliseconds after it said that it is idle.
	if seen := w.event.FirstSeen; seen.After(at) && seen.Sub(at) < live {
		at = seen
	}
	return taking.Seen.After(at)
}

// Of returns the status of every agent of a team: of those that stand in
// config, in its order, and behind them of those that stand there no longer and
// have shut down, by name. Guests, people who joined a team, are no agents.
// Events may come in any order, several times, and from any inbox of the team.
func Of(now time.Time, config *teams.Config, events []Event, given Given) []api.Status {
	last := map[string]*history{}
	of := func(name string) *history {
		if last[name] == nil {
			last[name] = &history{}
		}
		return last[name]
	}
	var guests []string
	for _, m := range config.Members {
		if m.Guest() {
			guests = append(guests, m.Name)
			continue
		}
		h := of(m.Name)
		h.present, h.joined = true, m.JoinedAt
	}
	for _, e := range events {
		for _, w := range said(now, e) {
			if !slices.Contains(guests, w.member) {
				of(w.member).add(w)
			}
		}
	}
	stale := config.LeadProcess.Liveness() == teams.Gone
	var all, left []api.Status
	for _, m := range config.Members {
		if h := last[m.Name]; h != nil && h.present {
			all = append(all, h.status(now, m.Name, stale, given))
			delete(last, m.Name)
		}
	}
	for name, h := range last {
		if s := h.status(now, name, stale, given); !h.present && s.State == api.StateTerminated {
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

// history is what matters of what one member did.
type history struct {
	present bool
	joined  time.Time
	last    *word // its newest event
	asked   *word // the newest request that it shut down
	rumour  *word // the newest hearsay of its end
	refused time.Time
}

// word is something a member said or that was said of its end.
type word struct {
	member string
	at     time.Time
	event  Event
	ends   bool // it says that the member has shut down
	asks   bool // it is the lead's, who asks it to
	no     bool // it is its refusal
	reason string

	hearsay bool // another member says it
}

func (h *history) add(w word) {
	if w.asks {
		if h.asked == nil || w.at.After(h.asked.at) {
			h.asked = &w
		}
		return
	}
	if w.hearsay {
		if h.rumour == nil || w.at.After(h.rumour.at) {
			h.rumour = &w
		}
		return
	}
	if w.no && w.at.After(h.refused) {
		h.refused = w.at
	}
	// Of two events of one time the end is the later one: an agent says last
	// that it goes.
	if h.last == nil || w.at.After(h.last.at) || w.at.Equal(h.last.at) && (w.ends || !h.last.ends) {
		h.last = &w
	}
}

func (h *history) status(now time.Time, name string, stale bool, given Given) api.Status {
	s := api.Status{Member: name}
	w := h.last
	if a := h.asked; !h.present && a != nil && a.at.After(h.refused) && w != nil && !w.ends {
		end := *a
		end.ends = true
		if w.at.After(end.at) {
			end.at = w.at
		}
		w = &end
	}
	if r := h.rumour; !h.present && r != nil && w != nil && !w.ends && !w.at.After(r.at) {
		w = r
	}
	if w == nil || h.present && h.joined.After(w.at) {
		w = &word{at: h.joined}
	} else {
		s.Evidence = api.Evidence{Inbox: w.event.Inbox, ID: w.event.ID(), Kind: w.event.Kind(), Timestamp: w.event.Timestamp}
	}
	switch {
	case w.ends:
		s.State, s.Since, s.Detail = api.StateTerminated, w.at.UTC(), api.DetailShutDown
		return s
	case now.Sub(w.at) < IdleAfter:
		s.State, s.Since = api.StateActive, w.at.UTC()
	default:
		s.State, s.Since = api.StateIdle, w.at.Add(IdleAfter).UTC()
	}
	switch {
	case stale:
		s.Detail = api.DetailStale
	case s.Evidence.Kind != "idle_notification", w.reason == "", given.since(name, w):
		s.Detail = api.DetailWorking
	case w.reason == "failed":
		s.Detail = api.DetailFailed
	default:
		s.Detail = api.DetailWaiting
	}
	return s
}

// said returns what an event says of which member: that its author was there, and
// what it says about the life of that or of another one ([LifecycleOf]).
func said(now time.Time, e Event) (words []word) {
	at := e.FirstSeen
	if at.IsZero() || at.After(now) {
		at = now
	}
	if t, ok := e.Time(); ok && t.Before(at) {
		at = t
	}
	own := word{member: e.From, at: at, event: e}
	l, ok := LifecycleOf(&e.Entry)
	switch {
	case !ok:
	case l.Member == e.From:
		own.ends, own.no, own.reason = l.Ends, l.Refuses, l.IdleReason
	case l.Ends || l.Asks:
		words = append(words, word{member: l.Member, at: at, event: e, ends: l.Ends, asks: l.Asks, hearsay: l.Hearsay})
	}
	if e.From != "" && e.From != system {
		words = append(words, own)
	}
	return words
}
