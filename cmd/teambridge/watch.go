package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/journal"
	"teambridge/relay/pane"
	"teambridge/status/api"
	"teambridge/status/bridge"
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
	argv     []string // the program of exec
	work     workOptions
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
before them what the agents say and do while they work.
Confirmations that nobody needs to read are left out and counted; --protocol
shows them. With --json each message is a line. The command ends with the team.

--needs-you shows what comes to "teambridge inbox", of all teams or that of
--team, and nothing else.

--exec runs a program for each new message that is shown, one at a time. It
takes the rest of the command line, and no shell is involved. The program gets
the message as one line of JSON on stdin, and in its environment
TEAMBRIDGE_EVENT ("message", or "attention" with --needs-you), TEAMBRIDGE_TITLE
and TEAMBRIDGE_TEXT. What it prints goes to stderr. If it fails, that is
reported, and it is not run again. An interrupt kills it and its children.

Exit status: 0 the team has ended; 2 bad flags, or no such program; 3 no such
team; 130 interrupted.`,
		Example: `  teambridge watch worker --since 10m
  teambridge watch --needs-you --exec sh -c \
    'notify-send -- "$TEAMBRIDGE_TITLE" "$TEAMBRIDGE_TEXT"'`,
		Args: cobra.ArbitraryArgs,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if o.exec {
				return nil, cobra.ShellCompDirectiveDefault // a file
			}
			return a.completeMembers(-1)(cmd, args, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := cmd.ArgsLenAtDash(); o.exec && n >= 0 {
				args, o.argv = args[:n], args[n:]
			}
			return a.watch(cmd.Context(), args, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "only messages of this sender")
	f.StringVar(&o.since, "since", "", "start with messages recorded since a duration (1h), a time, or the message with this id")
	f.BoolVar(&o.protocol, "protocol", false, "include confirmations that nobody needs to read")
	f.BoolVar(&o.all, "all", false, "show the messages of all teams")
	f.BoolVar(&o.needsYou, "needs-you", false, "show only what needs you, as \"teambridge inbox\" does")
	f.BoolVar(&o.exec, "exec", false, "run the program that follows for each new message")
	o.work.flags(cmd)
	must(cmd.RegisterFlagCompletionFunc("from", a.completeMembers(-1)))
	return cmd
}

func (a *app) watch(ctx context.Context, names []string, o watchOptions) (err error) {
	ctx, stop := a.whileRead(ctx)
	defer stop()
	var p *program
	if o.exec {
		if len(o.argv) == 0 {
			return usage("teambridge watch --exec PROGRAM [ARGS...]", "--exec needs a program")
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
		return a.watchWaits(ctx, p)
	}
	if o.all {
		if len(names) > 0 || a.teamName != "" {
			return usage("", "--all cannot be used with inboxes or --team")
		}
		root, err := a.root()
		if err != nil {
			return err
		}
		return a.follow(ctx, root, nil, nil, o, p)
	}
	to, err := a.target(ctx, names...)
	if err != nil {
		return err
	}
	if to.Way() == api.WayPane {
		return a.watchPanes(ctx, names, o, p)
	}
	t := to.Team
	// Without names also those of inboxes that are not there yet.
	if len(names) > 0 {
		if names, err = a.local().Inboxes(ctx, t, names, false); err != nil {
			return err
		}
	}
	return a.follow(ctx, t.Root(), t, names, o, p)
}

// watchPanes prints what comes to the panes with these names, or to all, and from them.
func (a *app) watchPanes(ctx context.Context, names []string, o watchOptions, p *program) error {
	root, err := a.root()
	if err != nil {
		return err
	}
	some, err := a.registered(ctx, names)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		names = nil
		for _, one := range some {
			names = append(names, one.Inbox)
		}
	}
	v := &viewer{app: a, opts: o, root: root.Path(), names: names, team: paneInstance(some), said: map[journal.InboxKey]string{}}
	return v.follow(ctx, root, nil, pane.Team, p)
}

// follow prints what comes, of one team or (t is nil) of all, and runs p for it.
func (a *app) follow(ctx context.Context, root *teams.Root, t *teams.Team, names []string, o watchOptions, p *program) error {
	only := ""
	v := &viewer{app: a, opts: o, root: root.Path(), names: names, all: t == nil, said: map[journal.InboxKey]string{}}
	if t != nil {
		c, err := t.Config(ctx)
		if err != nil {
			return err
		}
		only, v.team = t.Name(), c.Instance()
	}
	if o.from != "" {
		v.opts.from = root.MemberName(ctx, only, o.from)
	}
	return v.follow(ctx, root, t, only, p)
}

// follow prints what comes, of the team with the name only, or of all if it is empty. t is
// nil if there is no such team to end.
func (v *viewer) follow(ctx context.Context, root *teams.Root, t *teams.Team, only string, p *program) (err error) {
	a, o := v.app, v.opts
	rec, err := a.startRecorder(ctx, only)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	defer func() { a.hiddenNote(v.hidden) }()
	if o.since != "" {
		if err := v.replay(ctx, rec, only); err != nil {
			return err
		}
	}
	v.program = p // not for what was there before
	ended := false
	for {
		// A team can end without a change: when nothing is in its inboxes.
		wait := recheck
		if ended {
			wait = lastWords
		}
		list, err := rec.Changes(ctx, wait)
		if err != nil {
			return err
		}
		for _, c := range list {
			if err := v.change(ctx, rec, c); err != nil {
				return err
			}
		}
		if ended && len(list) == 0 {
			a.endedNote(t.Name())
			return nil
		}
		ended = ended || t != nil && errors.Is(t.Exists(), teams.ErrTeamGone)
	}
}

// lastWords is how long nothing may come from a team that has ended. The last messages may
// still be on their way.
const lastWords = 250 * time.Millisecond

// viewer prints the messages, and the work of agents, that watch was asked for.
type viewer struct {
	*app
	opts    watchOptions
	program *program // run for each message; nil: none
	root    string
	team    teams.Instance
	all     bool                        // of all teams
	names   []string                    // of inboxes; none: all
	hidden  int                         // confirmations
	last    teams.Instance              // that was shown
	said    map[journal.InboxKey]string // the turn and the last text of each agent that was shown
}

// change prints what a change is about, if it is wanted.
func (v *viewer) change(ctx context.Context, rec *recorder, c journal.Change) error {
	switch {
	case c.Kind == journal.Appeared:
		if c.Message.Root == v.root {
			return v.show(view.Record(c.Message, nil))
		}
	case c.Kind == journal.Said && !v.opts.work.messagesOnly && c.Envelope.Root == v.root:
		e, err := view.Envelope(ctx, rec.Journal(), rec.Ledger(ctx), c.Envelope)
		if err != nil || e.Record == nil || e.Record.Kind == api.KindThinking && !v.opts.work.thinking {
			return err
		}
		return v.show(*e.Record)
	}
	return nil
}

func (v *viewer) show(r api.Record) error {
	team := instanceOf(r)
	switch {
	case !v.all && team != v.team, len(v.names) > 0 && !slices.Contains(v.names, r.Inbox), v.opts.from != "" && r.From != v.opts.from:
		return nil
	case r.Work == nil && !v.opts.protocol && r.Noise:
		v.hidden++
		return nil
	case r.Work == nil && v.program != nil:
		o, err := occurred(r.Message)
		if err != nil {
			return err
		}
		v.program.run(o)
	}
	if v.all && team != v.last && !v.json {
		v.last = team
		if err := v.teamLine(v.last); err != nil {
			return err
		}
	}
	agent := journal.InboxKey{Team: team, Inbox: r.Inbox}
	switch {
	case r.Work != nil && r.Kind == api.KindText:
		v.said[agent] = r.Work.Turn + "\n" + strings.TrimSpace(r.Text)
	case r.Answer != nil && !v.json && v.said[agent] == r.Answer.Frame+"\n"+strings.TrimSpace(r.Text):
		r.Text = "[its last text, above]"
	}
	return v.printRecord(r)
}

// replay shows what the journal had before.
func (v *viewer) replay(ctx context.Context, rec *recorder, team string) error {
	q := journal.Query{Root: v.root, Team: team, Before: rec.After() + 1}
	if err := sinceQuery(ctx, rec.Journal(), v.opts.since, &q); err != nil {
		return err
	}
	s := bridge.Selection{Query: q, Protocol: true, MessagesOnly: v.opts.work.messagesOnly, Thinking: v.opts.work.thinking}
	for h, err := range v.local().Records(ctx, rec.Journal(), s, nil) {
		if err == nil {
			err = v.show(h.Record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// answerEntry is the answer of a headless agent, for a person.
func (a *app) answerEntry(r api.Record) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s answers  %s\n", a.paint(dim, clock(r.FirstSeen)), a.paint(bold, escape(r.From, false)), a.paint(dim, escape(shortID(r.ID), false)))
	text := r.Text
	if r.Answer.Truncated {
		text += "\n[the rest was not kept]"
	}
	a.indent(&b, text)
	return b.String()
}

// endedNote says that a team has ended while it was watched.
func (a *app) endedNote(team string) {
	a.note("the team %s has ended; %s", team, view.HistoryHint(team))
}
