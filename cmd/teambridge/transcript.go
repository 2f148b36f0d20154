package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"teambridge/inbox/ledger"
	"teambridge/relay"
	"teambridge/relay/claude/session"
	"teambridge/relay/fleet"
	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// transcriptTick is how often a transcript is looked at that is followed.
const transcriptTick = 250 * time.Millisecond

func newTranscript(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "transcript SESSION|MEMBER[@TEAM]",
		Short: "Show what an agent was told, said and did",
		Long: `Show a session of Claude Code from its transcript, or one of OpenCode from its
history, oldest first.

SESSION is the id of a session; OpenCode's begin with ses_. MEMBER is a lead, a
teammate, or a headless agent with a relay. What the agent was told and said is
shown as text, and each tool call as one line: what was done, or that it was
denied, failed or was cut off. --json prints an envelope of the session protocol
for each thing that happened, one JSON object per line. --follow goes on with
what is added, and with the next session of a member, until it is interrupted;
what became of a call that was not done is another line. A server of OpenCode is
started to read a session.

Transcripts are only read. They hold everything that the agent has read, which
can be secret.

Exit status: 0; 3 no such session or member, or it has no transcript; 130
interrupted.`,
		Example: `  teambridge transcript worker --follow
  teambridge transcript 3f3c58ee-33ff-467b-95ea-b5bde5dd1ce1 --json
  teambridge transcript ses_3f3c58ee33ff467b95eab5bde5dd1ce1`,
		Args:              between(1, 1),
		ValidArgsFunction: a.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.transcript(cmd.Context(), args[0], follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "keep running, and print what is added")
	return cmd
}

func (a *app) transcript(ctx context.Context, name string, follow bool) error {
	show := a.conversationPrinter()
	show.whole = !follow
	if open, err := a.openCodeSession(ctx, name); err != nil {
		return err
	} else if open != nil {
		return open.print(ctx, show, follow)
	}
	path, err := a.transcriptPath(ctx, name)
	if err != nil {
		return err
	}
	if !follow {
		ended, err := a.sessionEnded(ctx, name, path)
		if err != nil {
			return err
		}
		return show.all(session.Read(ctx, path, session.Options{Gone: ended}))
	}
	ctx, stop := a.whileRead(ctx)
	defer stop()
	show.shown = map[string]bool{}
	for {
		next, err := a.followTranscript(ctx, name, path, show)
		if next == "" {
			return err
		}
		path = next
	}
}

// sessionEnded reports whether no process has the session of a transcript any more.
func (a *app) sessionEnded(ctx context.Context, name, path string) (bool, error) {
	root, err := a.root()
	if err != nil {
		return false, err
	}
	s, _, err := a.sessionOf(ctx, name)
	return view.Ended(root.Path(), transcript.SessionOf(path), s), err
}

// openCodeSession is a session of OpenCode, and what reads it.
type openCodeSession struct {
	id      string
	runtime relay.Runtime
}

// openCodeSession finds the session of OpenCode that a name stands for; nil if it stands for
// something else.
func (a *app) openCodeSession(ctx context.Context, name string) (*openCodeSession, error) {
	dir, err := a.cwd()
	if err != nil {
		return nil, err
	}
	settings := ledger.Relay{Runtime: fleet.OpenCode, Dir: dir}
	id := name
	if !strings.HasPrefix(name, "ses_") {
		s, found, err := a.sessionOf(ctx, name)
		if err != nil || !found {
			return nil, err
		}
		if id, found, err = a.openCodeSettings(ctx, s, &settings); err != nil || !found {
			return nil, err
		}
	}
	runtime, err := a.runtime(ctx, fleet.Launch{Settings: settings, State: a.state})
	if err != nil {
		return nil, err
	}
	return &openCodeSession{id, runtime}, nil
}

// sessionOf finds the session that a relay runs, by its id or by the member.
func (a *app) sessionOf(ctx context.Context, name string) (s ledger.Session, found bool, err error) {
	l, err := a.local().Ledger(ctx)
	if err != nil || l == nil {
		return ledger.Session{}, false, err
	}
	if _, err := uuid.Parse(name); err == nil {
		root, err := a.root()
		if err != nil {
			return ledger.Session{}, false, err
		}
		all, err := l.Sessions(ctx, root.Path())
		i := slices.IndexFunc(all, func(s ledger.Session) bool { return s.ID == name })
		if i < 0 {
			return ledger.Session{}, false, err
		}
		return all[i], true, err
	}
	member, team := teams.Split(name)
	t, err := a.team(ctx, team)
	if err != nil {
		return ledger.Session{}, false, err
	}
	key, err := fleet.Key(ctx, t, member)
	if err != nil {
		return ledger.Session{}, false, err
	}
	return l.Session(ctx, key)
}

// openCodeSettings finds how the agent of a session was started, if it is one of OpenCode.
func (a *app) openCodeSettings(ctx context.Context, s ledger.Session, settings *ledger.Relay) (id string, found bool, err error) {
	l, err := a.local().Ledger(ctx)
	if err != nil {
		return "", false, err
	}
	all, err := l.Relays(ctx, s.Root)
	if err != nil {
		return "", false, err
	}
	if i := slices.IndexFunc(all, func(r ledger.Relay) bool { return r.Team == s.Team && r.Member == s.Inbox }); i >= 0 {
		*settings = all[i]
		return s.ID, settings.Runtime == fleet.OpenCode, nil
	}
	// A relay of run has no settings in the ledger.
	if strings.HasPrefix(s.Command, "http://") || strings.HasPrefix(s.Command, "https://") {
		settings.URL = s.Command
		return s.ID, true, nil
	}
	settings.Command = strings.Fields(s.Command)
	return s.ID, len(settings.Command) > 0 && strings.HasPrefix(filepath.Base(settings.Command[0]), fleet.OpenCode), nil
}

