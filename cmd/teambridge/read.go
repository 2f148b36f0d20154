package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

type readOptions struct {
	from     string
	since    string
	unread   bool
	limit    int
	protocol bool
	history  bool
	markRead bool
}

func newRead(a *app) *cobra.Command {
	var o readOptions
	cmd := &cobra.Command{
		Use:   "read [INBOX[@TEAM]...]",
		Short: "Show what is in the inboxes of a team",
		Long: `Show the messages in the inboxes of a team, oldest first.

Without names, all inboxes are shown. Newer agents remove the messages they
take, so an inbox shows what waits there; --history adds what was recorded
before. Confirmations that nobody needs to read, such as of an idle agent, are
left out and counted; --protocol shows them.

A pane has no inbox: of panes, what is shown is what was not typed yet.

Of an id, the first 4 characters are enough if no other id begins with them.

Nothing is changed without --mark-read, which is only for your own inboxes:
"user", and the name under which you joined the team.

Exit status: 0, even if there is nothing; 3 no such team, inbox or message; 5
--mark-read on an inbox that is not yours; 6 an inbox is corrupt (the others
are shown).`,
		Example: `  teambridge read operator --unread --mark-read
  teambridge read --since 1h --history`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: a.completeMembers(-1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.read(cmd.Context(), args, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "only messages of this sender")
	f.StringVar(&o.since, "since", "", "only messages since a duration (1h30m, 2d), a time (2026-11-20T12:00:00Z) or the message with this id")
	f.BoolVar(&o.unread, "unread", false, "only unread messages")
	f.IntVar(&o.limit, "limit", 0, "show the last N messages; 0 is all")
	f.BoolVar(&o.protocol, "protocol", false, "include confirmations that nobody needs to read")
	f.BoolVar(&o.history, "history", false, "include recorded messages that have left their inboxes")
	f.BoolVar(&o.markRead, "mark-read", false, "mark the messages that are shown as read")
	must(cmd.RegisterFlagCompletionFunc("from", a.completeMembers(-1)))
	return cmd
}

func (a *app) read(ctx context.Context, names []string, o readOptions) error {
	if o.limit < 0 {
		return usage("", "--limit %d is negative", o.limit)
	}
	to, err := a.target(ctx, names...)
	if err != nil {
		return err
	}
	if to.Way() == api.WayPane {
		return a.readPanes(ctx, names, o)
	}
	t := to.Team
	all := len(names) == 0 && !o.markRead
	if names, err = a.readable(ctx, t, names, o.markRead); err != nil {
		return err
	}
	// If one inbox cannot be read, the others are still shown.
	var faults []error
	unreadable := map[string]bool{}
	rows := map[string][]inbox.Row{}
	for _, name := range names {
		box, err := a.inbox(t, name)
		if err != nil {
			return err
		}
		switch rows[name], err = box.Read(ctx); {
		case err == nil, errors.Is(err, inbox.ErrMissing):
		case errors.Is(err, inbox.ErrEmpty):
			// An inbox without messages is an empty array, so something went wrong.
			a.warn("%s", view.Describe(err))
		case ctx.Err() != nil, errors.Is(err, teams.ErrTeamGone):
			return err
		default:
			faults = append(faults, err)
			unreadable[name] = true
		}
	}
	var past map[string][]inbox.Row
	if o.history {
		wanted := func(name string) bool { return all || slices.Contains(names, name) }
		if past, err = a.past(ctx, t, wanted, rows, unreadable); err != nil {
			if ctx.Err() != nil {
				return err
			}
			a.warn("%s; earlier messages are not shown", view.Describe(err))
		}
	}
	if o.from != "" {
		o.from = t.Root().MemberName(ctx, t.Name(), o.from)
	}
	shown, hidden, err := o.filter(feed(past, rows))
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	if err := a.printFeed(t.Name(), shown); err != nil {
		return err
	}
	a.hiddenNote(hidden)
	if len(shown) == 0 && len(faults) == 0 && hidden == 0 {
		a.note("no messages to show")
	}
	if o.markRead {
		faults = append(faults, a.markRead(ctx, t, shown))
	}
	return errors.Join(faults...)
}

// hiddenNote says how many confirmations were left out.
func (a *app) hiddenNote(n int) {
	if n == 1 {
		a.note("1 confirmation is hidden; --protocol shows it")
	} else if n > 1 {
		a.note("%d confirmations are hidden; --protocol shows them", n)
	}
}

type item struct {
	inbox.Entry
	gone bool // from its inbox
}

// feed merges what was and what is in inboxes, in the order of [inbox.Merge].
func feed(past, now map[string][]inbox.Row) []item {
	all := map[string][]inbox.Row{}
	for _, inboxes := range []map[string][]inbox.Row{past, now} {
		for name, rows := range inboxes {
			all[name] = append(all[name], rows...)
		}
	}
	var items []item
	for _, e := range inbox.Merge(all) {
		items = append(items, item{e, e.Index < len(past[e.Inbox])})
	}
	return items
}

// past returns the recorded messages that have left their inboxes. Those that should still
// be in an unreadable inbox are put into now.
func (a *app) past(ctx context.Context, t *teams.Team, wanted func(string) bool, now map[string][]inbox.Row, unreadable map[string]bool) (map[string][]inbox.Row, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	j, err := a.local().Journal(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	a.local().Refresh(ctx, j, journal.Query{Root: t.Root().Path(), Team: c.Team})
	there := map[string]int{}
	for name, rows := range now {
		for i := range rows {
			there[name+"/"+rows[i].Key()]++
		}
	}
	past, hidden := map[string][]inbox.Row{}, map[string][]inbox.Row{}
	// Newest first: of equal rows, the last ones are still there.
	q := journal.Query{Root: t.Root().Path(), Team: c.Team, CreatedAt: c.Instance().CreatedAt, Newest: true}
	for m, err := range j.Messages(ctx, q) {
		if err != nil {
			return nil, err
		}
		key := m.Inbox + "/" + m.Key()
		switch {
		case !wanted(m.Inbox), m.Answer != "":
		case there[key] > 0:
			there[key]--
		case unreadable[m.Inbox] && m.GoneAt.IsZero():
			hidden[m.Inbox] = append(hidden[m.Inbox], m.Row)
		default:
			past[m.Inbox] = append(past[m.Inbox], m.Row)
		}
	}
	for _, rows := range past {
		slices.Reverse(rows)
	}
	for name, rows := range hidden {
		slices.Reverse(rows)
		now[name] = rows
	}
	return past, nil
}

// readable returns the inboxes to read, or with mark those to mark as read.
func (a *app) readable(ctx context.Context, t *teams.Team, names []string, mark bool) ([]string, error) {
	var wanted []string
	for _, name := range names {
		found, err := t.Resolve(ctx, name)
		if nf, ok := errors.AsType[*teams.NotFoundError](err); ok && nf.Kind == "member" && name == "user" {
			found, err = name, nil // nobody has written to the person yet
		}
		if err != nil {
			return nil, err
		}
		wanted = append(wanted, found)
	}
	if !mark {
		if len(names) == 0 {
			return t.Inboxes()
		}
		return wanted, nil
	}
	ours, err := a.ours(ctx, t)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return ours, nil
	}
	for _, name := range wanted {
		if !slices.Contains(ours, name) {
			return nil, refuse("--mark-read is for \"user\" and for the name you joined under",
				"cannot mark messages to %s as read: it would never get them", name)
		}
	}
	return wanted, nil
}

// ours returns the inboxes of the person at the command line.
func (a *app) ours(ctx context.Context, t *teams.Team) ([]string, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	l, err := a.local().Ledger(ctx)
	if err != nil {
		return nil, err
	}
	if l == nil { // no team was joined
		return []string{mail.User}, nil
	}
	return mail.Ours(ctx, l, t, c)
}

// filter returns what to show, and how many confirmations are left out.
func (o readOptions) filter(feed []item) (shown []item, hidden int, err error) {
	after, err := o.after(feed)
	if err != nil {
		return nil, 0, err
	}
	for i, e := range feed {
		switch {
		case !after(i, e), o.from != "" && e.From != o.from, o.unread && (e.Read || e.gone):
		case !o.protocol && e.Noise():
			hidden++
		default:
			shown = append(shown, e)
		}
	}
	if o.limit > 0 && len(shown) > o.limit {
		shown = shown[len(shown)-o.limit:]
	}
	return shown, hidden, nil
}

// after returns the condition of --since.
func (o readOptions) after(feed []item) (func(int, item) bool, error) {
	if o.since == "" {
		return func(int, item) bool { return true }, nil
	}
	limit, ok := parseSince(o.since)
	if !ok {
		var ids []string
		for _, e := range feed {
			ids = append(ids, e.ID())
		}
		since, err := wholeID(o.since, ids)
		if err != nil {
			return nil, err
		}
		i := slices.Index(ids, since)
		if i < 0 {
			return nil, notFound("list the ids with: teambridge read --protocol --json",
				"--since %s is not a duration, a time, or the id of a message that is there", o.since)
		}
		return func(j int, _ item) bool { return j > i }, nil
	}
	return func(_ int, e item) bool {
		at, ok := e.Time()
		return !ok || at.After(limit) // an invalid time may be any
	}, nil
}

func (a *app) printFeed(team string, feed []item) error {
	if a.json {
		messages := make([]api.Message, 0, len(feed))
		for _, e := range feed {
			m := view.Message(team, e.Entry)
			m.Gone = e.gone
			messages = append(messages, m)
		}
		return a.printJSON(messages)
	}
	for _, e := range feed {
		if err := a.print([]byte(a.entry(e.Entry, e.gone))); err != nil {
			return err
		}
	}
	return nil
}

// entry is a message for a person: a line about it, and its text indented.
func (a *app) entry(e inbox.Entry, gone bool) string {
	at := dash(e.Timestamp)
	if t, ok := e.Time(); ok {
		at = clock(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s → %s", a.paint(dim, escape(at, false)), a.paint(bold, dash(escape(e.From, false))), escape(e.Inbox, false))
	switch {
	case gone:
		b.WriteString("  " + a.paint(dim, "gone"))
	case !e.Read:
		b.WriteString("  " + a.paint(yellow, "unread"))
	}
	if e.Kind() != "message" {
		b.WriteString("  [" + escape(e.Kind(), false) + "]")
	}
	if e.Summary != "" {
		b.WriteString("  " + escape(e.Summary, false))
	}
	b.WriteString("  " + a.paint(dim, escape(shortID(e.ID()), false)) + "\n")
	a.indent(&b, readable(e))
	return b.String()
}

// readable is the text of a message, or the fields of a known structured text.
func readable(e inbox.Entry) string {
	var s struct{ Type, IdleReason, Summary, Result, FailureReason, Reason, Message string }
	if e.Kind() == "message" || json.Unmarshal([]byte(e.Text), &s) != nil {
		return e.Text
	}
	var parts []string
	switch s.Type {
	case "idle_notification":
		parts = []string{s.IdleReason, s.Summary, s.FailureReason, s.Result}
	case "shutdown_request", "shutdown_rejected":
		parts = []string{s.Reason}
	case "teammate_terminated":
		parts = []string{s.Message}
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "" })
	return cmp.Or(strings.Join(parts, "\n"), e.Text)
}

// markRead marks the messages that were shown as read.
func (a *app) markRead(ctx context.Context, t *teams.Team, shown []item) error {
	ids := map[string][]string{}
	for _, e := range shown {
		if !e.Read && !e.gone {
			ids[e.Inbox] = append(ids[e.Inbox], e.ID())
		}
	}
	for name, ids := range ids {
		if _, err := a.local().MarkRead(ctx, t.Name(), api.MarkRead{Inbox: name, IDs: ids}); err != nil {
			return err
		}
	}
	return nil
}
