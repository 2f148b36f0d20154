package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"teambridge/status/api"
	"teambridge/teams"
)

// The work of agents is their texts and tool calls between messages. It is printed with one line per tool call.

// workOptions holds the flags about work, of history, search and watch.
type workOptions struct {
	messagesOnly bool
	thinking     bool
}

func (o *workOptions) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.messagesOnly, "messages-only", false, "leave out the work of agents")
	cmd.Flags().BoolVar(&o.thinking, "thinking", false, "include the reasoning of agents")
}

// instanceOf returns the team of a record.
func instanceOf(r api.Record) teams.Instance {
	return teams.Instance{Team: r.Team, CreatedAt: r.CreatedAt}
}

// printRecord prints a message or a piece of work. As JSON, a message has the same fields as in "read".
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
	m.Read, m.Gone = m.Read || m.Gone, false // most messages in a history are gone
	return c.print([]byte(c.entry(m)))
}

// workEntry formats a piece of work for a person.
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
