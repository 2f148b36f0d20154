package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/journal"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// The values of --for.
const (
	forReply      = "reply"
	forMessage    = "message"
	forIdle       = "idle"
	forAllIdle    = "all-idle"
	forTerminated = "terminated"
)

var occasions = []string{forReply, forMessage, forIdle, forAllIdle, forTerminated}

type waitOptions struct {
	what    string
	member  string
	timeout time.Duration
}

func newWait(a *app) *cobra.Command {
	var o waitOptions
	cmd := &cobra.Command{
		Use:   "wait --for OCCASION [--member M]",
		Short: "Wait until something happens in a team",
		Long: `Wait until something happens in a team, and print it.

  reply       a message to you, from --member if one is given
  message     a message to anybody, from --member if one is given
  idle        --member is idle, as "teambridge status" says, and no message
              waits for it (not just the moment between two tasks)
  all-idle    every agent but the lead is idle
  terminated  --member has shut down, or the team's lead is not running

A pane is idle if its agent is, its prompt is empty, and no message of ours is
on its way or being worked on; it has terminated if no agent is in it.

Nothing else comes from a member that has shut down, or whose team's lead is not
running, so the command ends at once. A message counts if it comes after the
call. Earlier statements of an agent are known if they are in the journal;
otherwise its next one counts.

Exit status: 0 it happened; 3 no such team or member, the team has ended, or it
cannot happen; 4 timed out; 130 interrupted.`,
		Example: `  teambridge wait --for idle --member worker --timeout 10m`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.waitFor(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.what, "for", "", "occasion: "+strings.Join(occasions, ", "))
	f.StringVar(&o.member, "member", "", "the member")
	durationFlag(cmd, &o.timeout, "timeout", 0, "how long to wait (30s, 5m); 0 is forever")
	must(cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(occasions, cobra.ShellCompDirectiveNoFileComp)))
	must(cmd.RegisterFlagCompletionFunc("member", a.completeMembers(-1)))
	return cmd
}

func (a *app) waitFor(ctx context.Context, o waitOptions) (err error) {
	if err := oneOfThese("for", o.what, occasions...); err != nil {
		return err
	}
	if o.member == "" && (o.what == forIdle || o.what == forTerminated) {
		return usage("", "--for %s needs --member", o.what)
	}
	var names []string
	if o.member != "" {
		names = []string{o.member}
	}
	to, err := a.target(ctx, names...)
	if err != nil {
		return err
	}
	if to.Way() == api.WayPane {
		return a.waitForPanes(ctx, o)
	}
	t, name := to.Team, to.Member()
	var ours []string
	if o.what == forReply {
		if ours, err = a.local().Ours(ctx, t); err != nil {
			return err
		}
	}
	rec, err := a.startRecorder(ctx, t.Name())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	if name != "" {
		all, err := rec.statuses(ctx, t)
		if err != nil {
			return err
		}
		if name, err = a.statusName(ctx, t, name, all); err != nil {
			return err
		}
	}
	ctx, cancel := within(ctx, o.timeout, o.missing(name))
	defer cancel()
	defer a.working("waiting for %s", o.awaited(name))()
	if o.what != forReply && o.what != forMessage {
		found, err := a.waitStatus(ctx, rec, t, o.what, name)
		if err != nil {
			return ended(ctx, err)
		}
		return a.printStatus(found, false, false)
	}
	m, err := a.waitMessage(ctx, rec, t, o.what, name, func(m journal.Message) bool {
		return m.Kind() == "message" && (name == "" || m.From == name) && (o.what == forMessage || slices.Contains(ours, m.Inbox))
	})
	if err != nil {
		return ended(ctx, err)
	}
	return a.printRecorded(m)
}

// statusName returns the name of a member, even of one that has left.
func (a *app) statusName(ctx context.Context, t *teams.Team, arg string, all []api.Status) (string, error) {
	name, _ := teams.Split(arg)
	if slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == name }) {
		return name, nil
	}
	return t.Resolve(ctx, name)
}

// missing says what has not happened.
func (o *waitOptions) missing(name string) string {
	switch {
	case o.what == forIdle:
		return name + " is not idle"
	case o.what == forAllIdle:
		return "not all agents are idle"
	case o.what == forTerminated:
		return name + " has not shut down"
	case name == "":
		return "no " + o.what
	}
	return "no " + o.what + " from " + name
}

