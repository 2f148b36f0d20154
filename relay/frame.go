package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
)

// makeFrame makes a frame of the waiting deliveries, and commits it. It returns false if nothing waits or the
// agent must be restarted first. It returns true without a frame after failing a delivery that cannot be
// sent.
func (l *loop) makeFrame(ctx context.Context) (bool, error) {
	if n, err := l.ledger.OpenCount(ctx, l.post); err != nil || n == 0 {
		return false, err
	}
	config, err := l.config(ctx)
	if err != nil {
		return false, err
	}
	waiting, err := l.waiting(ctx, config)
	if err != nil || len(waiting) == 0 {
		return false, err
	}
	l.at(queued)
	standIns, err := l.ledger.StandIns(ctx, l.Key().Root)
	if err != nil {
		return false, err
	}
	verified := verifies(config, l.Key(), standIns)
	if err := l.queue.feed(verified, waiting, l.session.Kept); err != nil {
		return false, err
	}
	// The batch's fate is decided in the ledger. Until then it stays in the queue.
	batch, err := l.queue.Peek(ctx)
	if err != nil {
		return false, err
	}
	// Before the mode changes: a message that cannot be encoded must change nothing.
	id := uuid.NewString()
	line, n, err := l.encode(verified, id, batch.Items)
	if err != nil {
		return true, l.failDelivery(ctx, batch.Items[0].UUID, err, fmt.Errorf("relay: a message to %s cannot be said: %w", l.opts.Member, err))
	}
	if batch.Mode != l.mode {
		refused := false
		if set, err := l.setMode(ctx, batch.Mode, func(err error) error {
			// The first of the batch asked for the mode: earlier ones have another.
			refused = true
			return l.failDelivery(ctx, batch.Items[0].UUID, err, err)
		}); !set {
			return refused, err
		}
	}
	made, err := l.commit(ctx, id, line, batch.Items[:n])
	if l.frame != nil && n == len(batch.Items) {
		err = errors.Join(err, l.queue.take(ctx))
	}
	return made, err
}

// commit records a frame before its first byte is written. It returns true without a frame in flight if
// another process has dropped one of the deliveries.
func (l *loop) commit(ctx context.Context, id string, line []byte, deliveries []ledger.Delivery) (bool, error) {
	f := ledger.Frame{
		UUID: id, InboxKey: l.post, Kind: ledger.FrameMessage, Bytes: line, Session: l.session.ID, State: ledger.FrameWritten, At: time.Now(),
	}
	var ids []string
	for _, d := range deliveries {
		ids = append(ids, d.UUID)
	}
	if d := deliveries[0]; d.Isolated && d.Person { // alone
		f.Kind = ledger.FrameCommand
	} else if d.Isolated {
		f.Deaths = 1 // inherited from the frame that was split
	}
	var err error
	if f.Mode, err = l.mode.MarshalJSON(); err != nil {
		return false, err
	}
	if err := l.ledger.Commit(ctx, f, ids...); err != nil {
		err = ignoreDropped(err, ids...)
		return err == nil, err
	}
	l.session.Kept = l.mode
	l.frame = &flight{Frame: f}
	l.at(committed)
	return true, nil
}

// encode makes a line of the first n items, as many as fit. If it returns an error, n is 1: the first item
// cannot be sent even alone.
func (r *Relay) encode(verified func(string) bool, id string, items []ledger.Delivery) (line []byte, n int, err error) {
	for n = len(items); ; n /= 2 {
		var parts []string
		for _, d := range items[:n] {
			parts = append(parts, text(verified, d))
		}
		line, err = r.opts.Runtime.Encode(id, strings.Join(parts, "\n"))
		if err == nil || n == 1 {
			return line, n, err
		}
	}
}

// failDelivery fails a delivery that cannot be sent, and warns of it.
func (r *Relay) failDelivery(ctx context.Context, delivery string, why, warning error) error {
	err := r.ledger.End(ctx, ledger.Failed, why.Error(), delivery)
	if err == nil {
		r.opts.Warn(warning)
	}
	return ignoreDropped(err, delivery)
}

