package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"teambridge/relay/agent"
)

// running is a running agent.
type running struct {
	config  string // the configuration that it was started with
	runtime agent.Runtime
	agent   agent.Agent
	events  chan agent.Event // its events; closed once it has ended
	reused  bool             // a later query uses it than the one that started it
	done    func() error     // removes its temporary files
}

// config returns the agent's configuration as text, for comparison.
func (in Input) config() (string, error) {
	in.Prompt, in.SessionID, in.StreamingInput = "", "", false
	data, err := json.Marshal(in)
	return string(data), err
}

// start starts an agent. It continues the session in the input, or begins one.
func (q *query) start(ctx context.Context, id, config string) (_ *running, err error) {
	dir, err := q.in.dir()
	if err != nil {
		return nil, err
	}
	runtime, done, err := q.open(ctx, dir)
	defer func() {
		if err != nil && done != nil {
			err = errors.Join(err, done())
		}
	}()
	if err != nil {
		return nil, err
	}
	if q.in.SessionID != "" {
		if err := exists(ctx, runtime, id); err != nil {
			return nil, fmt.Errorf("query: session %s in %s: %w", id, dir, err)
		}
	}
	// ctx limits only the start: a running agent is interrupted before it is ended.
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, kill)
	proc, err := runtime.Start(life, id, q.in.mode(runtime))
	if !stop() {
		if err == nil {
			err = proc.Kill()
		}
		return nil, errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		kill()
		return nil, fmt.Errorf("query: start the agent: %w", err)
	}
	r := &running{config: config, runtime: runtime, agent: proc, events: make(chan agent.Event), done: func() error { kill(); return done() }}
	go agent.Forward(life, proc, r.events)
	return r, nil
}

// exists returns [ErrNoSession] if a conversation does not exist.
func exists(ctx context.Context, runtime agent.Runtime, id string) error {
	for _, err := range runtime.Conversation(ctx, id, time.Time{}, true) {
		return err
	}
	return ErrNoSession
}

// end ends the agent, and passes its remaining events to take, which may be nil.
func (r *running) end(g agent.Grace, take func(agent.Event)) error {
	ended := make(chan error, 1)
	go func() { ended <- r.agent.End(context.Background(), g) }()
	for e := range r.events {
		if take != nil {
			take(e)
		}
	}
	return errors.Join(<-ended, r.done())
}
