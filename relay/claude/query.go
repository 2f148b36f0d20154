package claude

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"teambridge/relay/agent"
)

// Query runs a conversation: it starts a process, says the messages of input one after the other, each when the turn of
// the last has ended, and gives what the process prints. When input has ended and the last turn too, it closes stdin,
// and the loop ends with the process. A message whose turn failed or was cancelled does not keep the next from being
// said; [agent.Event.Progress] tells.
//
// The loop ends early, with a zero event and the error, when the process could not be started, ended before everything
// was said, or did not end well (with an [*ExitError], also of code 1 where only the last turn failed); when a message could not be written ([ErrInvalid], [*SizeError], [*WriteError]); and
// when ctx ends. A loop that is left early ends the process: 5 s after the end of its stdin it gets SIGTERM, 2 s later
// SIGKILL.
//
// input is asked for its next value in a goroutine. If it does not answer when the loop ends, that goroutine stays until
// it does, so an input that waits must also wait for ctx. A nil input says nothing.
func Query(ctx context.Context, options Options, input iter.Seq[Message]) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		p, err := Start(ctx, options)
		if err != nil {
			yield(agent.Event{}, err)
			return
		}
		feeding, stop := context.WithCancelCause(ctx)
		ended := make(chan agent.Progress, 1) // the frame that was fed, when it has
		fed := make(chan error, 1)
		go func() {
			err := feed(feeding, p, input, ended)
			fed <- err
			if err != nil && !errors.Is(err, ErrEnded) {
				stop(err) // what the process printed before it ended is still given
			}
			p.CloseInput()
		}()
		defer func() {
			stop(nil)
			_ = p.End(ctx, agent.Grace{EOF: 5 * time.Second, Term: 2 * time.Second})
		}()

		for e, err := range p.Events(feeding) {
			if err != nil {
				yield(agent.Event{}, fmt.Errorf("claude: query: %w", context.Cause(feeding)))
				return
			}
			for _, progress := range e.Progress {
				if !progress.State.InFlight() {
					select {
					case ended <- progress:
					default: // of a frame that was not fed
					}
				}
			}
			if !yield(e, nil) {
				return
			}
		}
		if err := p.Wait(ctx); err != nil {
			yield(agent.Event{}, err)
			return
		}
		select {
		case err := <-fed:
			if err != nil {
				yield(agent.Event{}, err)
			}
		default:
			yield(agent.Event{}, fmt.Errorf("claude: query: the process ended before everything was said: %w", ErrEnded))
		}
	}
}

// feed says everything and waits for the last turn.
func feed(ctx context.Context, p *Process, input iter.Seq[Message], ended <-chan agent.Progress) error {
	if input == nil {
		return nil
	}
	for m := range input {
		f, err := NewFrame(m)
		if err == nil {
			err = p.Send(ctx, f)
		}
		if err != nil {
			return err
		}
		for waiting := true; waiting; {
			select {
			case progress := <-ended:
				waiting = progress.UUID != f.UUID()
			case <-p.Done():
				if p.State(f.UUID()).InFlight() {
					return fmt.Errorf("claude: query: %w while frame %s was in flight", ErrEnded, f.UUID())
				}
				waiting = false
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