// ignoreDropped suppresses the error of a step with deliveries that another process has taken out of the
// queue since they were read ("relay drop", or "gc" after it). The step changed nothing in the ledger, and is
// repeated with the remaining ones.
func ignoreDropped(err error, deliveries ...string) error {
	state, ok := errors.AsType[*ledger.StateError](err)
	if errors.Is(err, ledger.ErrUnknown) || ok && slices.Contains(deliveries, state.UUID) {
		return nil
	}
	return err
}

// setMode changes the agent's mode: in the running process if possible, else in a new process on the same
// session, after a turn that the agent has begun by itself. It returns false if that failed or has to wait. It calls
// refused if the agent refuses the mode; after any other failure it kills the agent, which is then restarted.
func (l *loop) setMode(ctx context.Context, to mode.Mode, refused func(error) error) (bool, error) {
	if l.opts.Runtime.NeedsRestart(l.mode, to) {
		if l.turn {
			return false, nil // its end wakes the loop
		}
		if err := l.stop(ctx); err != nil {
			return false, err
		}
		if err := l.start(ctx, to); err != nil {
			return false, err
		}
	}
	var err error
	l.mode, err = l.proc.SetMode(ctx, l.mode, to)
	if err == nil {
		return true, nil
	}
	err = fmt.Errorf("relay: %w", err)
	if ctx.Err() != nil {
		return false, err
	}
	if errors.Is(err, agent.ErrRefused) {
		return false, refused(err)
	}
	l.opts.Warn(fmt.Errorf("%w; the agent is started again", err))
	return false, l.proc.Kill()
}

// write writes the frame to the agent. If that fails it kills the agent, and agentExited decides what comes
// next.
func (l *loop) write(ctx context.Context) error {
	frame, err := l.opts.Runtime.Frame(l.frame.Bytes)
	if err != nil {
		// Another runtime wrote the frame, and only that runtime could find out its fate.
		l.opts.Warn(fmt.Errorf("relay: frame %s in the ledger: %w", l.frame.UUID, err))
		l.poke() // for the next frame
		return l.finish(ctx, failed("it was given to another program, which may have worked on it; teambridge relay retry sends it again"))
	}
	do, err := l.resolve(ctx, facts{news: rewrite, command: frame.Command})
	if err != nil || do != resend {
		l.poke() // for the next frame
		return err
	}
	if l.mode != l.session.Kept { // the program does not get its mode from flags
		if set, err := l.setMode(ctx, l.session.Kept, func(err error) error {
			l.opts.Warn(err)
			l.poke() // for the next frame
			return l.finish(ctx, failed(err.Error()))
		}); !set {
			return err
		}
	}
	if err := l.ledger.Tried(ctx, l.frame.UUID, l.session.ID); err != nil {
		return err
	}
	l.frame.Tries++
	l.frame.sent = true
	l.setTurnRuns(false)
	if err := l.proc.Send(ctx, frame.Line); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.opts.Warn(fmt.Errorf("relay: %s: %w; the agent is started again", l.opts.Member, err))
		return l.proc.Kill()
	}
	return nil
}

// flight is the frame in flight.
type flight struct {
	ledger.Frame
	sent bool // it was written to the running agent
}

// resolve decides what to do with the frame in flight, and does it.
func (l *loop) resolve(ctx context.Context, f facts) (action, error) {
	f.frame, f.onCut = l.frame.Frame, l.opts.OnCut
	for {
		o := decide(f)
		var err error
		switch o.do {
		case readTurn:
			var turn agent.Turn
			if turn, err = l.opts.Runtime.Turn(ctx, l.session.ID, f.frame.UUID); err != nil {
				err = fmt.Errorf("relay: what became of frame %s: %w", f.frame.UUID, err)
			}
			f.turn = &turn
		case readSubject:
			err = l.readSubject(ctx, &f)
		case countDeath:
			err = l.insist(ctx, func(ctx context.Context) (err error) {
				f.frame, err = l.ledger.Died(ctx, l.frame.UUID)
				return err
			})
			f.counted = true
		case split:
			var done bool
			if done, err = l.split(ctx); done {
				l.warnOf(o, f)
				return split, nil
			}
			f.single = true
		default:
			l.warnOf(o, f)
			return o.do, l.act(ctx, o, f)
		}
		if err != nil {
			return o.do, err
		}
	}
}

