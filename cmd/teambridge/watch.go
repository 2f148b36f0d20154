package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

type watchOptions struct {
	from     string
	since    string
	protocol bool
	all      bool
	needsYou bool
	exec     bool
	argv     []string // --exec and its program
	work     workOptions
	alerts   alertOptions
}

func newWatch(a *app) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch [INBOX...] [--exec PROGRAM [ARGS...]]",
		Short: "Show and record messages as they come",
		Long: `Show the messages of a team as they come, and record them in the journal.

Every message is recorded, even if an agent removes it a moment later:
"teambridge history" and "teambridge search" find it after the team is gone.
Answers of headless agents are shown too, as messages of kind "answer", and
before them the agents' work. Confirmations, such as an agent's report that it
is idle, are one line before the next message; --protocol shows each. With
--json each message is a line, and confirmations are left out and counted. The
command ends with the team.

--needs-you shows new items of "teambridge inbox", in all teams or in the one of
--team, and nothing else.

--alert, with --needs-you, also sends alerts to your phone or to a chat. FILE
must be readable only by you, and has

  ntfy=FILE      https://ntfy.sh/TOPIC, and an access token if you have one
  slack=FILE     the address of an incoming webhook
  telegram=FILE  the token of a bot, and the id of a chat
  webhook=FILE   an https:// address, and a bearer token if you have one;
                 below, a body with $text if the service needs its own

or use KIND=env:VARIABLE. An alert says who waits, and for what: a question, a
message, or a failure; --alert-text adds its text. There is one alert for each
item, sent by the next watch if this one cannot. If a server is away, the alert
is tried again for as long as the item waits; a refusal is reported. "serve
--alert" does the same without a terminal.

--exec runs a program for each new message that is shown, one at a time. It
takes the rest of the command line, and no shell is involved. The program gets
the message as one line of JSON on stdin, and in its environment
TEAMBRIDGE_EVENT ("message", or "attention" with --needs-you), TEAMBRIDGE_TITLE
and TEAMBRIDGE_TEXT. Its output goes to stderr. A failure is reported, and the
program is not run again for that message. An interrupt kills it and its
children.

Exit status: 0 the team has ended; 1 it has, and an alert was not delivered; 2
bad flags, or no such program; 3 no such team; 5 another process sends these
alerts; 130 interrupted.`,
		Example: `  teambridge watch worker --since 10m
  teambridge watch --needs-you --exec sh -c \
    'notify-send -- "$TEAMBRIDGE_TITLE" "$TEAMBRIDGE_TEXT"'
  teambridge watch --needs-you --alert ntfy=$HOME/.config/ntfy-address`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if o.exec {
				return nil, cobra.ShellCompDirectiveDefault // a file
			}
			return completer{a}.completeMembers(-1)(cmd, args, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); o.exec && n >= 0 {
				args, o.argv = args[:n], args[n:]
			}
			return a.watch(cmd.Context(), args, o)
		},
	}
	f := cmd.Flags()
	fromFlag(cmd, a, &o.from)
	messagesSinceFlag(cmd, &o.since)
	protocolFlag(cmd, &o.protocol)
	allFlag(cmd, &o.all, "show the messages of all teams")
	f.BoolVar(&o.needsYou, "needs-you", false, "show only what needs you, as \"teambridge inbox\" does")
	f.BoolVar(&o.exec, "exec", false, "run the program that follows for each new message")
	o.work.flags(cmd)
	o.alerts.flags(cmd)
	return cmd
}

func (a *app) watch(ctx context.Context, names []string, o watchOptions) (err error) {
	ctx, stop := a.whileRead(ctx)
	defer stop()
	var p *program
	if o.exec {
		if len(o.argv) == 0 {
			return usage("usage: teambridge watch --exec PROGRAM [ARGS...]", "--exec needs a program")
		}
		if p, err = a.startProgram(ctx, o.argv); err != nil {
			return err
		}
		defer p.finish()
	}
	if o.needsYou {
		if len(names) > 0 || o.from != "" || o.since != "" {
			return usage("", "--needs-you cannot be used with inboxes, --from or --since")
		}
		return a.watchWaits(ctx, p, o.alerts)
	}
	if len(o.alerts.specs) > 0 || o.alerts.text {
		return usage("add --needs-you", "--alert works only with --needs-you")
	}
	if o.all {
		if len(names) > 0 || a.teamName != "" {
			return usage("", "--all cannot be used with inboxes or --team")
		}
		return a.follow(ctx, api.Target{}, o, p)
	}
	s := a.scope()
	s.Existing = true // also accept names of inboxes that do not exist yet
	to, err := a.bridge(ctx).Target(ctx, s, names...)
	if err != nil {
		if f := view.Explain(err); len(names) == 0 && f.Code == api.CodeAmbiguousTeam {
			return api.Decide(f.Code, f.Hint+", or watch all with --all", "%w", err)
		}
		return err
	}
	a.chosen = to.Team
	if o.from != "" {
		s.Team = to.Team
		if from, err := a.bridge(ctx).Target(ctx, s, o.from); err == nil {
			o.from = from.Member()
		}
	}
	return a.follow(ctx, to, o, p)
}

