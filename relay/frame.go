package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/claude"
	"teambridge/relay/pipe"
	"teambridge/teams"
)

// make makes a frame of what waits. It returns false if nothing does.
func (l *loop) make() (bool, error) {
	waiting, err := l.ledger.Waiting(l.ctx, l.post)
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	l.at(looked)
	config, err := l.config()
	if err != nil {
		return false, err
	}
	q, err := pipe.NewQueue(pipe.Options[ledger.Delivery]{
		MaxBatch: MaxRows, MaxBytes: MaxBytes,
		Size: func(d ledger.Delivery) int { return len(text(config, d)) },
	})
	if err != nil {
		return false, err
	}
	mode := l.kept
	for _, d := range waiting {
		if len(d.Mode) > 0 {
			change, err := pipe.ParseMode(d.Mode)
			if err != nil {
				return false, err
			}
			mode = mode.Merge(change)
		}
		// A person's words are a frame of their own, and so is what died in company.
		if d.Person || d.Isolated {
			err = q.PushIsolated(d, mode)
		} else {
			err = q.Push(d, mode)
		}
		if err != nil {
			return false, err
		}
	}
	batch, err := q.Next(l.ctx)
	if err != nil {
		return false, err
	}
	// Before the agent is changed for it: what cannot be said changes nothing.
	frame, n, err := l.encode(config, batch.Items)
	var ids []string
	kind := ledger.FrameMessage
	for _, d := range batch.Items[:n] {
		ids = append(ids, d.UUID)
		if d.Person && d.Isolated {
			kind = ledger.FrameCommand
		}
	}
	if err != nil {
		return true, l.giveUp(ids[0], err, fmt.Errorf("relay: a message to %s cannot be said: %w", l.opts.Member, err))
	}
	if batch.Mode != l.mode {
		if made, err := l.changed(batch.Mode, ids[0]); !made || err != nil {
			return made, err
		}
		if batch.Mode != l.mode {
			return true, nil // it was refused, and what asked for it has failed
		}
	}
	f := ledger.Frame{
		UUID: frame.UUID(), Post: l.post, Kind: kind, Bytes: frame.Bytes(), Session: l.session.ID, State: ledger.FrameWritten, At: time.Now(),
	}
	if d := batch.Items[0]; d.Isolated && !d.Person {
		f.Deaths = 1
	}
	if f.Mode, err = l.mode.MarshalJSON(); err != nil {
		return false, err
	}
	if err := l.ledger.Commit(l.ctx, f, ids...); err != nil {
		// Without what is not to be said any more, from the start: the rest may fit
		// together in another way.
		err = passed(err, ids...)
		return err == nil, err
	}
	l.kept, l.session.Mode = l.mode, f.Mode
	l.frame, l.sent = &f, false
	l.at(committed)
	return true, nil
}

// encode makes a frame of as many of the items, from the first, as fit into one,
// and returns how many that are. With an error it is the first alone, which can
// never be said.
func (l *loop) encode(config *teams.Config, items []ledger.Delivery) (claude.Frame, int, error) {
	limit := l.opts.Child.FrameLimit
	if limit == 0 {
		limit = claude.DefaultFrameLimit
	}
	for n := len(items); ; n /= 2 {
		var parts []string
		for _, d := range items[:n] {
			parts = append(parts, text(config, d))
		}
		frame, err := claude.NewFrame(claude.Message{UUID: uuid.NewString(), Text: strings.Join(parts, "\n")})
		if size := len(frame.Bytes()); err == nil && size > limit {
			err = &claude.SizeError{UUID: frame.UUID(), Size: size, Limit: limit}
		}
		if err == nil || n == 1 {
			return frame, n, err
		}
	}
}

// giveUp ends a delivery that cannot be said, and tells of it.
func (l *loop) giveUp(delivery string, why, warning error) error {
	err := l.ledger.Settle(l.ctx, ledger.Failed, why.Error(), delivery)
	if err == nil {
		l.opts.Warn(warning)
	}
	return passed(err, delivery)
}

// passed leaves out the error of a step with deliveries that another process took
// out of the queue since they were looked at ("relay drop", and "gc" after it): the
// ledger changed nothing, and what it is now is what counts.
func passed(err error, deliveries ...string) error {
	if errors.Is(err, ledger.ErrUnknown) {
		return nil
	}
	if state, ok := errors.AsType[*ledger.StateError](err); ok && slices.Contains(deliveries, state.UUID) {
		return nil
	}
	return err
}

// changed is change, with what becomes of a delivery whose mode cannot be had. It
// returns false if nothing can be said before the agent was started again.
func (l *loop) changed(to pipe.Mode, delivery string) (bool, error) {
	err := l.change(to)
	if err == nil {
		return true, nil
	}
	if l.ctx.Err() != nil || l.proc == nil {
		return false, err
	}
	if _, ok := errors.AsType[*claude.ControlError](err); ok {
		// The first of the batch is what asked for the mode: with what is before it
		// the agent had another. What was changed on the way to it is changed back for
		// the next.
		return true, l.giveUp(delivery, err, err)
	}
	l.opts.Warn(fmt.Errorf("%w; the agent is started again", err))
	return false, ignoreExit(l.proc.Kill())
}