// awaited says what has to happen.
func (o *waitOptions) awaited(name string) string {
	switch {
	case o.what == forIdle:
		return name + " to be idle"
	case o.what == forAllIdle:
		return "all agents to be idle"
	case o.what == forTerminated:
		return name + " to shut down"
	case name == "":
		return "a " + o.what
	}
	return "a " + o.what + " from " + name
}

// waitMessage waits for a message that is wanted: from name, or from anybody.
func (a *app) waitMessage(ctx context.Context, rec *recorder, t *teams.Team, what, name string, wanted func(journal.Message) bool) (journal.Message, error) {
	var none error                                   // it will not come, unless it was written last
	for wait := time.Duration(0); ; wait = recheck { // a team can end without a change
		if none != nil {
			wait = 0
		}
		list, err := rec.Changes(ctx, wait)
		if err != nil {
			return journal.Message{}, err
		}
		for _, c := range list {
			if c.Kind == journal.Appeared && c.Message.Team.Team == t.Name() && wanted(c.Message) {
				return c.Message, nil
			}
		}
		if err := t.Exists(); err != nil {
			return journal.Message{}, err
		}
		if len(list) > 0 {
			continue
		}
		if none != nil {
			return journal.Message{}, none
		}
		infos, err := rec.statuses(ctx, t)
		if err != nil {
			return journal.Message{}, err
		}
		a.without(rec.silent)
		none = never(infos, what, name, t)
	}
}

// never returns an error if what is waited for cannot happen: the member name has shut down,
// or the lead of the team is not running, for that member or for all.
func never(infos []api.Status, what, name string, t *teams.Team) error {
	why := ""
	for _, i := range infos {
		if name == "" || i.Member == name {
			if why = i.Why; !status.LeadGone(i) && (name == "" || i.State != api.StateTerminated) {
				return nil
			}
		}
	}
	if why == "" {
		return nil
	}
	subject := map[string]string{forIdle: name + " will not become idle", forAllIdle: "the agents will not become idle"}[what]
	if subject == "" {
		if subject = "no " + what + " will come"; name != "" {
			subject = "no " + what + " from " + name + " will come"
		}
	}
	return notFound(view.HistoryHint(t.Name()), "%s: %s", subject, why)
}

// settled is how long an agent without waiting messages must be idle to count as idle.
// Agents look into their inboxes each second.
const settled = 1500 * time.Millisecond

// waitStatus waits until a status holds. Idle must hold for some time.
func (a *app) waitStatus(ctx context.Context, rec *recorder, t *teams.Team, what, name string) ([]api.Status, error) {
	var since time.Time
	for {
		infos, err := rec.statuses(ctx, t)
		if err != nil {
			return nil, err
		}
		a.without(rec.silent)
		lead := a.leadName(ctx, t)
		found, holds := judge(infos, what, name, lead)
		if !holds && what != forTerminated {
			if err := never(slices.DeleteFunc(infos, func(i api.Status) bool { return what == forAllIdle && i.Member == lead }), what, name, t); err != nil {
				return nil, err
			}
		}
		switch {
		case !holds:
			since = time.Time{}
		case what == forTerminated:
			return found, nil
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= settled:
			return found, nil
		}
		list, err := rec.Changes(ctx, settled/5)
		if err != nil {
			return nil, err
		}
		// With a message to it or from it, it was not idle all the time.
		for _, c := range list {
			if c.Kind == journal.Appeared && what != forTerminated && c.Message.Team.Team == t.Name() &&
				(name == "" || c.Message.Inbox == name || c.Message.From == name) {
				since = time.Time{}
			}
		}
	}
}

func (a *app) leadName(ctx context.Context, t *teams.Team) string {
	c, err := t.Config(ctx)
	if err != nil {
		return "" // statusInfos reports the error
	}
	lead, _ := c.Lead()
	return lead.Name
}

// judge reports whether an occasion holds now, and for whom.
func judge(infos []api.Status, what, name, lead string) (found []api.Status, holds bool) {
	for _, i := range infos {
		idle := status.Rests(i)
		switch {
		case what == forAllIdle:
			if i.Member == lead {
				continue
			}
			if !idle {
				return nil, false
			}
			found = append(found, i)
		case i.Member != name:
		case what == forIdle && idle, what == forTerminated && (i.State == api.StateTerminated || status.LeadGone(i)):
			return []api.Status{i}, true
		}
	}
	return found, what == forAllIdle && len(found) > 0
}
