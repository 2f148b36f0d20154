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
	"teambridge/status/view"
	"teambridge/teams"
)

type watchOptions struct {
	from     string
	since    string
	protocol bool
	all      bool
}

func newWatch(a *app) *cobra.Command {
	var o watchOptions
	cmd := &cobra.Command{
		Use:   "watch [INBOX...]",
		Short: "Show and record messages as they come",
		Long: `Show the messages of a team as they come, and record them in the journal.

Every message is recorded, even if an agent removes it a moment later:
"teambridge history" and "teambridge search" find it after the team is gone.
Answers of headless agents are shown too, as messages of kind "answer".
Confirmations that nobody needs to read are left out and counted; --protocol
shows them. With --json each message is a line. The command ends with the team.

Exit status: 0 the team has ended; 3 no such team; 130 interrupted.`,
		Example:           `  teambridge watch worker --since 10m`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeMembers(-1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.watch(cmd.Context(), args, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "only messages of this sender")
	f.StringVar(&o.since, "since", "", "start with messages recorded since a duration (1h), a time, or the message with this id")
	f.BoolVar(&o.protocol, "protocol", false, "include confirmations that nobody needs to read")
	f.BoolVar(&o.all, "all", false, "show the messages of all teams")
	must(cmd.RegisterFlagCompletionFunc("from", a.completeMembers(-1)))
	return cmd
}

func (a *app) watch(ctx context.Context, names []string, o watchOptions) error {
	ctx, stop := a.whileRead(ctx)
	defer stop()
	if o.all {
		if len(names) > 0 || a.teamName != "" {
			return usage("", "--all cannot be used with inboxes or --team")
		}
		root, err := a.root()
		if err != nil {
			return err
		}
		return a.follow(ctx, root, nil, nil, o)
	}
	t, err := a.teamOf(ctx, names)
	if err != nil {
		return err
	}
	// Without names also those of inboxes that are not there yet.
	if len(names) > 0 {
		if names, err = a.readable(ctx, t, names, false); err != nil {
			return err
		}
	}
	return a.follow(ctx, t.Root(), t, names, o)
}

// follow prints what comes, of one team or (t is nil) of all.
func (a *app) follow(ctx context.Context, root *teams.Root, t *teams.Team, names []string, o watchOptions) (err error) {
	only := ""
	var instance teams.Instance
	if t != nil {
		c, err := t.Config(ctx)
		if err != nil {
			return err
		}
		only, instance = t.Name(), c.Instance()
	}
	if o.from != "" {
		o.from = root.MemberName(ctx, only, o.from)
	}
	rec, err := a.startRecorder(ctx, root, only)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.close()) }()
	hidden := 0
	defer func() { a.hiddenNote(hidden) }()
	wanted := func(m journal.Message) bool {
		switch {
		case t != nil && m.Team != instance, m.Root != root.Path():
		case len(names) > 0 && !slices.Contains(names, m.Inbox):
		case o.from != "" && m.From != o.from:
		case !o.protocol && m.Noise():
			hidden++
		default:
			return true
		}
		return false
	}
	var last teams.Instance // that was shown
	show := func(m journal.Message) error {
		if !wanted(m) {
			return nil
		}
		if t == nil && m.Team != last && !a.json {
			last = m.Team
			if err := a.teamLine(last); err != nil {
				return err
			}
		}
		return a.printRecorded(m)
	}
	if o.since != "" {
		if err := a.replay(ctx, rec, root, only, o.since, show); err != nil {
			return err
		}
	}
	ended := false
	for {
		// A team can end without a change: when nothing is in its inboxes.
		wait := recheck
		if ended {
			wait = lastWords
		}
		list, err := rec.changes(ctx, wait)
		if err != nil {
			return err
		}
		for _, c := range list {
			if c.Kind == journal.Appeared {
				if err := show(c.Message); err != nil {
					return err
				}
			}
		}
		if ended && len(list) == 0 {
			a.note("the team %s has ended", t.Name())
			return nil
		}
		ended = ended || t != nil && errors.Is(t.Exists(), teams.ErrTeamGone)
	}
}

// lastWords is how long nothing may come from a team that has ended. The last messages may
// still be on their way.
const lastWords = 250 * time.Millisecond

// replay shows what the journal had before.
func (a *app) replay(ctx context.Context, rec *recorder, root *teams.Root, team, since string, show func(journal.Message) error) error {
	q := journal.Query{Root: root.Path(), Team: team, Before: rec.after + 1}
	if err := sinceQuery(ctx, rec.journal, since, &q); err != nil {
		return err
	}
	for m, err := range rec.journal.Messages(ctx, q) {
		if err == nil {
			err = show(m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printRecorded(m journal.Message) error {
	if a.json {
		return a.printJSON(view.Recorded(m))
	}
	if m.Answer != "" {
		return a.print([]byte(a.answerEntry(m)))
	}
	e := m.Entry()
	e.Read = e.Read || !m.GoneAt.IsZero() // in a history most are gone
	return a.print([]byte(a.entry(e, false)))
}

// answerEntry is the answer of a headless agent, for a person.
func (a *app) answerEntry(m journal.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s answers  %s\n", a.paint(dim, clock(m.FirstSeen)), a.paint(bold, escape(m.From, false)), a.paint(dim, escape(m.ID(), false)))
	text := m.Text
	if m.Truncated() {
		text += "\n[the rest was not kept]"
	}
	indent(&b, text)
	return b.String()
}
