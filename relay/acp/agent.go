package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
	"teambridge/relay/process"
	"teambridge/relay/wire"
)

const (
	// settled is how long a prompt is with an agent, at most, before its turn is said to run: an agent tells nothing before the
	// model does.
	settled = time.Second
	// cancelAgain is how soon the order to stop a turn is repeated: an agent that had not begun the turn ignores it.
	cancelAgain = time.Second
	// exitWithin is how long an agent without work may take to end when its input is closed. Codex stays.
	exitWithin = 5 * time.Second
	// maxPending bounds the events that wait for their reader. Beyond it, the agent has to wait, too.
	maxPending = 1024
)

// Agent is an agent that runs. Make it with [Runtime.Start].
type Agent struct {
	runtime *Runtime
	options Options
	program program
	session string // a UUID
	mode    mode.Mode
	current string // the mode of the agent, by its own name; empty if it has none
	usual   string // the model that it had at the start, by its own name
	opened  opened
	record  *record
	grants  agent.Grants
	held    func() error // frees the session

	*conn
	file    string // names its process, for a later one of ours
	mark    string // in the environment of everything that it starts
	out     process.Tail
	resting atomic.Bool // it was told to end between two turns: what its tools left running may stay

	events *pipe.Stream[agent.Event]

	mu      sync.Mutex
	replay  *replay // while a session is loaded
	flight  *flight
	turn    *fold // of the flight, once its prompt is on its way
	closing bool
	idle    chan struct{} // closed when closing and nothing is in flight
	widened *agent.WidenedError
	planned bool // a person let it leave its plan mode

	alive context.Context // ends with its process
	died  func()
	life  context.Context // ends with it, once everything that it told can be read
	over  func()
	err   error // how it ended
}

// flight is a message whose turn has not ended.
type flight struct {
	uuid     string
	began    bool // that was told
	accepted bool // that was told
	answered bool
	stopped  bool // somebody interrupts it
	denied   bool // something that it asked for was
	life     context.Context
	over     context.CancelFunc
}

// ID identifies its process.
func (a *Agent) ID() agent.Process { return agent.Process(a.child.Predecessor) }

// Mode is what it works with from the start.
func (a *Agent) Mode() mode.Mode { return a.mode }

// tell hands an event to the reader of events. If that is far behind, the agent waits, until it has ended: the record has it.
func (a *Agent) tell(e agent.Event) {
	e.At = time.Now().UTC()
	if a.events.Push(e) != nil {
		_ = a.events.Send(a.alive, e)
	}
}

// Events gives what it tells, in order, until it has ended. There is one loop at a time.
func (a *Agent) Events(ctx context.Context) iter.Seq2[agent.Event, error] { return a.events.All(ctx) }

// Send gives it a line of [Runtime.Encode]. One that it has, or had, is not given again.
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
	a.mu.Lock()
	switch {
	case a.closing || a.life.Err() != nil:
		err = errEnded
	case a.flight != nil:
		err = errors.New("it works on another message")
	default:
		a.flight = f
	}
	a.mu.Unlock()
	if err != nil {
		return fmt.Errorf("acp: send: %w", err)
	}
	text := Envelope(l.ID) + l.Text
	if len(a.record.begun) == 0 && a.options.Instructions != "" {
		text = Envelope(l.ID) + a.options.Instructions + "\n\n" + l.Text
	}
	// First on the disk, then to the agent.
	if err := a.record.add(entry{Begun: l.ID}); err != nil {
		a.settle(f)
		return err
	}
	if a.record.turn != l.ID {
		a.finish(&replay{}) // one that was never recorded, and was not given again
	}
	turn := newFold(l.ID, a.emit)
	turn.begin(l.Text)
	a.mu.Lock()
	a.turn = turn
	a.mu.Unlock()
	err = a.start(methodPrompt, promptParams{a.record.session, []contentBlock{{"text", text}}}, func(result json.RawMessage, err error) { a.answered(f, turn, result, err) })
	if err != nil {
		return fmt.Errorf("acp: send: %w", err) // it is killed, and whether it has the message is looked up
	}
	time.AfterFunc(settled, func() { a.began(f, false) })
	return nil
}