func (l *loop) warnOf(o outcome, f facts) {
	if o.warn != "" {
		l.opts.Warn(fmt.Errorf("relay: %s %s: %w", l.opts.Member, o.warn, f.exit))
	}
}

// act carries out a decision.
func (l *loop) act(ctx context.Context, o outcome, f facts) error {
	switch o.do {
	case accept:
		l.deaths, l.backoff, l.probation = 0, 0, false
		l.setTurnRuns(true)
		return l.advance(ctx, l.frame.UUID, ledger.Accepted, "")
	case nudge:
		return l.nudge(ctx, *f.subject)
	case finish:
		return l.finish(ctx, o)
	}
	return nil
}

// readSubject reads the frame that a nudge is about, or else the frame itself, including its count of nudges.
func (l *loop) readSubject(ctx context.Context, f *facts) error {
	f.subject = &f.frame
	id := f.frame.UUID
	if f.frame.Kind == ledger.FrameNudge {
		id = f.frame.Parent
	}
	return l.insist(ctx, func(ctx context.Context) error {
		frame, found, err := l.ledger.Frame(ctx, id)
		if found {
			f.subject = &frame
		}
		return err
	})
}

// nudge queues a nudge for a frame whose turn was cut.
func (l *loop) nudge(ctx context.Context, about ledger.Frame) error {
	if l.frame.Kind == ledger.FrameNudge {
		if err := l.advance(ctx, l.frame.UUID, ledger.Failed, "cut by a crash"); err != nil {
			return err
		}
	}
	id := ledger.DeriveID(ledger.RelayIDs, about.UUID, "nudge", strconv.Itoa(about.Nudges+1))
	line, err := l.opts.Runtime.Encode(id, Nudge)
	if err != nil {
		return err
	}
	f := ledger.Frame{
		UUID: id, InboxKey: l.post, Kind: ledger.FrameNudge, Parent: about.UUID, Bytes: line,
		Session: l.session.ID, State: ledger.FrameWritten, At: time.Now(),
	}
	if err := l.insist(ctx, func(ctx context.Context) error { return l.ledger.Commit(ctx, f) }); err != nil {
		return err
	}
	l.frame = &flight{Frame: f}
	return nil
}

// finish ends the frame in flight and, for a nudge, also the frame that it is about.
func (l *loop) finish(ctx context.Context, o outcome) error {
	f := l.frame
	err := l.insist(ctx, func(ctx context.Context) error { return l.ledger.Finish(ctx, f.UUID, o.state, o.reason, o.answer) })
	if err != nil {
		return err
	}
	if f.Kind == ledger.FrameNudge && o.state != ledger.Done {
		if err := l.advance(ctx, f.Parent, o.state, o.reason); err != nil {
			return err
		}
	}
	l.frame, l.probation = nil, false
	l.setTurnRuns(false)
	l.set(func(s *Status) { s.LastDone = time.Now() })
	if !o.agentDied {
		l.deaths, l.backoff = 0, 0
	}
	return nil
}

// split puts the messages of the frame in flight back into the queue, each to be sent alone. It returns false
// if the frame has only one message.
func (l *loop) split(ctx context.Context) (done bool, err error) {
	err = l.insist(ctx, func(ctx context.Context) (err error) {
		done, err = l.ledger.Split(ctx, l.frame.UUID, "the agent died with it and others")
		return err
	})
	if err == nil && done {
		l.frame, l.dirty = nil, true
		l.setTurnRuns(false)
	}
	return err == nil && done, err
}

// setTurnRuns sets whether the turn of the frame in flight is running.
func (l *loop) setTurnRuns(yes bool) { l.move(func() { l.began = yes }) }
