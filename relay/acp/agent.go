package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
	"teambridge/relay/process"
	"teambridge/relay/wire"
)

const (
	// settled is how long after a prompt its turn counts as running. An agent sends nothing before its model
	// answers.
	settled = time.Second
	// cancelAgain is when a cancellation is repeated: an agent that has not begun the turn ignores it.
	cancelAgain = time.Second
	// exitWithin is how long an idle agent may take to exit once its input is closed. Codex does not exit.
	exitWithin = 5 * time.Second
	// maxPending limits the events that wait for their reader. At the limit, the agent has to wait, too.
	maxPending = 1024
)

// Agent is a running agent. Make it with [Runtime.Start].
type Agent struct {
	runtime *Runtime
	options Options
	program program
	session string // a UUID
	mode    mode.Mode
	current string // the current mode, by the agent's name for it; "" if the agent has no modes
	usual   string // the agent's first model, by the agent's name for it
	opened  opened
	record  *record
	grants  agent.Grants
	held    func() error // unlocks the session

	*conn
	events *pipe.Stream[agent.Event]

	mu      sync.Mutex
	replay  *replay // not nil while a session is loaded
	flight  *flight
	turn    *fold // of the flight, from the start of its prompt on
	closing bool
	idle    chan struct{} // closed once closing is set and nothing is in flight
	widened *agent.WidenedError
	planned bool // a person has allowed it to leave plan mode

	alive context.Context // ends with the process
	died  func()
	life  context.Context // ends after alive, once all output can be read
	over  func()
	err   error // how the process ended
}

// flight is a message whose turn has not ended.
type flight struct {
	uuid     string
	began    bool // its start was reported
	accepted bool // its acceptance was reported
	answered bool
	stopped  bool // it is being interrupted
	denied   bool // one of its requests was denied
	life     context.Context
	over     context.CancelFunc
	asking   context.Context // ends when its open requests need no answer: with life, or once it is being interrupted
	withdraw context.CancelFunc
}

// ID identifies the process.
func (a *Agent) ID() agent.Process { return agent.Process(a.child.Predecessor) }

// Mode returns the mode that the agent started in.
func (a *Agent) Mode() mode.Mode { return a.mode }

// tell passes an event to the reader of Events. If the reader is far behind, tell blocks, and so does the
// agent.
func (a *Agent) tell(e agent.Event) {
	e.At = time.Now().UTC()
	if a.events.Push(e) != nil {
		_ = a.events.Send(a.alive, e)
	}
}

// Events yields the agent's events, in order, until the agent has ended. Only one loop may run at a time.
func (a *Agent) Events(ctx context.Context) iter.Seq2[agent.Event, error] { return a.events.All(ctx) }

// Send sends a line of [Runtime.Encode]. A message that the agent already has is not sent again.
func (a *Agent) Send(_ context.Context, data []byte) error {
	l, err := parseLine(data)
	if err != nil {
		return err
	}
	if turn, known := a.record.answer(l.ID); known && turn.Stored {
		a.tell(agent.Event{Progress: []agent.Progress{{UUID: l.ID, State: agent.Known}}})
		return nil
	}
	f := &flight{uuid: l.ID}
	f.life, f.over = context.WithCancel(a.life)
	f.asking, f.withdraw = context.WithCancel(f.life)
	a.mu.Lock()
	switch {
	case a.closing || a.life.Err() != nil:
		err = errEnded
	case a.flight != nil:
		err = errors.New("the agent is working on another message")
	default:
		a.flight = f
	}
	a.mu.Unlock()
	if err != nil {
		return fmt.Errorf("acp: send: %w", err)
	}
	text := Envelope(l.ID) + l.Text
	if a.record.empty() && a.options.Instructions != "" {
		text = Envelope(l.ID) + a.options.Instructions + "\n\n" + l.Text
	}
	// The record must be on disk before the agent gets the prompt.
	if err := a.record.add(entry{Begun: l.ID}); err != nil {
		a.settle(f)
		return err
	}
	if a.record.turn != l.ID {
		a.finish(&replay{}) // its end may not be recorded, and the turn is not sent again
	}
	turn := newFold(l.ID, a.emit)
	turn.begin(l.Text)
	a.mu.Lock()
	a.turn = turn
	a.mu.Unlock()
	err = a.start(methodPrompt, promptParams{a.record.session, []contentBlock{{"text", text}}}, func(result json.RawMessage, err error) { a.answered(f, turn, result, err) })
	if err != nil {
		return fmt.Errorf("acp: send: %w", err) // the agent is killed, and its replay shows whether it has the message
	}
	time.AfterFunc(settled, func() { a.began(f, false) })
	return nil
}

