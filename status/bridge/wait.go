package bridge

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/history"
	"teambridge/status/view"
)

// idleFor is how long an agent without waiting messages must be idle to count as idle. Agents check their
// inboxes each second.
const idleFor = 1500 * time.Millisecond

// waiting is a wait for an occasion in a team.
type waiting struct {
	*Local
	api.Occasion
	to   *Target
	team string
	root string
	rec  *history.Recorder // nil if the way records nothing

	since time.Time // start of the wait, in milliseconds like transcripts
}

// Wait waits for an occasion in a team; see [api.Bridge].
func (l *Local) Wait(ctx context.Context, team string, o api.Occasion) (h api.Happened, err error) {
	defer func() { err = overdue(ctx, err) }()
	switch {
	case !slices.Contains(api.Occasions(), o.For):
		return h, api.Decide(api.CodeUsage, "", "for is %q; it must be one of %s", o.For, strings.Join(api.Occasions(), ", "))
	case o.Member == "" && (o.For == api.ForIdle || o.For == api.ForTerminated):
		return h, api.Decide(api.CodeUsage, "", "for %s needs a member", o.For)
	case o.Timeout < 0:
		return h, api.Decide(api.CodeUsage, "", "the timeout %s is negative", o.Timeout)
	}
	since := time.Now().Truncate(time.Millisecond)
	var names []string
	if o.Member != "" {
		names = []string{o.Member}
	}
	to, way, err := l.at(ctx, team, names...)
	if err != nil {
		return h, err
	}
	defer to.Close() // it was only read
	root, err := l.Opts.Root()
	if err != nil {
		return h, err
	}
	w := &waiting{Local: l, Occasion: o, to: &to, team: to.Name(), root: root.Path(), since: since}
	if err := way.prepare(ctx, w); err != nil {
		return h, err
	}
	if w.rec != nil {
		defer func() { err = errors.Join(err, w.rec.Close()) }()
	}
	end := l.Attend(ctx, w.team)
	defer func() { err = errors.Join(err, end()) }()
	wait, cancel := Within(ctx, o.Timeout, w.missing())
	defer cancel()
	if w.forMessage() {
		h.Message, err = way.message(wait, w)
	} else {
		h.Status, err = way.state(wait, w)
	}
	if err = overdue(wait, err); o.Member != "" {
		err = whileAsked(ctx, way, &to, err, l.Attention)
	}
	return h, err
}

func (w *waiting) forMessage() bool { return w.For == api.ForReply || w.For == api.ForMessage }

func (l inboxWay) prepare(ctx context.Context, w *waiting) (err error) {
	if w.rec, err = l.Record(ctx, w.team); err != nil {
		return err
	}
	if w.Member != "" {
		var all []api.Status
		all, err = l.Statuses(ctx, w.rec, w.to.Team)
		if err == nil && !slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == w.Member }) { // otherwise it may have left
			if w.Member, err = w.to.Team.Resolve(ctx, w.Member); err != nil {
				err = l.alike(ctx, err, "")
			}
		}
	}
	if err == nil {
		err = w.provable(ctx)
	}
	if err != nil {
		err = errors.Join(err, w.rec.Close())
	}
	return err
}

