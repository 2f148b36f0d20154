package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
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
		Short: "Show the messages in the inboxes of a team",
		Long: `Show the messages in the inboxes of a team, oldest first.

Without names, all inboxes are shown. Newer agents remove the messages they
take, so an inbox has only waiting messages; --history adds earlier ones that
were recorded. Confirmations, such as an agent's report that it is idle, are
left out and counted; --protocol shows them.

A pane has no inbox: for panes, read shows the messages that are not typed yet.

Of an id, the first 4 characters are enough if no other id begins with them.

Without --mark-read, nothing is changed. --mark-read is only for your own
inboxes: "user", and the name under which you joined the team.

Exit status: 0, even if there is nothing; 3 no such team, inbox or message; 5
--mark-read on an inbox that is not yours; 6 an inbox is corrupt (the others
are shown).`,
		Example: `  teambridge read operator --unread --mark-read
  teambridge read --since 1h --history`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completer{a}.completeMembers(-1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.read(cmd.Context(), args, o) },
	}
	f := cmd.Flags()
	fromFlag(cmd, a, &o.from)
	messagesSinceFlag(cmd, &o.since)
	f.BoolVar(&o.unread, "unread", false, "only unread messages")
	limitFlag(cmd, &o.limit, 0)
	protocolFlag(cmd, &o.protocol)
	f.BoolVar(&o.history, "history", false, "include recorded messages that have left their inboxes")
	markReadFlag(cmd, &o.markRead)
	return cmd
}

func (a *app) read(ctx context.Context, names []string, o readOptions) error {
	if o.limit < 0 {
		return usage("", "--limit %d is negative", o.limit)
	}
	to, err := a.targetToRead(ctx, names...)
	if err != nil {
		return err
	}
	q := api.Reading{Inboxes: to.Members, Own: o.markRead, From: o.from, Unread: o.unread, Protocol: o.protocol, History: o.history, Limit: o.limit}
	if o.since != "" {
		var ok bool
		if q.Since, ok = parseSince(o.since); !ok {
			q.After = o.since
		}
	}
	found, err := a.bridge(ctx).Read(ctx, to.Team, q)
	if q.After != "" && errors.Is(err, api.CodeNotFound) && found.Messages == nil {
		err = &api.Decided{Code: api.CodeNotFound, Hint: view.Explain(err).Hint, Err: fmt.Errorf("--since %s is not a duration, a time, or the id of a message that is there", o.since)}
	}
	for _, note := range found.Notes {
		a.warn("%s", note)
	}
	faults := problems(found.Problems)
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	a.learnNames(ctx, to.Team)
	if err := a.printRows(found.Messages); err != nil {
		return err
	}
	a.hiddenNote(found.Hidden)
	switch {
	case len(found.Messages) > 0:
	case to.Queued:
		a.note("no messages wait for %s", cmp.Or(strings.Join(to.Members, ", "), to.Team))
	case len(faults) == 0 && found.Hidden == 0:
		a.note("no messages to show")
	}
	if o.markRead {
		faults = append(faults, a.markRead(ctx, found.Messages))
	}
	return errors.Join(faults...)
}

// problems returns the errors of the inboxes that could not be read.
func problems(all []api.Error) (list []error) {
	for _, p := range all {
		list = append(list, api.Decide(p.Code, p.Hint, "%s", p.Message))
	}
	return list
}

// hiddenNote notes how many confirmations were left out.
func (c *console) hiddenNote(n int) {
	if n == 1 {
		c.note("1 confirmation is hidden; --protocol shows it")
	} else if n > 1 {
		c.note("%d confirmations are hidden; --protocol shows them", n)
	}
}

func (c *console) printRows(list []api.Message) error {
	if c.json {
		return c.printJSON(list)
	}
	for _, m := range list {
		if err := c.print([]byte(c.entry(m))); err != nil {
			return err
		}
	}
	return nil
}

// learnNames has the names of the person in teams printed as "you".
func (a *access) learnNames(ctx context.Context, teams ...string) {
	if _, err := os.Stat(a.state); err != nil && a.there == nil {
		return // nobody has joined a team, and nothing is to be written for a look
	}
	for _, team := range teams {
		if _, known := a.yours[team]; known || a.json {
			continue
		}
		if a.yours == nil {
			a.yours = ownNames{}
		}
		t, err := a.bridge(ctx).Team(ctx, team)
		if err != nil { // it has ended
			page, _ := a.bridge(ctx).Messages(ctx, team, api.MessageQuery{Limit: 1})
			t.Ours = page.Ours
		}
		a.yours[team] = t.Ours
	}
}

// ownNames has the names of the person, by team.
type ownNames map[string][]string

// you returns "you" for a name of the person in a team, and any other name as it is.
func (o ownNames) you(team, name string) string {
	if name == mail.User || slices.Contains(o[team], name) {
		return "you"
	}
	return name
}

// entry formats a message for a person: a heading, and its text indented.
func (c *console) entry(m api.Message) string {
	at := dash(m.Timestamp)
	if t, ok := (&inbox.Row{Timestamp: m.Timestamp}).Time(); ok {
		at = clock(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s → %s", c.paint(dim, escape(at, false)), c.paint(bold, dash(escape(c.yours.you(m.Team, m.From), false))), escape(c.yours.you(m.Team, m.Inbox), false))
	switch {
	case m.Gone:
		b.WriteString("  " + c.paint(dim, "gone"))
	case !m.Read:
		b.WriteString("  " + c.paint(yellow, "unread"))
	}
	if m.Kind != "message" {
		b.WriteString("  [" + escape(m.Kind, false) + "]")
	}
	if m.Summary != "" {
		b.WriteString("  " + escape(m.Summary, false))
	}
	b.WriteString("  " + c.paint(dim, escape(shortID(m.ID), false)) + "\n")
	c.indent(&b, readable(m))
	return b.String()
}

// readable returns the text of a message, or the fields of a known structured message.
func readable(m api.Message) string {
	var s struct{ Type, IdleReason, Summary, Result, FailureReason, Reason, Message string }
	if m.Kind == "message" || json.Unmarshal([]byte(m.Text), &s) != nil {
		return m.Text
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
	return cmp.Or(strings.Join(parts, "\n"), m.Text)
}

// markRead marks the messages that were shown as read.
func (a *app) markRead(ctx context.Context, shown []api.Message) error {
	type box struct{ team, inbox string }
	ids := map[box][]string{}
	for _, m := range shown {
		if !m.Read && !m.Gone {
			ids[box{m.Team, m.Inbox}] = append(ids[box{m.Team, m.Inbox}], m.ID)
		}
	}
	var faults []error
	for b, ids := range ids {
		_, err := a.bridge(ctx).MarkRead(ctx, b.team, api.MarkRead{Inbox: b.inbox, IDs: ids})
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