// emit records and reports an envelope of the running turn, unless an earlier process reported it.
func (a *Agent) emit(e wire.Envelope) {
	if a.record.hasTold(e.ID) {
		return
	}
	a.keep(entry{Envelope: &e})
	a.tell(agent.Event{Envelopes: []wire.Envelope{e}})
}

// keep records an entry that is not essential. Without it, a later process lacks an envelope, or has to ask
// the agent again.
func (a *Agent) keep(e entry) {
	if err := a.record.add(e); err != nil && a.options.Stderr != nil {
		fmt.Fprintln(a.options.Stderr, err)
	}
}

// began reports that the turn runs. shown means that the agent is working on it, which proves that the agent
// has the message.
func (a *Agent) began(f *flight, shown bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight != f || f.answered {
		return
	}
	e := agent.Event{At: time.Now().UTC()}
	if !f.began {
		e.Start = &agent.Start{Session: a.session, Mode: a.modeName()}
	}
	if shown && !f.accepted {
		e.Progress = []agent.Progress{{UUID: f.uuid, State: agent.Accepted}}
	}
	// If the event does not fit, the next update repeats it. began must not block, so that this event
	// precedes the end of the turn.
	if (e.Start != nil || e.Progress != nil) && a.events.Push(e) == nil {
		f.began, f.accepted = true, f.accepted || shown
	}
}

// modeName returns the permission mode that the agent was started in.
func (a *Agent) modeName() string {
	name, _ := a.mode.PermissionMode.Value()
	return name
}

// notified handles a notification.
func (a *Agent) notified(method string, params json.RawMessage) {
	if method != methodUpdate {
		return
	}
	var n notification
	var u Update
	if json.Unmarshal(params, &n) != nil || json.Unmarshal(n.Update, &u) != nil {
		a.tell(agent.Event{Missed: true})
		return
	}
	a.mu.Lock()
	f, turn, loading := a.flight, a.turn, a.replay
	a.mu.Unlock()
	if loading != nil {
		loading.add(&u)
		return
	}
	if n.SessionID != a.record.session {
		return // it belongs to a subagent
	}
	if u.Kind == modeChanges {
		a.modeChanged(u.CurrentMode)
	}
	e := agent.Event{Line: params, Payload: &u}
	if turn != nil && turn.update(&u) {
		a.began(f, true)
	}
	a.tell(e)
}

// modeChanged records the agent's current mode. It kills an agent that has widened its own permissions.
func (a *Agent) modeChanged(to string) {
	a.mu.Lock()
	from := a.current
	_, before := a.program.find(from)
	ours, width := a.program.find(to)
	switch {
	case to == from, to == "", a.program.modes == nil:
		ours = ""
	case width > before && !a.planned:
		a.widened, ours = &agent.WidenedError{Given: from, Got: to}, ""
		a.child.Signal(process.KillGroup)
	default:
		a.current = to
	}
	a.mu.Unlock()
	if ours != "" {
		a.tell(agent.Event{PermissionMode: ours})
	}
}

// answered ends the turn of a message.
func (a *Agent) answered(f *flight, turn *fold, data json.RawMessage, err error) {
	if errors.Is(err, errEnded) {
		f.over()
		return // the replay will show the outcome
	}
	var r prompted
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	f.over() // its open requests no longer need an answer
	a.mu.Lock()
	stopped, denied := f.stopped, f.denied
	f.answered = true
	a.mu.Unlock()
	turn.flush()
	end := ending{Message: f.uuid, State: agent.Done, Text: turn.last}
	status := wire.TurnCompleted
	switch {
	case stopped && (err != nil || r.StopReason == stopCancelled): // OpenCode can answer with an error then
		end.State, end.Failure, status = agent.Cancelled, "interrupted", wire.TurnCancelled
	case err != nil:
		end.State, end.Failure, status = agent.Failed, err.Error(), wire.TurnFailed
	case r.StopReason == stopCancelled && !denied:
		end.State, end.Failure, status = agent.Failed, "the agent stopped the turn by itself", wire.TurnCancelled
	case r.StopReason == stopCancelled: // Codex stops after a denial
		status = wire.TurnCancelled
	case r.StopReason != stopEnd:
		end.State, end.Failure, status = agent.Failed, fmt.Sprintf("the agent stopped the turn: %.100s", r.StopReason), wire.TurnFailed
	}
	turn.close(a.record, status, r.Usage)
	a.keep(entry{Ended: &end})
	result := &agent.Result{Text: end.Text, Failure: end.Failure}
	a.tell(agent.Event{Result: result, Progress: []agent.Progress{{UUID: f.uuid, State: end.State, Result: result}}})
	a.settle(f)
}

