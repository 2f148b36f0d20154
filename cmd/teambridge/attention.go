package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/status/api"
	"teambridge/status/server"
	"teambridge/status/view"
	"teambridge/teams"
)

// waitGroups is what "inbox" shows, by kind of [api.Attention], in this order.
var waitGroups = []struct {
	title string
	kinds []string
}{
	{"Waiting for your answer", []string{api.WaitsPermission, api.WaitsPlan, api.WaitsQuestion}},
	{"Waiting for their lead", []string{api.WaitsLead}},
	{"Unread messages", []string{api.WaitsUnread}},
	{"Agents that failed or stopped", []string{api.WaitsFailed, api.WaitsStopped}},
	{"Messages that failed, or may not have been delivered", []string{api.WaitsLost, api.WaitsUnknown}},
	{"Messages held back", []string{api.WaitsHeld}},
	{"Teams", []string{api.WaitsEnded, api.WaitsIdle}},
}

// An errand is one thing that waits for the person; an unread one with its messages.
type errand struct {
	api.Attention
	Messages []api.Message `json:"messages,omitempty"`
}

// waits returns what waits for the person, in one team or all: what the service says, if
// one runs, else what the journal, the ledger and the files say. With record, the inboxes
// are recorded first.
func (a *app) waits(ctx context.Context, root *teams.Root, team string, record bool) (list []api.Attention, err error) {
	if c := a.service(root); c != nil {
		defer c.Close()
		asking, done := a.present(ctx, c)
		defer done()
		if list, err = c.Attention(asking, team); err == nil || ctx.Err() != nil {
			return list, err
		}
		if record {
			a.warn("%s; questions of agents are not known", view.Describe(err))
		}
	}
	if record {
		rec, err := a.startRecorder(ctx, root, team)
		if err != nil {
			return nil, err
		}
		if l := rec.sends(ctx); l != nil { // else it has warned
			list, err = server.Attention(ctx, root, a.state, l, rec.journal, team)
		}
		return list, errors.Join(err, rec.close())
	}
	j, err := a.journalIfAny(ctx)
	if err != nil || j == nil {
		return nil, err
	}
	l, err := a.ledgerIfAny(ctx)
	if err != nil || l == nil {
		return nil, err
	}
	return server.Attention(ctx, root, a.state, l, j, team)
}

// withMessages adds the unread messages to what waits because of them.
func withMessages(list []api.Attention, all []teamFeed) []errand {
	found := make([]errand, 0, len(list))
	for _, w := range list {
		found = append(found, errand{Attention: w})
	}
	for _, t := range all {
		for _, e := range t.feed {
			m := view.Message(t.team.Name(), e.Entry)
			i := slices.IndexFunc(found, func(w errand) bool {
				return w.Kind == api.WaitsUnread && w.Team == m.Team && w.Member == m.Inbox && w.From == m.From
			})
			if i < 0 { // confirmations, or it has just come
				i = len(found)
				found = append(found, errand{Attention: api.Attention{
					ID: strings.Join([]string{api.WaitsUnread, m.Team, m.Inbox, m.From}, "/"), Kind: api.WaitsUnread, Team: m.Team, Member: m.Inbox, From: m.From,
					Do: "teambridge inbox --mark-read",
				}})
			}
			w := &found[i]
			w.Messages = append(w.Messages, m)
			w.Count, w.Message, w.What = len(w.Messages), m.ID, plural(len(w.Messages), "unread message")
		}
	}
	return slices.DeleteFunc(found, func(w errand) bool { return w.Kind == api.WaitsUnread && w.Messages == nil })
}

// printWaits prints what waits for the person, by group; all has the unread messages.
func (a *app) printWaits(list []errand, all []teamFeed) error {
	between := ""
	for _, g := range waitGroups {
		var b strings.Builder
		for _, w := range list {
			if slices.Contains(g.kinds, w.Kind) && w.Kind != api.WaitsUnread {
				a.writeWait(&b, w.Attention)
			}
		}
		if slices.Contains(g.kinds, api.WaitsUnread) {
			for _, t := range all {
				if len(t.feed) > 0 {
					b.WriteString(a.paint(bold, "team "+escape(t.team.Name(), false)) + "\n")
				}
				for _, e := range t.feed {
					b.WriteString(a.entry(e.Entry, false))
				}
			}
		}
		if b.Len() == 0 {
			continue
		}
		if err := a.printf("%s%s\n%s", between, a.paint(yellow, g.title), b.String()); err != nil {
			return err
		}
		between = "\n"
	}
	return nil
}

// writeWait writes one thing that waits, and below it what to do.
func (a *app) writeWait(b *strings.Builder, w api.Attention) {
	who, what, do := "team "+w.Team, w.What, w.Do
	if w.Member != "" {
		who = w.Member + "@" + w.Team
	}
	if w.Question != nil && !w.Partial {
		what = questionText(*w.Question)
	}
	if short := shortID(w.ID); short != w.ID {
		do = strings.ReplaceAll(do, w.ID, short)
		b.WriteString(a.paint(dim, short) + "  ")
	}
	b.WriteString(a.paint(bold, escape(who, false)))
	if w.Since != nil {
		b.WriteString("  " + a.paint(dim, clock(*w.Since)))
	}
	if w.From != "" {
		what = "from " + w.From + ": " + what
	}
	fmt.Fprintf(b, "  %s\n    %s\n", escape(what, false), escape(do, false))
}

// waitsNote says how many things wait for the person.
func (a *app) waitsNote(ctx context.Context, team string) {
	root, err := a.root()
	if err != nil || a.json {
		return // the command has said it
	}
	list, err := a.waits(ctx, root, team, false)
	if err != nil {
		a.debug("what waits for you is not known: %s", view.Describe(err))
	}
	how := "teambridge inbox"
	if team != "" {
		how += " --team " + shellQuote(team)
	}
	switch len(list) {
	case 0:
	case 1:
		a.note("1 thing needs you: %s", how)
	default:
		a.note("%d things need you: %s", len(list), how)
	}
}