// follow prints new messages to a target, or to all teams, and runs p for each.
func (a *app) follow(ctx context.Context, to api.Target, o watchOptions, p *program) (err error) {
	v := &viewer{app: a, opts: o, to: to, said: map[inbox.InboxKey]string{}, run: noise{app: a}}
	defer func() {
		if perr := v.run.print(); err == nil {
			err = perr
		}
		a.hiddenNote(v.hidden)
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	type item struct {
		api.Event
		err error
	}
	events, source := make(chan item), a.events(ctx, to.Team)
	go func() {
		defer close(events)
		for e, err := range source {
			select {
			case events <- item{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() {
		stop()
		for range events { // wait for the goroutine, which uses files that a closes
		}
	}()
	began := false
	var over <-chan time.Time // once the team has ended
	for {
		var e item
		select {
		case e = <-events:
		case <-over:
			a.endedNote(to.Team)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		switch {
		case e.err != nil:
			return e.err
		case !began: // print the earlier messages first
			began = true
			if e.Snapshot != nil && to.Team != "" && len(e.Snapshot.Teams) > 0 && !e.Snapshot.Teams[0].CreatedAt.IsZero() {
				v.created = e.Snapshot.Teams[0].CreatedAt.UnixMilli()
			}
			if o.since != "" {
				if err := v.replay(ctx, e.Seq); err != nil {
					return err
				}
			}
			v.program = p // not for replayed messages
			a.debug("watching")
		case e.Reset != nil:
			a.warn("\"teambridge gc\" removed some messages before they were shown")
		}
		if e.Message != nil {
			a.learnNames(ctx, e.Message.Message.Team)
		}
		if err := v.event(e.Event); err != nil {
			return err
		}
		if over != nil || to.Team != "" && e.Snapshot != nil && len(e.Snapshot.Teams) == 0 {
			over = time.After(endGrace)
		}
	}
}

// endGrace is how long a team must be silent after its end before watch ends: its last messages may still be on
// their way.
const endGrace = 250 * time.Millisecond

// viewer prints the messages, and the work of agents, that the flags of watch select.
type viewer struct {
	*app
	opts    watchOptions
	program *program                  // runs for each message; nil: none
	to      api.Target                // without a team: all teams
	created int64                     // creation time of the team in milliseconds; 0: unknown
	run     noise                     // the run of noise since the last message shown
	hidden  int                       // confirmations, as JSON
	last    teams.Instance            // of the last record shown
	said    map[inbox.InboxKey]string // turn and last text of each agent that was shown
}

// event prints the message or the work of an event, if the flags select it.
func (v *viewer) event(e api.Event) error {
	switch {
	case e.Message != nil && e.Message.Change == api.Appeared:
		return v.show(e.Message.Message)
	case e.Envelope != nil && e.Envelope.Record != nil && !v.opts.work.messagesOnly:
		if r := *e.Envelope.Record; r.Kind != api.KindThinking || v.opts.work.thinking {
			return v.show(r)
		}
	}
	return nil
}

func (v *viewer) show(r api.Record) error {
	team := instanceOf(r)
	switch {
	case v.to.Team != "" && team.Team != v.to.Team, len(v.to.Members) > 0 && !slices.Contains(v.to.Members, r.Inbox), v.opts.from != "" && r.From != v.opts.from:
		return nil
	case v.json && !v.opts.protocol && isNoise(r):
		v.hidden++
		return nil
	case r.Work == nil && v.program != nil && (v.opts.protocol || !isNoise(r)):
		o, err := messageTrigger(r.Message)
		if err != nil {
			return err
		}
		v.program.enqueue(o)
	}
	if v.to.Team == "" && team != v.last && !v.json {
		v.last = team
		if err := cmp.Or(v.run.print(), v.teamLine(v.last)); err != nil {
			return err
		}
	}
	if !v.opts.protocol && v.run.add(r) {
		return nil // printed before the next message
	}
	if err := v.run.print(); err != nil {
		return err
	}
	agent := inbox.Key("", team, r.Inbox)
	switch {
	case r.Work != nil && r.Kind == api.KindText:
		v.said[agent] = r.Work.Turn + "\n" + strings.TrimSpace(r.Text)
	case r.Answer != nil && !v.json && v.said[agent] == r.Answer.Frame+"\n"+strings.TrimSpace(r.Text):
		r.Text = "[its last text, above]"
	}
	return v.printRecord(r)
}

// replay prints the journal's earlier records, up to and including the number last.
func (v *viewer) replay(ctx context.Context, last int64) error {
	o := historyOptions{SearchQuery: api.SearchQuery{Protocol: true}, since: v.opts.since, work: v.opts.work}
	q, err := o.query(v.app)
	if err != nil {
		return err
	}
	q.Team, q.CreatedAt, q.Before = v.to.Team, v.created, last+1
	found, _, err := v.recorded(ctx, q, 0, false)
	if err != nil {
		return o.noSuchSince(err)
	}
	for _, r := range found {
		v.learnNames(ctx, r.Team)
		if err := v.show(r); err != nil {
			return err
		}
	}
	return nil
}

// answerEntry formats the answer of a headless agent for a person.
func (c *console) answerEntry(r api.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s answers  %s\n", c.paint(dim, clock(r.FirstSeen)), c.paint(bold, escape(r.From, false)), c.paint(dim, escape(shortID(r.ID), false)))
	text := r.Text
	if r.Answer.Truncated {
		text += "\n[the rest was not kept]"
	}
	c.indent(&b, text)
	return b.String()
}

// endedNote notes that the watched team has ended.
func (c *console) endedNote(team string) {
	c.note("the team %s has ended; %s", team, view.HistoryHint(team))
}
