package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/status/api"
	"teambridge/teams/transcript"
)

func newTranscript(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "transcript SESSION|MEMBER[@TEAM]",
		Short: "Show an agent's conversation",
		Long: `Show a session of Claude Code from its transcript, or one of OpenCode from its
history, oldest first.

SESSION is the id of a session; OpenCode's begin with ses_. MEMBER is a lead, a
teammate, or a headless agent with a relay. Messages to the agent and its texts
are shown as text, and each tool call as one line: the action, or that it was
denied, failed or was cut off. What you have typed or sent is from "you", other
messages are from their senders. --json prints an envelope of the session
protocol for each event, one JSON object per line. --follow continues with
additions, and with the next session of a member, until it is interrupted; the
outcome of a call that was not done is another line. To read a session of
OpenCode, a server of OpenCode is started.

Transcripts are only read. They hold everything that the agent has read, and can
contain secrets.

Exit status: 0; 3 no such session or member, or it has no transcript; 130
interrupted.`,
		Example: `  teambridge transcript worker --follow
  teambridge transcript 3f3c58ee-33ff-467b-95ea-b5bde5dd1ce1 --json
  teambridge transcript ses_3f3c58ee33ff467b95eab5bde5dd1ce1`,
		Args:              between(1, 1),
		ValidArgsFunction: completer{a}.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.transcript(cmd.Context(), args[0], follow)
		},
	}
	followFlag(cmd, &follow)
	return cmd
}

// conversation resolves the name of a member, or the id of a session, for which team is empty.
func (a *access) conversation(ctx context.Context, name string) (team, member string, err error) {
	if _, err := uuid.Parse(name); err == nil || strings.HasPrefix(name, "ses_") {
		return "", name, nil
	}
	to, err := a.target(ctx, name)
	return to.Team, to.Member(), err
}

func (a *app) transcript(ctx context.Context, name string, follow bool) (err error) {
	team, member, err := a.conversation(ctx, name)
	if err != nil {
		return err
	}
	q := api.TranscriptQuery{Follow: follow}
	if q.Dir, err = a.personDir(); err != nil {
		return err
	}
	if follow {
		var stop func()
		ctx, stop = a.whileRead(ctx)
		defer stop()
	}
	show := a.conversationPrinter()
	show.whole, show.team = !follow, team
	if team != "" {
		show.agent = member
		if strings.EqualFold(member, "lead") {
			t, _ := a.bridge(ctx).Team(ctx, team) // of one that has ended, the name is not known
			show.agent = cmp.Or(t.Lead, member)
		}
		a.learnNames(ctx, team)
	}
	for line, failed := range a.bridge(ctx).Transcript(ctx, team, member, q) {
		if err = failed; err == nil {
			err = show.raw(line)
		}
		if err != nil {
			break
		}
	}
	return errors.Join(show.end(), err)
}

// conversationPrinter prints envelopes for a person, or as JSON.
type conversationPrinter struct {
	*console
	team, agent string            // the agent whose conversation it is; the team may be empty
	agents      map[string]string // titles of subagents

	// whole means that the conversation is printed from beginning to end, so that the line of a tool call can wait
	// for its outcome. Otherwise an outcome other than done gets a line of its own.
	whole bool
	read  []wire.Envelope   // a whole conversation, until its end
	held  []heldEnvelope    // an open tool call and the envelopes after it
	calls map[string]string // titles of the open tool calls, by id
}

// heldEnvelope is an envelope that waits to be printed.
type heldEnvelope struct {
	wire.Envelope
	became wire.Outcome // of a tool call; Running while it is open
}

func (c *console) conversationPrinter() *conversationPrinter {
	return &conversationPrinter{console: c, agent: "agent", agents: map[string]string{}, calls: map[string]string{}}
}

// raw prints an envelope in JSON.
func (p *conversationPrinter) raw(line json.RawMessage) error {
	if p.json {
		return p.printJSON(line)
	}
	var e wire.Envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("read the transcript: %w", err)
	}
	if p.whole {
		p.read = append(p.read, e)
		return nil
	}
	return p.one(e)
}

// end prints what was not printed yet. It sorts a whole conversation by time, since Claude Code can write an answer
// before its prompt.
func (p *conversationPrinter) end() error {
	for i := range p.read {
		if p.read[i].Time == 0 && i > 0 { // not known
			p.read[i].Time = p.read[i-1].Time
		}
	}
	slices.SortStableFunc(p.read, func(a, b wire.Envelope) int { return cmp.Compare(a.Time, b.Time) })
	for _, e := range p.read {
		if err := p.one(e); err != nil {
			return err
		}
	}
	return p.release(true)
}

