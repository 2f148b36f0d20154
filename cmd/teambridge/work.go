package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
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

// instanceOf returns the team of a record.
func instanceOf(r api.Record) teams.Instance {
	return teams.Instance{Team: r.Team, CreatedAt: r.CreatedAt}
}

// printRecord prints a message or what an agent said or did. As JSON, a message has the fields
// that every row has.
func (c *console) printRecord(r api.Record) error {
	switch {
	case c.json && r.Work != nil:
		return c.printJSON(r)
	case c.json:
		return c.printJSON(r.Message)
	case r.Work != nil:
		return c.print([]byte(workEntry(c, r)))
	case r.Answer != nil:
		return c.print([]byte(c.answerEntry(r)))
	}
	m := r.Message
	m.Read, m.Gone = m.Read || m.Gone, false // in a history most are gone
	return c.print([]byte(c.entry(m)))
}

// workEntry is what an agent said or did, for a person.
func workEntry(c *console, r api.Record) string {
	who := c.paint(dim, clock(r.FirstSeen)) + "  " + c.paint(bold, escape(r.From, false))
	if r.Work.Subagent != "" {
		who += " (subagent)"
	}
	verb := map[string]string{api.KindText: "says", api.KindThinking: "thinks", api.KindService: "notes"}[r.Kind]
	if verb == "" {
		return fmt.Sprintf("%s  %s\n", who, escape(r.Text, false))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", who, verb)
	c.indent(&b, r.Text)
	return b.String()
}
