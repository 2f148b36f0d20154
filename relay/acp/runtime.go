package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/wire"
	"teambridge/teams/rawjson"
)

// maxText is the largest text of a message.
const maxText = 1 << 20

// Options say which agent is run, and how.
type Options struct {
	Command []string // with all arguments
	Dir     string   // absolute; the directory that the agent works in
	Env     []string // nil means the environment of this process
	State   string   // our state directory

	// Instructions are put in front of the first message of a session.
	Instructions string

	// Permission answers what the agent asks for; nil: nothing is allowed that it asks for.
	Permission *agent.Permission

	Stderr io.Writer // gets the standard error of the agent; may be nil
}

func (o Options) env() []string {
	if o.Env == nil {
		return os.Environ()
	}
	return o.Env
}

// dir is where everything of a session is.
func (o Options) dir(session string) string { return filepath.Join(o.State, "acp", session) }

func (o Options) recordFile(session string) string { return filepath.Join(o.dir(session), "record") }

// Runtime starts agents, and knows what became of what they were sent. Make it with [New].
type Runtime struct {
	options Options
	live    sync.Map // of *Agent, by session
}

// New returns a runtime. It starts nothing.
func New(o Options) *Runtime { return &Runtime{options: o} }

// Command is what is started, for people.
func (r *Runtime) Command() string { return strings.Join(r.options.Command, " ") }

// Unnamed returns the mode: no argument of an agent is known to set any of it.
func (r *Runtime) Unnamed(m mode.Mode) mode.Mode { return m }

// SendsMessages is false: an agent has no tool to write to the members of its team.
func (r *Runtime) SendsMessages() bool { return false }

// NeedsRestart reports whether only another process can work in another mode.
func (r *Runtime) NeedsRestart(from, to mode.Mode) bool {
	p := programOf(r.options.Command, "")
	if p.env == nil || from.PermissionMode == to.PermissionMode || r.checkMode(to) != nil {
		return false
	}
	before, err1 := p.env(r.options, permissionOf(from))
	after, err2 := p.env(r.options, permissionOf(to))
	return err1 == nil && err2 == nil && !slices.Equal(before, after)
}

// permissionOf is the permission mode that is asked for: the one in which an agent asks, unless another is.
func permissionOf(m mode.Mode) string {
	name, _ := m.PermissionMode.Value()
	if name == "" {
		return "default"
	}
	return name
}

// checkMode reports why no agent can work in a mode.
func (r *Runtime) checkMode(m mode.Mode) error {
	m.Model, m.PermissionMode = mode.Setting[string]{}, mode.Setting[string]{}
	if m.WithoutDefaults() != (mode.Mode{}) {
		return fmt.Errorf("acp: an agent of the Agent Client Protocol takes a model and a permission mode, and nothing else: %w", agent.ErrRefused)
	}
	return nil
}

// Envelope is the first line of a prompt: by it a message is found again in what an agent has recorded.
func Envelope(id string) string { return "[message " + id + "]\n" }

var envelope = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\[message ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\]`)
})

// line is a message as it is kept until it is sent.
type line struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Encode returns the line that gives an agent a text under an id, a UUID.
func (r *Runtime) Encode(id, text string) ([]byte, error) {
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return nil, fmt.Errorf("acp: %.60q is no UUID", id)
	}
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("acp: the message is empty")
	}
	if len(text) > maxText {
		return nil, fmt.Errorf("acp: the message is too large: %d bytes, at most %d", len(text), maxText)
	}
	return rawjson.Encode(line{id, text})
}

func parseLine(data []byte) (l line, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return line{}, fmt.Errorf("acp: a message cannot be read: %w", err)
	}
	if u, err := uuid.Parse(l.ID); err != nil || u.String() != l.ID || l.Text == "" {
		return line{}, fmt.Errorf("acp: %.60q is no message of ours", l.ID)
	}
	return l, nil
}

// Frame reads a line that [Runtime.Encode] made.
func (r *Runtime) Frame(data []byte) (agent.Frame, error) {
	l, err := parseLine(data)
	return agent.Frame{UUID: l.ID, Line: data}, err
}

// Start starts an agent that begins a conversation, or continues it if there is one. The end of ctx kills it.
func (r *Runtime) Start(ctx context.Context, session string, m mode.Mode) (agent.Agent, error) {
	a, err := r.start(ctx, session, m, false)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (r *Runtime) start(ctx context.Context, session string, m mode.Mode, look bool) (*Agent, error) {
	if u, err := uuid.Parse(session); err != nil || u.String() != session {
		return nil, fmt.Errorf("acp: the session %.60q is no UUID", session)
	}
	if err := r.checkMode(m); err != nil {
		return nil, err
	}
	a, err := r.spawn(ctx, session, m)
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := a.open(opening, look); err != nil {
		_ = a.Kill()
		if said := a.said(); said != "" {
			err = fmt.Errorf("%w; %s", err, said)
		} else if errors.Is(err, errEnded) {
			err = a.err
		}
		return nil, fmt.Errorf("acp: %s: %w", r.options.Command[0], err)
	}
	r.live.Store(session, a)
	context.AfterFunc(a.life, func() { r.live.CompareAndDelete(session, a) })
	stop := context.AfterFunc(ctx, func() { _ = a.Kill() }) // Wait tells how it ended
	context.AfterFunc(a.life, func() { stop() })
	return a, nil
}

// Turn tells what the conversation has of a message. If our own record does not tell, and no agent runs, one is started
// that loads the session.
func (r *Runtime) Turn(ctx context.Context, session, id string) (agent.Turn, error) {
	rec, err := readRecord(r.options.recordFile(session), nil)
	if err != nil {
		return agent.Turn{}, err
	}
	if turn, known := rec.answer(id); known {
		return turn, nil
	}
	if v, _ := r.live.Load(session); v != nil && v.(*Agent).life.Err() == nil {
		a := v.(*Agent)
		a.mu.Lock()
		defer a.mu.Unlock()
		// It has loaded the session, and noted what was there.
		if a.flight != nil && a.flight.uuid == id {
			return agent.Turn{Unknown: true}, nil
		}
		return a.program.absent(), nil
	}
	a, err := r.start(ctx, session, mode.Mode{}, true)
	if err != nil {
		return agent.Turn{}, err
	}
	turn, known := a.record.answer(id)
	if !known {
		turn = a.program.absent()
	}
	a.CloseInput()
	<-a.life.Done() // the end of ctx kills it; however it exits is no error
	return turn, nil
}

// Conversation gives what was told of a session since a time. It is the same as in the events of its agents: the record has
// it. What an agent could not tell before it was killed is told by the next one, when it starts.
func (r *Runtime) Conversation(_ context.Context, session string, since time.Time, _ bool) iter.Seq2[wire.Envelope, error] {
	return func(yield func(wire.Envelope, error) bool) {
		_, err := readRecord(r.options.recordFile(session), func(e wire.Envelope) bool {
			return time.UnixMilli(int64(e.Time)).Before(since) || yield(e, nil)
		})
		if err != nil {
			yield(wire.Envelope{}, err)
		}
	}
}