// print prints the session.
func (o *openCodeSession) print(ctx context.Context, show *conversationPrinter, follow bool) (err error) {
	if c, ok := o.runtime.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	var since time.Time
	said := func(yield func(wire.Envelope, error) bool) {
		for e, err := range o.runtime.Conversation(ctx, o.id, since, !follow) {
			if err == nil {
				since = time.UnixMilli(int64(e.Time))
			}
			if !yield(e, err) {
				return
			}
		}
	}
	if !follow {
		if err := show.all(said); err != nil || !since.IsZero() {
			return err
		}
		return notFound("OpenCode keeps the sessions of a user in one place: look for it as that user", "OpenCode has no session %s, or nothing was said in it", o.id)
	}
	ctx, stop := show.whileRead(ctx)
	defer stop()
	show.shown = map[string]bool{}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if err := show.all(said); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// followTranscript prints what is added to a transcript, until ctx ends or the agent has gone on to
// the next one: /clear begins another session, and a teammate of an older version another transcript,
// with a copy of the conversation, whenever it wakes up.
func (a *app) followTranscript(ctx context.Context, name, path string, show *conversationPrinter) (next string, err error) {
	reading, cancel := context.WithCancel(ctx)
	again, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		next = a.tellGrowth(reading, name, path, again)
	}()
	err = show.all(session.Follow(reading, path, time.Time{}, again))
	cancel()
	<-done
	if ctx.Err() != nil {
		next = ""
	}
	return next, err
}

// tellGrowth sends a value whenever the file has grown, until ctx ends or the agent has another
// transcript, which it returns.
func (a *app) tellGrowth(ctx context.Context, name, path string, again chan<- struct{}) (next string) {
	ticker := time.NewTicker(transcriptTick)
	defer ticker.Stop()
	size := int64(-1)
	for n := 1; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ""
		}
		if info, err := os.Stat(path); err == nil && info.Size() != size {
			size = info.Size()
			select {
			case again <- struct{}{}:
			case <-ctx.Done():
				return ""
			}
			continue
		}
		// Without a team any more, there is no next one.
		if n%4 == 0 {
			if now, err := a.transcriptPath(ctx, name); err == nil && now != path {
				return now
			}
		}
	}
}

// transcriptPath finds the transcript of a session, or of a member.
func (a *app) transcriptPath(ctx context.Context, name string) (string, error) {
	root, err := a.root()
	if err != nil {
		return "", err
	}
	if _, err := uuid.Parse(name); err == nil {
		if path, ok := transcript.Session(root.Path(), "", name); ok {
			return path, nil
		}
		return "", notFound("", "%s has no transcript of a session %s", root.Path(), name)
	}
	member, team := teams.Split(name)
	t, err := a.team(ctx, team)
	if err != nil {
		return "", err
	}
	key, err := fleet.Key(ctx, t, member)
	if err != nil {
		return "", err
	}
	if l, err := a.local().Ledger(ctx); err != nil {
		return "", err
	} else if l != nil {
		s, found, err := l.Session(ctx, key)
		if err != nil {
			return "", err
		}
		if path, ok := transcript.Session(root.Path(), "", s.ID); found && ok {
			return path, nil
		}
	}
	c, err := t.Config(ctx)
	if err != nil {
		return "", err
	}
	if paths := t.Agent(c, key.Inbox).Transcripts(); len(paths) > 0 {
		return paths[0], nil
	}
	return "", notFound("an agent writes its transcript with its first turn", "%s of team %s has no transcript", key.Inbox, t.Name())
}

// conversationPrinter prints envelopes for a person, or as JSON.
type conversationPrinter struct {
	*app
	agents map[string]string // titles of subagents
	shown  map[string]bool   // ids, if what was shown can come again; else nil

	// whole says that the conversation is printed to its end at once, so that the line of a tool
	// call can wait for what became of it. Else an end that is not as expected has a line of its own.
	whole bool
	held  []heldEnvelope    // what waits, oldest first: begins with an open tool call
	calls map[string]string // titles of the open tool calls, by id, if not whole
}

// heldEnvelope is one that waits to be printed.
type heldEnvelope struct {
	wire.Envelope
	became wire.Outcome // of a tool call
}

func (a *app) conversationPrinter() *conversationPrinter {
	return &conversationPrinter{app: a, agents: map[string]string{}, calls: map[string]string{}}
}

func (p *conversationPrinter) all(envelopes iter.Seq2[wire.Envelope, error]) error {
	for e, err := range envelopes {
		if err != nil {
			return errors.Join(p.release(true), fmt.Errorf("read the transcript: %w", err))
		}
		if p.shown[e.ID] {
			continue
		}
		if p.shown != nil {
			p.shown[e.ID] = true
		}
		if err = p.one(e); err != nil {
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

// release prints what waits up to the first tool call that is open, or all of it.
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

// line prints who says or does something, what that is, and a text.
func (p *conversationPrinter) line(e wire.Envelope, line, text string) error {
	who := string(e.Role)
	if e.Subagent != nil {
		who = p.agents[*e.Subagent]
	}
	var b strings.Builder
	b.WriteString(p.paint(dim, clock(time.UnixMilli(int64(e.Time)))) + "  " + p.paint(bold, escape(who, false)))
	if line != "" {
		b.WriteString("  " + escape(line, false))
	}
	b.WriteString("\n")
	p.indent(&b, text)
	return p.print([]byte(b.String()))
}