func (p *conversationPrinter) one(e wire.Envelope) error {
	if p.json {
		return p.printJSON(e)
	}
	switch ev := e.Event.(type) {
	case *wire.ToolCallStart:
		p.calls[ev.Call] = ev.Title
	case *wire.ToolCallEnd:
		title, open := p.calls[ev.Call]
		delete(p.calls, ev.Call)
		i := slices.IndexFunc(p.held, func(h heldEnvelope) bool {
			start, ok := h.Event.(*wire.ToolCallStart)
			return ok && start.Call == ev.Call && h.became == toolcall.Running
		})
		switch {
		case i >= 0:
			p.held[i].became = ev.Outcome
			return p.release(false)
		case open && ev.Outcome != wire.OutcomeDone:
			return p.line(e, toolcall.Say(title, ev.Outcome), "")
		}
		return nil
	case *wire.Start:
		p.agents[*e.Subagent] = "subagent"
		if ev.Title != nil {
			p.agents[*e.Subagent] = "subagent: " + *ev.Title
		}
		return nil
	}
	p.held = append(p.held, heldEnvelope{e, toolcall.Running})
	return p.release(!p.whole)
}

// release prints the held envelopes up to the first open tool call, or all of them.
func (p *conversationPrinter) release(all bool) error {
	for len(p.held) > 0 {
		h := p.held[0]
		_, isCall := h.Event.(*wire.ToolCallStart)
		if isCall && h.became == toolcall.Running && !all {
			return nil
		}
		p.held = p.held[1:]
		if err := p.show(h); err != nil {
			return err
		}
	}
	return nil
}

// show prints one envelope.
func (p *conversationPrinter) show(h heldEnvelope) error {
	switch ev := h.Event.(type) {
	case *wire.Text:
		if ev.Thinking != nil && *ev.Thinking {
			return p.line(h.Envelope, "thinks", ev.Text)
		}
		if h.Role == wire.RoleUser && h.Subagent == nil {
			for _, m := range p.told(ev.Text) {
				kind := ""
				if m.Kind != "message" {
					kind = "[" + m.Kind + "]"
				}
				if err := p.heading(h.Envelope, m.From, kind, readable(m)); err != nil {
					return err
				}
			}
			return nil
		}
		return p.line(h.Envelope, "", ev.Text)
	case *wire.Service:
		return p.line(h.Envelope, "note", ev.Text)
	case *wire.ToolCallStart:
		return p.line(h.Envelope, toolcall.Say(ev.Title, h.became), "")
	case *wire.TurnEnd:
		if ev.Status != wire.TurnCompleted {
			return p.line(h.Envelope, "turn "+string(ev.Status), "")
		}
	}
	return nil
}

// told returns the messages in a text to the agent, each with its sender: "you" if the person has typed it or sent it.
func (p *conversationPrinter) told(text string) (list []api.Message) {
	add := func(from, text string) {
		if from = p.yours.you(p.team, from); from == api.Guest {
			from = "you"
		}
		list = append(list, api.Message{From: from, Kind: cmp.Or(inbox.ProtocolType(text), "message"), Text: text})
	}
	if head, body, ok := strings.Cut(text, ":\n"); ok && strings.HasPrefix(head, "message from ") && !strings.Contains(head, "\n") {
		add(strings.TrimPrefix(head, "message from "), body) // as package session words it
		return list
	}
	messages, others := transcript.Messages(text)
	for _, m := range messages {
		add(m.From, m.Text)
	}
	switch {
	case len(list) > 0:
	case others:
		add("others", text)
	default:
		add(mail.User, text)
	}
	return list
}

// line prints a heading with time, author and description, and a text below it.
func (p *conversationPrinter) line(e wire.Envelope, line, text string) error {
	who := p.agent
	switch {
	case e.Subagent != nil:
		who = p.agents[*e.Subagent]
	case e.Role == wire.RoleUser:
		who = "you"
	}
	return p.heading(e, who, line, text)
}

// heading is line with an author.
func (p *conversationPrinter) heading(e wire.Envelope, who, line, text string) error {
	var b strings.Builder
	b.WriteString(p.paint(dim, clock(time.UnixMilli(int64(e.Time)))) + "  " + p.paint(bold, escape(who, false)))
	if line != "" {
		b.WriteString("  " + escape(line, false))
	}
	b.WriteString("\n")
	p.indent(&b, text)
	return p.print([]byte(b.String()))
}
