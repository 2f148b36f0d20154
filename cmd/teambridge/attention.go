package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/relay/shell"
	"teambridge/status/alert"
	"teambridge/status/api"
	"teambridge/status/view"
)

// waits returns the items that need the person, in one team or in all. With an error, the list is incomplete.
func (a *access) waits(ctx context.Context, team string) (list []api.Attention, err error) {
	b := a.bridge(ctx)
	list, err = b.Attention(ctx, team)
	return list, errors.Join(err, b.serviceError())
}

// dismiss hides the items in list that need no action, until they change.
func (a *access) dismiss(ctx context.Context, list []api.Attention) error {
	list = slices.DeleteFunc(slices.Clone(list), func(w api.Attention) bool { return !w.Dismissable })
	if len(list) == 0 {
		return nil
	}
	var faults []error
	for _, w := range list {
		if _, err := a.bridge(ctx).Dismiss(ctx, w.ID); !errors.Is(err, api.CodeNotFound) { // not found: it has changed since
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	a.note("dismissed %s", plural(len(list), "thing"))
	return nil
}

// watchWaits prints each new item that needs the person, runs p for it, and sends alerts about it.
func (a *app) watchWaits(ctx context.Context, p *program, o alertOptions) (err error) {
	if a.there != nil && len(o.specs) > 0 {
		return usage("there, type: teambridge serve --alert, or teambridge watch --needs-you --alert", "--alert cannot be used with --host")
	}
	team, err := a.namedTeam("")
	if err == nil && team != "" {
		_, err = a.target(ctx)
	}
	if err != nil {
		return err
	}
	update, finish, err := a.startAlerts(ctx, o, team)
	if err != nil {
		return err
	}
	defer func() {
		if failed := finish(); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	w := waitWatch{app: a, program: p}
	events := a.events(ctx, team)
	a.warnServiceError(ctx, team)
	for e, err := range events {
		if err != nil {
			return err
		}
		if e.Snapshot == nil {
			continue
		}
		if err := w.show(e.Snapshot.Attention); err != nil {
			return err
		}
		update(e.Snapshot.Attention)
		if team != "" && len(e.Snapshot.Teams) == 0 {
			a.endedNote(team)
			return nil
		}
	}
	return nil
}

// waitWatch compares successive lists of items that need the person, prints new items, and runs a program for each.
type waitWatch struct {
	*app
	program *program
	shown   map[string]alert.Told // the last list, by id; nil before the first
}

// show prints the new items in list.
func (w *waitWatch) show(list []api.Attention) error {
	now := map[string]alert.Told{}
	for _, i := range list {
		now[i.ID] = alert.Told{Message: i.Message, Count: i.Count}
		if _, news := alert.News(i, w.shown); w.shown == nil || !news {
			continue
		}
		if err := w.showWait(i, w.program); err != nil {
			return err
		}
	}
	if w.shown == nil {
		w.debug("%s before", plural(len(list), "thing")) // the first list is not news
	}
	w.shown = now
	return nil
}

// showWait prints one item that needs the person, and runs p for it.
func (a *app) showWait(w api.Attention, p *program) error {
	line, err := jsonLine(w)
	if err != nil {
		return err
	}
	who, what := waitText(w)
	p.enqueue(trigger{kind: "attention", title: who, text: what, json: line})
	if a.json {
		return a.print(line)
	}
	var b strings.Builder
	a.writeWait(&b, w)
	return a.print([]byte(b.String()))
}

// printWaits prints the items that need the person, grouped by title.
func (c *console) printWaits(in api.Inbox) error {
	title, between := "", ""
	for _, kind := range api.Waits {
		if kind.Title == title {
			continue
		}
		title = kind.Title
		var b strings.Builder
		for _, w := range in.Items {
			if w.Title == title && w.Kind != api.WaitsUnread {
				c.writeWait(&b, w)
			}
		}
		if kind.Kind == api.WaitsUnread {
			team := ""
			for _, m := range in.Messages() {
				if m.Team != team {
					team = m.Team
					b.WriteString(c.paint(bold, "team "+escape(team, false)) + "\n")
				}
				b.WriteString(c.entry(m))
			}
		}
		if b.Len() == 0 {
			continue
		}
		if err := c.printf("%s%s\n%s", between, c.paint(yellow, title), b.String()); err != nil {
			return err
		}
		between = "\n"
	}
	return nil
}

// waitText returns the agent or team that w is about, and a description.
func waitText(w api.Attention) (who, what string) {
	who, what = "team "+w.Team, w.What
	if w.Member != "" {
		who = w.Member + "@" + w.Team
	}
	if w.Question != nil && !w.Partial {
		what = questionText(*w.Question)
	}
	switch {
	case w.Kind == api.WaitsUnread:
		return w.From + "@" + w.Team, what + " to you"
	case w.From != "" && w.Kind != api.WaitsLoop: // a loop names both agents itself
		what = "from " + w.From + ": " + what
	}
	return who, what
}

// writeWait writes one item that needs the person, and below it the advice.
func (c *console) writeWait(b *strings.Builder, w api.Attention) {
	who, what := waitText(w)
	do := w.AtShell()
	if short := shortID(w.ID); short != w.ID {
		do = strings.ReplaceAll(do, w.ID, short)
		b.WriteString(c.paint(dim, short) + "  ")
	}
	b.WriteString(c.paint(bold, escape(who, false)))
	if w.Since != nil {
		b.WriteString("  " + c.paint(dim, clock(*w.Since)))
	}
	fmt.Fprintf(b, "  %s\n    %s\n", escape(what, false), escape(do, false))
}

// waitsNote notes the number of items that need the person, in one team or in all.
func (a *access) waitsNote(ctx context.Context, team string) {
	if a.json {
		return // the output of the command has them already
	}
	if all, err := a.bridge(ctx).Teams(ctx); err == nil && len(all) == 1 {
		team = ""
	}
	list, err := a.waits(ctx, team)
	if err != nil {
		a.warn("some items that wait for you are unknown: %s", view.Describe(err))
	}
	how := "teambridge inbox"
	if team != "" {
		how += " --team " + shell.Quote(team)
	}
	switch len(list) {
	case 0:
	case 1:
		a.note("1 thing needs you: %s", how)
	default:
		a.note("%d things need you: %s", len(list), how)
	}
}