// settle records that a message is no longer in flight.
func (a *Agent) settle(f *flight) {
	f.over()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight == f {
		a.flight, a.turn = nil, nil
	}
	a.rest()
}

// rest closes idle if the agent is closing and nothing is in flight. The caller holds a.mu.
func (a *Agent) rest() {
	if a.closing && a.flight == nil && !a.child.Resting.Swap(true) {
		close(a.idle)
	}
}

// Interrupt stops the turn of a message. The error is [agent.ErrNotInFlight] if that turn is not running.
func (a *Agent) Interrupt(_ context.Context, uuid string) error {
	a.mu.Lock()
	f := a.flight
	a.mu.Unlock()
	inFlight := func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if f == nil || f.uuid != uuid || a.flight != f {
			return agent.ErrNotInFlight
		}
		return nil
	}
	if err := inFlight(); err != nil {
		return fmt.Errorf("acp: interrupt: %w", err)
	}
	// A replay does not show the interrupt, so record it.
	if err := a.record.add(entry{Stopping: uuid}); err != nil {
		return err
	}
	a.mu.Lock()
	f.stopped = true
	a.mu.Unlock()
	cancel := func() error { // not the next turn, which may have begun
		return a.writeIf(inFlight, message{}, methodCancel, sessionParams{SessionID: a.record.session})
	}
	if err := cancel(); err != nil {
		return fmt.Errorf("acp: interrupt: %w", err)
	}
	f.withdraw() // some agents wait for the answers before they end the turn
	go func() {
		for again := time.Tick(cancelAgain); ; {
			select {
			case <-again:
				_ = cancel()
			case <-f.life.Done():
				return
			}
		}
	}()
	return nil
}

// CloseInput makes the agent exit once it is idle.
func (a *Agent) CloseInput() {
	a.mu.Lock()
	first := !a.closing
	a.closing = true
	a.rest()
	a.mu.Unlock()
	if !first {
		return
	}
	go func() {
		select {
		case <-a.idle:
			a.closeStdin()
			if !a.child.Within(a.life, exitWithin) {
				a.child.Signal(process.KillGroup)
			}
		case <-a.life.Done():
		}
	}()
}

func (a *Agent) closeStdin() {
	a.writing.Lock()
	defer a.writing.Unlock()
	_ = a.child.Stdin.Close()
}

// End closes the agent's input and ends the agent, by force after the grace periods.
func (a *Agent) End(ctx context.Context, g agent.Grace) error {
	a.CloseInput()
	if !process.Within(ctx, a.idle, g.EOF) || !process.Within(ctx, a.life.Done(), 2*exitWithin) {
		a.child.Signal(process.TermGroup)
		process.Within(ctx, a.life.Done(), g.Term)
	}
	return a.Kill()
}

// Kill ends the agent at once.
func (a *Agent) Kill() error {
	a.child.Signal(process.KillGroup)
	<-a.life.Done()
	return nil
}

// Wait returns the agent's exit error once all output can be read.
func (a *Agent) Wait(ctx context.Context) error {
	select {
	case <-a.life.Done():
	case <-ctx.Done():
		return fmt.Errorf("acp: the agent still runs: %w", context.Cause(ctx))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.widened != nil {
		return a.widened
	}
	return a.err
}

// ended returns the error of an agent that has exited, with its last output.
func (a *Agent) ended(err error) error {
	if err == nil {
		err = errors.New("it exited with status 0")
	}
	err = fmt.Errorf("acp: the agent ended: %w", err)
	if said := a.said(); said != "" {
		return fmt.Errorf("%w; %s", err, said)
	}
	return a.child.Quote(err)
}
