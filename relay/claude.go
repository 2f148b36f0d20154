package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/claude"
	"teambridge/relay/mode"
	"teambridge/relay/wire"
)

// Claude returns the runtime of Claude Code, and of programs that speak the same lines.
// root is the Claude directory, which holds the transcripts. Resume and Mode are set by
// the relay.
func Claude(root string, options claude.Options) Runtime { return claudeRuntime{options, root} }

type claudeRuntime struct {
	claude.Options
	root string
}

func (r claudeRuntime) Command() string   { return strings.Join(r.Options.Command, " ") }
func (r claudeRuntime) Session() string   { return r.Options.Session }
func (r claudeRuntime) MayPoll() bool     { return r.Plain }
func (claudeRuntime) SendsMessages() bool { return true }

func (r claudeRuntime) Encode(uuid, text string) ([]byte, error) {
	f, err := claude.NewFrame(claude.Message{UUID: uuid, Text: text})
	if err != nil {
		return nil, err
	}
	return f.Bytes(), r.Fits(f)
}

func (r claudeRuntime) Frame(line []byte) (agent.Frame, error) {
	f, err := claude.ParseFrame(line)
	return agent.Frame{Line: line, Command: f.IsSlash(), Silent: f.IsSilent() && !f.IsSlash()}, err
}

func (r claudeRuntime) transcript(session string) claude.Transcript {
	return claude.Transcript{Root: r.root, Dir: r.Dir, Session: session}
}

func (r claudeRuntime) Start(ctx context.Context, session string, mode mode.Mode) (Agent, error) {
	o := r.Options
	o.Root, o.Session, o.Mode = r.root, session, mode
	var err error
	if o.Resume, err = r.transcript(session).Resumable(); err != nil {
		return nil, err
	}
	p, err := claude.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return claudeAgent{p, o.Begins()}, nil
}

func (claudeRuntime) Predecessor(p agent.Process) Predecessor { return claude.Predecessor(p) }

// Turn cannot tell anything of a program whose transcript may be elsewhere.
func (r claudeRuntime) Turn(ctx context.Context, session, uuid string) (agent.Turn, error) {
	t := r.transcript(session)
	turn, err := t.Turn(ctx, uuid)
	if err == nil && !turn.Stored && r.Plain {
		var found bool
		found, err = t.Exists()
		turn.Unknown = !found
	}
	return turn, err
}

func (r claudeRuntime) Conversation(ctx context.Context, session string, since time.Time, ended bool) iter.Seq2[wire.Envelope, error] {
	return r.transcript(session).Envelopes(ctx, since, ended)
}

type claudeAgent struct {
	*claude.Process
	mode mode.Mode
}

func (a claudeAgent) Mode() mode.Mode   { return a.mode }
func (a claudeAgent) ID() agent.Process { return agent.Process(a.Predecessor()) }
func (a claudeAgent) Kill() error       { return ignoreExit(a.Process.Kill()) }

func (a claudeAgent) Send(ctx context.Context, line []byte) error {
	f, err := claude.ParseFrame(line)
	if err != nil {
		return err
	}
	return a.Process.Send(ctx, f)
}

func (a claudeAgent) SetMode(ctx context.Context, from, to mode.Mode) (mode.Mode, error) {
	if model, ok := to.Model.Value(); ok && to.Model != from.Model {
		if _, err := a.SetModel(ctx, model); err != nil {
			return from, fmt.Errorf("change the model: %w", err)
		}
		from.Model = to.Model
	}
	if mode, ok := to.PermissionMode.Value(); ok && to.PermissionMode != from.PermissionMode {
		if err := a.SetPermissionMode(ctx, mode); err != nil {
			return from, fmt.Errorf("change the permission mode: %w", err)
		}
	}
	return to, nil
}

func (a claudeAgent) End(ctx context.Context, g agent.Grace) error {
	return ignoreExit(a.Process.End(ctx, g))
}

// ignoreExit leaves out the exit status of a process that was told to end.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*claude.ExitError](err); ok {
		return nil
	}
	return err
}
