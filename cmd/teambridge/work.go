package main

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// What agents say and do while they work stands between the messages: a line for a tool call.

// workOptions are the flags about it of history, search and watch.
type workOptions struct {
	messagesOnly bool
	thinking     bool
}

func (o *workOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.messagesOnly, "messages-only", false, "leave out what agents said and did while they worked")
	cmd.Flags().BoolVar(&o.thinking, "thinking", false, "include the reasoning of agents")
}

// recorded is a message or, with work, what an agent said or did. That has of the message what
// every record has.
type recorded struct {
	journal.Message
	work *api.Record
}

// work returns a record of work as one of both.
func work(r api.Record) recorded {
	m := journal.Message{Seq: r.Seq, Team: teams.Instance{Team: r.Team, CreatedAt: r.CreatedAt}, Inbox: r.Inbox, FirstSeen: r.FirstSeen}
	m.From = r.From
	return recorded{Message: m, work: &r}
}

// records yields messages, and the work of agents that q selects, in the order of q. l may be nil.
func (o workOptions) records(ctx context.Context, j *journal.Journal, l *ledger.Ledger, q journal.Query, messages iter.Seq2[journal.Message, error], words string) iter.Seq2[recorded, error] {
	found := []iter.Seq2[recorded, error]{journal.Map(messages, func(m journal.Message) (*recorded, error) { return &recorded{Message: m}, nil })}
	switch {
	case o.messagesOnly:
	case words != "":
		found = append(found, journal.Map(view.WorkHits(ctx, j, l, words, q, o.thinking), func(h api.Hit) (*recorded, error) { return new(work(h.Record)), nil }))
	default:
		found = append(found, journal.Map(view.Works(ctx, j, l, q, o.thinking), func(r api.Record) (*recorded, error) { return new(work(r)), nil }))
	}
	return journal.Merge(q.Newest, func(r recorded) int64 { return r.Seq }, found...)
}

// printRecord prints a message or what an agent said or did.
func (a *app) printRecord(r recorded) error {
	switch {
	case r.work == nil:
		return a.printRecorded(r.Message)
	case a.json:
		return a.printJSON(r.work)
	}
	return a.print([]byte(a.workEntry(*r.work)))
}

// workEntry is what an agent said or did, for a person.
func (a *app) workEntry(r api.Record) string {
	who := a.paint(dim, clock(r.FirstSeen)) + "  " + a.paint(bold, escape(r.From, false))
	if r.Work.Subagent != "" {
		who += " (subagent)"
	}
	verb := map[string]string{api.KindText: "says", api.KindThinking: "thinks", api.KindService: "notes"}[r.Kind]
	if verb == "" {
		return fmt.Sprintf("%s  %s\n", who, escape(r.Text, false))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", who, verb)
	a.indent(&b, r.Text)
	return b.String()
}