// provable returns an error if the agent is too old to prove the occasion. Messages and ends can be seen in the
// inboxes of all versions.
func (w *waiting) provable(ctx context.Context) error {
	if w.For == api.ForMessage || w.For == api.ForTerminated {
		return nil
	}
	c, err := w.to.Team.Config(ctx)
	if err != nil {
		return err
	}
	lead, _ := c.Lead()
	versions := w.to.Team.Versions(c)
	for _, m := range c.Members {
		if m.Name == w.Member || w.For == api.ForAllIdle && m.Name != lead.Name {
			if err := versions[m.Name].Check(m.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l inboxWay) message(ctx context.Context, w *waiting) (*api.Record, error) {
	return w.message(ctx)
}
func (l inboxWay) state(ctx context.Context, w *waiting) ([]api.Status, error) { return w.status(ctx) }

// missing describes the missing occasion.
func (w *waiting) missing() string {
	switch {
	case w.For == api.ForIdle:
		return w.Member + " is not idle"
	case w.For == api.ForAllIdle:
		return "not all agents are idle"
	case w.For == api.ForTerminated:
		return w.Member + " has not shut down"
	case w.Member == "":
		return "no " + w.For
	case w.to.person:
		return "no " + w.For + " to you"
	}
	return "no " + w.For + " from " + w.Member
}

// appeared returns the messages of the team that were recorded within a time. It ignores answers from before
// the wait, which may be recorded late.
func (w *waiting) appeared(ctx context.Context, within time.Duration) ([]journal.Record, error) {
	changes, err := w.rec.Changes(ctx, within)
	var list []journal.Record
	for _, c := range changes {
		if m := c.Message; c.Kind == journal.Appeared && m.Team == w.team && m.Root == w.root && (m.Answer == "" || !m.FirstSeen.Before(w.since)) {
			list = append(list, m)
		}
	}
	return list, err
}

// message waits for a message.
func (w *waiting) message(ctx context.Context) (*api.Record, error) {
	t := w.to.Team
	var ours []string
	if w.For == api.ForReply {
		var err error
		if ours, err = w.Ours(ctx, t); err != nil {
			return nil, err
		}
	}
	var none error                                           // why no message can come; the journal is read once more first
	for wait := time.Duration(0); ; wait = history.Recheck { // no change announces the end of a team
		if none != nil {
			wait = 0
		}
		list, err := w.appeared(ctx, wait)
		if err != nil {
			return nil, err
		}
		for _, m := range list {
			if m.Kind() == "message" && (w.Member == "" || m.From == w.Member) && (w.For == api.ForMessage || slices.Contains(ours, m.Inbox)) {
				return new(view.Record(m, nil)), nil
			}
		}
		if err := t.Exists(); err != nil {
			return nil, err
		}
		if len(list) > 0 {
			continue
		}
		if none != nil {
			return nil, none
		}
		all, err := w.Statuses(ctx, w.rec, t)
		if err != nil {
			return nil, err
		}
		none = w.impossible(all)
	}
}

// impossible returns an error if the occasion cannot happen: the member, or each member, has shut down or has no
// running process, or the lead is gone.
func (w *waiting) impossible(all []api.Status) error {
	why := ""
	for _, s := range all {
		if w.Member == "" || s.Member == w.Member {
			if why = s.Why; !status.Gone(s) && (w.Member == "" || s.State != api.StateTerminated) {
				return nil
			}
		}
	}
	if why == "" {
		return nil
	}
	subject := map[string]string{api.ForIdle: w.Member + " will not become idle", api.ForAllIdle: "the agents will not become idle"}[w.For]
	if subject == "" {
		if subject = "no " + w.For + " will come"; w.Member != "" {
			subject = "no " + w.For + " from " + w.Member + " will come"
		}
	}
	return api.Decide(api.CodeNotFound, view.HistoryHint(w.team), "%s: %s", subject, why)
}

// status waits for a state. Idle must last for some time.
func (w *waiting) status(ctx context.Context) ([]api.Status, error) {
	var since time.Time
	for {
		all, err := w.Statuses(ctx, w.rec, w.to.Team)
		if err != nil {
			return nil, err
		}
		if w.For == api.ForAllIdle {
			if c, err := w.to.Team.Config(ctx); err == nil { // the next look reports the error
				lead, _ := c.Lead()
				all = slices.DeleteFunc(all, func(s api.Status) bool { return s.Member == lead.Name })
			}
		}
		found, holds := w.judge(all)
		if !holds && w.For != api.ForTerminated {
			if err := w.impossible(all); err != nil {
				return nil, err
			}
		}
		switch {
		case !holds:
			since = time.Time{}
		case w.For == api.ForTerminated:
			return found, nil
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= idleFor:
			return found, nil
		}
		list, err := w.appeared(ctx, idleFor/5)
		if err != nil {
			return nil, err
		}
		// An agent that sent or got a message was not idle all the time.
		if w.For != api.ForTerminated && slices.ContainsFunc(list, func(m journal.Record) bool {
			return w.Member == "" || m.Inbox == w.Member || m.From == w.Member
		}) {
			since = time.Time{}
		}
	}
}

// judge reports whether an occasion has happened, and for which members.
func (w *waiting) judge(all []api.Status) (found []api.Status, holds bool) {
	for _, s := range all {
		idle := status.Rests(s)
		switch {
		case w.For == api.ForAllIdle:
			if !idle {
				return nil, false
			}
			found = append(found, s)
		case s.Member != w.Member:
		case w.For == api.ForIdle && idle, w.For == api.ForTerminated && (s.State == api.StateTerminated || status.Gone(s)):
			return []api.Status{s}, true
		}
	}
	return found, w.For == api.ForAllIdle && len(found) > 0
}

// Within limits a wait; 0 means no limit. what describes the missing event in the timeout error.
func Within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	if d <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, api.Decide(api.CodeTimeout, "", "timed out after %s: %s", d, what))
}

// overdue returns the cause of ctx if ctx has ended and err is not nil, or else err.
func overdue(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
