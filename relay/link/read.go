package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"teambridge/inbox/ledger"
)

// read receives everything that the wire has for this machine.
func (l *Link) read(ctx context.Context) error {
	signal(l.present)
	for {
		a, err := l.opts.Wire.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for {
			switch {
			case a.Frame != nil:
				err = l.take(ctx, a)
			case a.Text != nil:
				err = l.heard(ctx, a.From, a.Text)
			default:
				err = l.changed(ctx)
			}
			l.stays(a.From, err)
			if err == nil || ctx.Err() != nil {
				break
			}
			if l.failed(ctx, "cannot record data from "+cmp.Or(a.From, "the hub"), err) {
				return err
			}
			// The arrival is not acknowledged. The disk may be full, or another process may use the ledger.
			if a.Frame == nil || !pause(ctx, l.opts.Retry) {
				break
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// take records a frame, and then acknowledges it.
func (l *Link) take(ctx context.Context, a Arrival) error {
	f, err := openFrame(a.Frame)
	if err != nil {
		l.leftOut(a.From, 1, "an invalid frame: "+err.Error())
		l.opts.Warn(fmt.Errorf("%s sent an invalid frame, which is ignored: %w", a.From, err))
		return l.ack(ctx, a)
	}
	if f.Version > Version {
		// Our presence tells the sender that this program is older. Without the acknowledgment, the frame
		// would block all others.
		l.opts.Warn(fmt.Errorf("%s uses version %d of links, and this program supports %d: its messages wait until this program is upgraded", a.From, f.Version, Version))
		return l.ack(ctx, a)
	}
	lg := l.opts.Ledger
	known, err := lg.Links.Incarnation(ctx, a.From)
	if errors.Is(err, ledger.ErrNoMachine) {
		return l.ack(ctx, a) // its link was just removed
	}
	if err == nil && known == "" {
		known = f.Ledger
		_, err = lg.Links.HeardFrom(ctx, a.From, known, nil)
	}
	if err != nil {
		return err
	}
	if known != f.Ledger { // a reset names an earlier ledger; the next presence names the current one
		f.Receipts = slices.DeleteFunc(f.Receipts, func(r ledger.Receipt) bool { return r.Stage == ledger.StageReset })
	}
	if len(f.Receipts) > 0 {
		if err := lg.Outbox.Confirm(ctx, a.From, f.Receipts...); err != nil {
			return err
		}
		l.mu.Lock()
		if p := l.peers[a.From]; p != nil {
			for _, r := range f.Receipts {
				delete(p.unheard, r.ID)
			}
		}
		l.mu.Unlock()
	}
	if len(f.Query) > 0 {
		if err := lg.Arrivals.Tell(ctx, a.From, f.Query...); err != nil {
			return err
		}
	}
	refused, n := f.refused, len(f.refused)+f.left
	if f.For != "" && f.For != l.opts.Self.Incarnation {
		// The frame is meant for an earlier ledger, which may have received the messages. The incarnation in
		// our answer tells the sender so.
		for _, in := range f.list {
			refused = append(refused, ledger.Receipt{ID: in.ID, Stage: ledger.StageReset})
		}
		f.list = nil
	}
	if len(f.list) > 0 {
		more, err := l.receive(ctx, a.From, f.list)
		if errors.Is(err, ledger.ErrNoMachine) {
			return l.ack(ctx, a)
		}
		if err != nil {
			return err
		}
		if refused, n = append(refused, more...), n+len(more); len(more) > 0 {
			f.why = cmp.Or(f.why, "a message: "+more[0].Reason)
		}
	}
	l.leftOut(a.From, n, f.why)
	if len(refused) > 0 {
		l.mu.Lock()
		all := append(l.refused[a.From], refused...)
		l.refused[a.From] = all[:min(len(all), maxAnswers)] // the sender repeats the others, and they are refused then
		l.mu.Unlock()
	}
	err = l.ack(ctx, a)
	time.AfterFunc(soon, func() { l.wake(a.From) })
	signal(l.arrived)
	l.opts.Changed()
	return err
}

// receive records messages. It refuses those that the ledger cannot hold, and records the others. A frame
// that could never be recorded would block the frames of all machines.
func (l *Link) receive(ctx context.Context, machine string, list []ledger.Incoming) (refused []ledger.Receipt, err error) {
	refused, err = l.opts.Ledger.Arrivals.Receive(ctx, machine, list...)
	if !errors.As(err, new(*ledger.ValueError)) {
		return refused, err
	}
	if len(list) == 1 {
		return []ledger.Receipt{{ID: list[0].ID, Stage: ledger.StageRefused, Reason: words(err.Error())}}, nil
	}
	refused = nil
	for _, in := range list {
		more, err := l.receive(ctx, machine, []ledger.Incoming{in})
		if err != nil {
			return nil, err
		}
		refused = append(refused, more...)
	}
	return refused, nil
}

// ack acknowledges a frame. If that fails, the frame arrives again, and its messages are recognized.
func (l *Link) ack(ctx context.Context, a Arrival) error {
	if err := a.Ack(ctx); err != nil && ctx.Err() == nil {
		l.opts.Warn(fmt.Errorf("cannot acknowledge a frame of %s, which will arrive again: %w", a.From, err))
	}
	return nil
}

// content is the part of a message that the ledger keeps until it is delivered.
type content struct {
	Name, Text, Summary string
}

// changed handles a new state of the wire.
func (l *Link) changed(ctx context.Context) error {
	s := l.opts.Wire.State()
	defer l.opts.Changed()
	if !s.Connected {
		return nil
	}
	if s.Queue != "" {
		again, err := l.opts.Ledger.Links.SetQueue(ctx, s.Queue)
		if err != nil {
			return err
		}
		if again > 0 {
			l.opts.Warn(fmt.Errorf("the hub has lost its stored frames; %d messages are sent again", again))
		}
	}
	l.mu.Lock()
	for _, p := range l.peers {
		signal(p.retry)
	}
	clear(l.announced) // earlier ones may be lost
	l.mu.Unlock()
	signal(l.present)
	return l.query(ctx)
}

// query asks all machines for the state of unsettled messages.
func (l *Link) query(ctx context.Context) error {
	list, err := l.opts.Ledger.Links.Machines(ctx, l.opts.Root) // from the ledger: a new machine may have no writer yet
	if err != nil {
		return err
	}
	for _, m := range list {
		var ids []string
		for after, more := int64(0), true; more; {
			open, err := l.opts.Ledger.Outbox.Open(ctx, m.Name, after, l.opts.page)
			if err != nil {
				return err
			}
			for _, o := range open {
				ids, after = append(ids, o.UUID), o.Seq
			}
			more = len(open) == l.opts.page
		}
		l.mu.Lock()
		l.queries[m.Name] = ids
		l.mu.Unlock()
		l.wake(m.Name)
	}
	return nil
}

// queryEvery is how often machines are asked for the state of messages.
const queryEvery = 10 * time.Minute
