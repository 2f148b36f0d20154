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

// maxText is the size of the largest message text.
const maxText = 1 << 20

// Options say which agent to run, and how.
type Options struct {
	Command []string // with all arguments
	Dir     string   // absolute; the directory that the agent works in
	Env     []string // the agent's environment; nil means the environment of this process
	State   string   // our state directory

	// Instructions precede the text of a session's first message.
	Instructions string

	// Permission answers the agent's permission requests; nil denies all.
	Permission *agent.Permission

	Stderr io.Writer // receives the standard error of the agent; may be nil

	closed time.Duration // how long an agent may live on after it has closed its output; 0 is 30 s
}

func (o Options) env() []string {
	if o.Env == nil {
		return os.Environ()
	}
	return o.Env
}

// dir returns the directory of a session's files.
func (o Options) dir(session string) string { return filepath.Join(o.State, "acp", session) }

func (o Options) recordFile(session string) string { return filepath.Join(o.dir(session), "record") }

// Runtime starts agents, and finds the outcome of their messages. Make it with [New].
type Runtime struct {
	options Options
	live    sync.Map // maps sessions to *Agent
}

// New returns a runtime. It starts nothing.
func New(o Options) *Runtime { return &Runtime{options: o} }

// Command returns the command line, to show to people.
func (r *Runtime) Command() string { return strings.Join(r.options.Command, " ") }

// Unnamed returns the mode unchanged, because no known argument of an agent sets a mode.
func (r *Runtime) Unnamed(m mode.Mode) mode.Mode { return m }

// SendsMessages returns false: the agents have no tool to write to members of their team.
func (r *Runtime) SendsMessages() bool { return false }

// NeedsRestart reports whether the change of mode needs a new process.
func (r *Runtime) NeedsRestart(from, to mode.Mode) bool {
	p := programOf(r.options.Command, "")
	if p.env == nil || from.PermissionMode == to.PermissionMode || r.checkMode(to) != nil {
		return false
	}
	before, err1 := p.env(r.options, permissionOf(from))
	after, err2 := p.env(r.options, permissionOf(to))
	return err1 == nil && err2 == nil && !slices.Equal(before, after)
}

// permissionOf returns the permission mode of m; by default, the one in which an agent asks.
func permissionOf(m mode.Mode) string {
	name, _ := m.PermissionMode.Value()
	if name == "" {
		return "default"
	}
	return name
}

// checkMode returns an error if no agent can have this mode.
func (r *Runtime) checkMode(m mode.Mode) error {
	m.Model, m.PermissionMode = mode.Setting[string]{}, mode.Setting[string]{}
	if m.WithoutDefaults() != (mode.Mode{}) {
		return fmt.Errorf("acp: an agent of the Agent Client Protocol has a model and a permission mode, and no other setting: %w", agent.ErrRefused)
	}
	return nil
}

const envelopeStart = "[message "

// Envelope returns the first line of a prompt. It identifies the message in the agent's own record.
func Envelope(id string) string { return envelopeStart + id + "]\n" }

var envelope = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^\[message ([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\]`)
})

// line is the stored form of a message.
type line struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Encode encodes a text under an id, which is a UUID.
func (r *Runtime) Encode(id, text string) ([]byte, error) {
	if u, err := uuid.Parse(id); err != nil || u.String() != id {
		return nil, fmt.Errorf("acp: %.60q is not a UUID", id)
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
		return line{}, fmt.Errorf("acp: %.60q is not one of our messages", l.ID)
	}
	return l, nil
}

// Frame parses a line of [Runtime.Encode].
func (r *Runtime) Frame(data []byte) (agent.Frame, error) {
	l, err := parseLine(data)
	return agent.Frame{UUID: l.ID, Line: data}, err
}

// Start starts an agent that begins or continues a conversation. The end of ctx kills the agent.
func (r *Runtime) Start(ctx context.Context, session string, m mode.Mode) (agent.Agent, error) {
	a, err := r.start(ctx, session, m, false)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (r *Runtime) start(ctx context.Context, session string, m mode.Mode, look bool) (*Agent, error) {
	if u, err := uuid.Parse(session); err != nil || u.String() != session {
		return nil, fmt.Errorf("acp: the session %.60q is not a UUID", session)
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
	stop := context.AfterFunc(ctx, func() { _ = a.Kill() }) // Wait returns its exit error
	context.AfterFunc(a.life, func() { stop() })
	return a, nil
}

// Turn returns the state of a message's turn in the conversation. If our record does not decide and no agent
// runs, Turn starts one to load the session.
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
		// The running agent has loaded the session, and recorded its messages.
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
	<-a.life.Done() // the end of ctx kills the agent; its exit status does not matter
	return turn, nil
}

// Conversation yields the envelopes of a session since a time, from the record. They have the same ids as in
// the agents' events. If an agent is killed before it reports an envelope, the next one reports it at its
// start.
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