// emit keeps an envelope of the turn that runs, and tells it, unless it was told when the same message was given before.
func (a *Agent) emit(e wire.Envelope) {
	if a.record.hasTold(e.ID) {
		return
	}
	a.keep(entry{Envelope: &e})
	a.tell(agent.Event{Envelopes: []wire.Envelope{e}})
}

// keep records what can be done without: a later process of ours asks the agent again, or lacks an envelope.
func (a *Agent) keep(e entry) {
	if err := a.record.add(e); err != nil && a.options.Stderr != nil {
		fmt.Fprintln(a.options.Stderr, err)
	}
}

// began tells that the turn runs, and, if the agent shows that it works on it, that it has the message.
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
	// Of what does not fit, the next update tells. Nothing waits here, so that it comes before the end of the turn.
	if (e.Start != nil || e.Progress != nil) && a.events.Push(e) == nil {
		f.began, f.accepted = true, f.accepted || shown
	}
}

// modeName is the permission mode that it was given.
func (a *Agent) modeName() string {
	name, _ := a.mode.PermissionMode.Value()
	return name
}

// notified takes a notification.
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
		return // of a subagent
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

// modeChanged notes that the agent works in another of its modes. One that widens its permissions by itself is ended.
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
		return // what became of it is looked up
	}
	var r prompted
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	f.over() // what it asks for needs no answer any more
	a.mu.Lock()
	stopped, denied := f.stopped, f.denied
	f.answered = true
	a.mu.Unlock()
	turn.flush()
	end := ending{Message: f.uuid, State: agent.Done, Text: turn.last}
	status := wire.TurnCompleted
	switch {
	case err != nil:
		end.State, end.Failure, status = agent.Failed, err.Error(), wire.TurnFailed
	case stopped && r.StopReason == stopCancelled:
		end.State, end.Failure, status = agent.Cancelled, "interrupted", wire.TurnCancelled
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

// settle notes that a message is in flight no longer.
func (a *Agent) settle(f *flight) {
	f.over()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.flight == f {
		a.flight, a.turn = nil, nil
	}
	a.rest()
}

// rest notes that an agent that is to end has no work. a.mu is held.
func (a *Agent) rest() {
	if a.closing && a.flight == nil && !a.resting.Swap(true) {
		close(a.idle)
	}
}

// Interrupt stops the turn of a message, or returns [agent.ErrNotInFlight].
func (a *Agent) Interrupt(_ context.Context, uuid string) error {
	a.mu.Lock()
	f := a.flight
	a.mu.Unlock()
	if f == nil || f.uuid != uuid {
		return fmt.Errorf("acp: interrupt: %w", agent.ErrNotInFlight)
	}
	// No replay tells that it was stopped.
	if err := a.record.add(entry{Stopping: uuid}); err != nil {
		return err
	}
	a.mu.Lock()
	f.stopped = true
	a.mu.Unlock()
	cancel := func() error { return a.write(message{}, methodCancel, sessionParams{SessionID: a.record.session}) }
	if err := cancel(); err != nil {
		return fmt.Errorf("acp: interrupt: %w", err)
	}
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

// CloseInput lets it end once it has nothing more to do.
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

// End closes its input and ends it, by force after the times of grace.
func (a *Agent) End(ctx context.Context, g agent.Grace) error {
	a.CloseInput()
	if !process.Within(ctx, a.idle, g.EOF) || !process.Within(ctx, a.life.Done(), 2*exitWithin) {
		a.child.Signal(process.TermGroup)
		process.Within(ctx, a.life.Done(), g.Term)
	}
	return a.Kill()
}

// Kill ends it at once.
func (a *Agent) Kill() error {
	a.child.Signal(process.KillGroup)
	<-a.life.Done()
	return nil
}

// Wait returns how it ended, once everything that it told can be read.
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

// ended is the error of an agent that has ended, with what it said.
func (a *Agent) ended(err error) error {
	if err == nil {
		err = errors.New("it exited with status 0")
	}
	said := a.said()
	if text := strings.TrimSpace(a.out.String()); said == "" && text != "" {
		said = fmt.Sprintf("it said: %.1000q", text)
	}
	if said != "" {
		return fmt.Errorf("acp: the agent ended: %w; %s", err, said)
	}
	return fmt.Errorf("acp: the agent ended: %w", err)
}