// change brings the agent to another mode: in the running process if that is
// possible, else by another process on the same session.
func (l *loop) change(to pipe.Mode) error {
	if l.opts.Child.NeedsRestart(l.mode, to) {
		if err := l.stop(); err != nil {
			return err
		}
		if err := l.start(to); err != nil {
			return err
		}
	}
	if model, ok := to.Model.Value(); ok && to.Model != l.mode.Model {
		if _, err := l.proc.SetModel(l.ctx, model); err != nil {
			return fmt.Errorf("relay: change the model: %w", err)
		}
		l.mode.Model = to.Model
	}
	if mode, ok := to.PermissionMode.Value(); ok && to.PermissionMode != l.mode.PermissionMode {
		if err := l.proc.SetPermissionMode(l.ctx, mode); err != nil {
			return fmt.Errorf("relay: change the permission mode: %w", err)
		}
	}
	l.mode = to
	return nil
}

// write gives the frame to the agent. What goes wrong is the agent's end, which
// follows.
func (l *loop) write() error {
	frame, err := claude.ParseFrame(l.frame.Bytes)
	if err != nil {
		return fmt.Errorf("relay: frame %s in the ledger: %w", l.frame.UUID, err)
	}
	if l.frame.Tries > 0 && !frame.IsSlash() {
		// An older agent would not say that it knows a teammate's message. A newer
		// one, killed before it echoed a frame, runs it again although it is in
		// the conversation: there twice then, and what its turn had done is done again.
		turn, err := l.transcript().Turn(l.ctx, l.frame.UUID)
		if err != nil {
			return fmt.Errorf("relay: what became of frame %s: %w", l.frame.UUID, err)
		}
		if turn.Stored {
			l.poke() // for the frame that comes after it
			return l.known()
		}
	}
	if l.mode != l.kept {
		// A program that is not told by flags.
		if err := l.change(l.kept); err != nil {
			if l.ctx.Err() != nil || l.proc == nil {
				return err
			}
			l.opts.Warn(err)
			if _, ok := errors.AsType[*claude.ControlError](err); ok {
				l.poke() // for the frame that comes after it
				return l.finish(ledger.Failed, err.Error())
			}
			return ignoreExit(l.proc.Kill())
		}
	}
	if err := l.ledger.Tried(l.ctx, l.frame.UUID, l.session.ID); err != nil {
		return err
	}
	l.frame.Tries++
	l.sent, l.acked, l.doubt = true, false, nil
	l.silent = frame.IsSilent() && !frame.IsSlash()
	l.begun(false)
	if err := l.proc.Send(l.ctx, frame); err != nil {
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		l.opts.Warn(fmt.Errorf("relay: %s: %w; the agent is started again", l.opts.Member, err))
		return ignoreExit(l.proc.Kill())
	}
	return nil
}

// advance records what has become of a frame.
func (l *loop) advance(frame string, state ledger.DeliveryState, reason string) error {
	return l.insist(func(ctx context.Context) error { return l.ledger.Advance(ctx, frame, state, reason) })
}

// recorded is a frame as the ledger has it.
func (l *loop) recorded(frame string) (f ledger.Frame, found bool, err error) {
	err = l.insist(func(ctx context.Context) (err error) {
		f, found, err = l.ledger.Frame(ctx, frame)
		return err
	})
	return f, found, err
}

// finish ends the frame that is in flight, and what it is about.
func (l *loop) finish(state ledger.DeliveryState, reason string) error {
	return l.finishWith(state, reason, "")
}

// answered ends the frame that is in flight as done, and records what the agent said.
func (l *loop) answered(reason, answer string) error {
	return l.finishWith(ledger.Done, reason, answer)
}

// finishWith is finish with the agent's answer, which is empty if it has none.
func (l *loop) finishWith(state ledger.DeliveryState, reason, answer string) error {
	f := l.frame
	err := l.insist(func(ctx context.Context) error { return l.ledger.Finish(ctx, f.UUID, state, reason, answer) })
	if err != nil {
		return err
	}
	if f.Kind == ledger.FrameNudge && state != ledger.Done {
		if err := l.advance(f.Parent, state, reason); err != nil {
			return err
		}
	}
	l.frame, l.sent, l.careful, l.doubt = nil, false, false, nil
	l.begun(false)
	l.set(func(s *Status) { s.LastDone = time.Now() })
	l.deaths, l.backoff = 0, 0
	return nil
}

// split takes back a frame of several messages with which the agent has died
// again, if it never took it: one of them kills it, and the others need not fail
// with that. What is in the conversation is not said again, nor what the agent
// acknowledged and had not written down; both go on as one frame.
func (l *loop) split(f ledger.Frame) (bool, error) {
	if f.Deaths < MaxDeaths-1 || f.State != ledger.FrameWritten || f.Kind != ledger.FrameMessage {
		return false, nil
	}
	if l.opts.Child.Plain {
		// Its transcripts may be elsewhere, and prove nothing.
		if there, err := l.transcript().Exists(); err != nil || !there {
			return false, err
		}
	}
	turn, err := l.transcript().Turn(l.ctx, f.UUID)
	if err != nil {
		return false, fmt.Errorf("relay: what became of frame %s: %w", f.UUID, err)
	}
	if turn.Stored {
		return false, nil
	}
	var split bool
	err = l.insist(func(ctx context.Context) (err error) {
		split, err = l.ledger.Split(ctx, f.UUID, "the agent died with it and others")
		return err
	})
	if err != nil || !split {
		return false, err
	}
	l.frame, l.sent, l.doubt = nil, false, nil
	l.begun(false)
	l.dirty = true
	return true, nil
}
