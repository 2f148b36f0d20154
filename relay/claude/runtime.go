package claude

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/process"
	"teambridge/relay/wire"
	"teambridge/teams"
)

// Runtime is Claude Code, or a program that speaks the same protocol. Root of its Options must be set.
// Session, Resume and Mode come from each [Runtime.Start].
type Runtime struct{ Options }

// Command returns the command line, for people.
func (r Runtime) Command() string { return strings.Join(r.Options.Command, " ") }

// SendsMessages is true: an agent has the tool SendMessage.
func (Runtime) SendsMessages() bool { return true }

// Encode is [NewFrame], within Options.FrameLimit.
func (r Runtime) Encode(uuid, text string) ([]byte, error) {
	f, err := NewFrame(uuid, text)
	if err != nil {
		return nil, err
	}
	return f.Line, r.fits(f)
}

// Frame is [ParseFrame].
func (Runtime) Frame(line []byte) (agent.Frame, error) { return ParseFrame(line) }

// Start starts a process that begins a conversation, or resumes an existing one. It can fail with
// [agent.ErrUnusable]. The end of ctx kills the process.
func (r Runtime) Start(ctx context.Context, session string, mode mode.Mode) (agent.Agent, error) {
	o := r.Options
	o.Session, o.Mode = session, mode
	var err error
	if o.Resume, err = r.transcript(session).Resumable(); err != nil {
		return nil, err
	}
	p, err := Start(ctx, o)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Moved follows a conversation that a person has moved to the background: see [transcript.Moved].
func (r Runtime) Moved(session string) (now, holder string) {
	now, job, in := teams.Moved(r.Root, session)
	if in.PID != 0 {
		holder = fmt.Sprintf("its conversation runs in the background (process %d); it goes on here after: claude stop %s", in.PID, job)
	}
	return now, holder
}

// Predecessor returns a process that an earlier relay started.
func (Runtime) Predecessor(p agent.Process) agent.Predecessor { return process.Predecessor(p) }

// Turn is [Transcript.Turn]. Unknown is true for a Plain program without a transcript here: it may be elsewhere.
func (r Runtime) Turn(ctx context.Context, session, uuid string) (agent.Turn, error) {
	t := r.transcript(session)
	turn, err := t.Turn(ctx, uuid)
	if err == nil && !turn.Stored && r.Plain {
		var found bool
		found, err = t.Exists()
		turn.Unknown = !found
	}
	return turn, err
}

// Conversation is [Transcript.Envelopes].
func (r Runtime) Conversation(ctx context.Context, session string, since time.Time, ended bool) iter.Seq2[wire.Envelope, error] {
	return r.transcript(session).Envelopes(ctx, since, ended)
}

func (r Runtime) transcript(session string) Transcript {
	return Transcript{Root: r.Root, Dir: r.Dir, Session: session}
}
