package opencode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
	"teambridge/relay/process"
)

const (
	// pollActive is the interval of checks whether a turn still runs, because no event reports its end.
	// pollEnding is the delay of the check after an event that ends most turns.
	pollActive = 500 * time.Millisecond
	pollEnding = 10 * time.Millisecond
	// pollRetry is the delay before a failed request is repeated.
	pollRetry = 100 * time.Millisecond
	// deaf is how long a server may leave requests unanswered before it is killed.
	deaf = 5 * time.Minute
	// maxLine is the size of the largest message, in bytes.
	maxLine = 1 << 20
)

// ErrEnded means that the agent has ended.
var ErrEnded = errors.New("the agent has ended")

// Agent is a session on a server. Make it with [Runtime.Start].
type Agent struct {
	runtime *Runtime
	options Options
	*client
	server  *server // nil if the server is not ours
	version string
	session string // a UUID
	id      string // OpenCode's id of the session
	mode    mode.Mode
	wake    chan struct{}

	reading sync.Mutex // held by the loop over Events

	mu      sync.Mutex
	seen    int64 // the number of the last event read
	flights []*flight
	turn    turn          // of the running message
	adapter adapter       // makes envelopes of the events
	pending []agent.Event // events that Events yields next
	closing bool          // the agent must end once it is idle
	killed  bool          // Kill was called, so a turn that ends now was cut
	idle    chan struct{} // closed once closing is set and nothing is in flight
	heard   time.Time     // when the server last answered

	life context.Context // ends with the agent
	over func()          // ends life

	grants agent.Grants
}

// Session returns the id of the conversation, a UUID.
func (a *Agent) Session() string { return a.session }

// ID identifies the process of the server; it is zero if the server is not ours.
func (a *Agent) ID() agent.Process {
	if a.server == nil {
		return agent.Process{}
	}
	return agent.Process(a.server.child.Predecessor)
}

// Mode returns the mode that the agent started in.
func (a *Agent) Mode() mode.Mode { return a.mode }

// Send sends a line of [Runtime.Encode].
func (a *Agent) Send(ctx context.Context, data []byte) error {
	frame, err := a.runtime.Frame(data)
	if err != nil {
		return err
	}
	// A message that was promoted before this is in the conversation, and does not run again.
	a.mu.Lock()
	head := a.seen
	a.mu.Unlock()
	for r, err := range a.history(ctx, a.id, head) {
		if err != nil {
			return fmt.Errorf("send: %w", err)
		}
		head = max(head, r.Seq)
	}
	f := &flight{uuid: frame.UUID, line: data, at: time.Now()}
	a.mu.Lock()
	if a.closing || a.life.Err() != nil {
		a.mu.Unlock()
		return fmt.Errorf("opencode: send: %w", ErrEnded)
	}
	a.flights = append(a.flights, f)
	a.heard = time.Now()
	a.mu.Unlock()
	promoted, err := a.submit(ctx, data)
	if err != nil {
		a.drop(f)
		return fmt.Errorf("send: %w", err)
	}
	if promoted > 0 && promoted <= head {
		a.drop(f)
		a.mu.Lock()
		a.pending = append(a.pending, agent.Event{At: time.Now().UTC(), Progress: []agent.Progress{{UUID: frame.UUID, State: agent.Known}}})
		a.mu.Unlock()
	}
	pipe.Poke(a.wake)
	return nil
}

// submit sends a message to the server. The server runs a message once, so a call without an answer can be
// repeated.
func (a *Agent) submit(ctx context.Context, data []byte) (promoted int64, err error) {
	for range 5 {
		promoted, err = a.prompt(ctx, a.id, data)
		if err == nil || hasStatusAny(err) || ctx.Err() != nil {
			return promoted, err
		}
		if err := pause(ctx, a.server.gone()); err != nil {
			return 0, err
		}
	}
	return promoted, err
}

// hasStatusAny reports whether the server itself refused the call.
func hasStatusAny(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && e.Status < 500
}

func (a *Agent) drop(f *flight) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flights = slices.DeleteFunc(a.flights, func(o *flight) bool { return o == f })
	a.settle()
}

// settle closes idle if the agent is closing and nothing is in flight. The caller holds a.mu.
func (a *Agent) settle() {
	if a.closing && len(a.flights) == 0 {
		select {
		case <-a.idle:
		default:
			close(a.idle)
		}
	}
}

// SetMode changes the model. Every other change needs a new server.
func (a *Agent) SetMode(ctx context.Context, from, to mode.Mode) (mode.Mode, error) {
	if err := a.options.checkMode(to); err != nil {
		return from, err
	}
	if to.Model == from.Model {
		return to, nil
	}
	m, err := a.options.model(ctx, a.client, to)
	if err != nil {
		return from, err
	}
	if m.ID != "" {
		if err := a.setModel(ctx, a.id, m); err != nil {
			return from, fmt.Errorf("change the model: %w", err)
		}
	}
	return to, nil
}

// Interrupt stops the turn of a message. The error is [agent.ErrNotInFlight] if that turn is not running.
func (a *Agent) Interrupt(ctx context.Context, uuid string) error {
	a.mu.Lock()
	f := a.running()
	a.mu.Unlock()
	if f == nil || f.uuid != uuid {
		return fmt.Errorf("opencode: interrupt: %w", agent.ErrNotInFlight)
	}
	// The conversation does not show the interrupt, so mark it.
	if err := a.options.mark(a.session, uuid); err != nil {
		return err
	}
	a.mu.Lock()
	f.interrupted = true
	a.mu.Unlock()
	if err := a.interrupt(ctx, a.id); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	pipe.Poke(a.wake)
	return nil
}

// CloseInput makes the agent end once it is idle.
func (a *Agent) CloseInput() {
	a.mu.Lock()
	if !a.closing {
		a.closing = true
		a.settle()
	}
	a.mu.Unlock()
	pipe.Poke(a.wake)
	go func() {
		select {
		case <-a.idle:
			if a.server != nil {
				a.server.child.Resting.Store(true)
			}
			a.stop(process.TermGroup)
		case <-a.life.Done():
		}
	}()
}

// stop ends our server, or our connection to a shared one.
func (a *Agent) stop(how func(int) error) {
	if a.server != nil {
		a.server.child.Signal(how)
	} else {
		a.over()
	}
}

// End ends the agent, by force after the grace periods.
func (a *Agent) End(ctx context.Context, g agent.Grace) error {
	a.CloseInput()
	process.Within(ctx, a.idle, g.EOF)
	a.stop(process.TermGroup)
	process.Within(ctx, a.life.Done(), g.Term)
	return a.Kill()
}

// Kill ends the agent at once. It only stops the turn if the server is shared.
func (a *Agent) Kill() error {
	if a.server == nil {
		a.mu.Lock()
		working := len(a.flights) > 0
		a.killed = true
		a.mu.Unlock()
		var err error
		if working && a.life.Err() == nil {
			ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
			defer cancel()
			err = a.interrupt(ctx, a.id)
		}
		a.over()
		return err
	}
	a.server.kill()
	<-a.life.Done()
	return nil
}

// Wait returns the agent's exit error once all events can be read.
func (a *Agent) Wait(ctx context.Context) error {
	select {
	case <-a.life.Done():
	case <-ctx.Done():
		return fmt.Errorf("opencode: the agent still runs: %w", context.Cause(ctx))
	}
	if a.server == nil || a.server.err == nil {
		return nil
	}
	return a.server.child.Quote(fmt.Errorf("opencode: the server ended: %w", a.server.err))
}
