package link

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"teambridge/inbox/ledger"
)

// read takes what the wire has for this machine.
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
			case a.Told != nil:
				err = l.heard(ctx, a.From, a.Told)
			default:
				err = l.changed(ctx)
			}
			if err == nil || ctx.Err() != nil {
				break
			}
			if l.failed(ctx, "what "+cmp.Or(a.From, "the hub")+" sent is not recorded", err) {
				return err
			}
			// Not acknowledged: a full disk, or a ledger that another process uses.
			if a.Frame == nil || !pause(ctx, l.opts.Retry) {
				break
			}
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

// take records a frame, and acknowledges it then.
func (l *Link) take(ctx context.Context, a Arrival) error {
	var f frame
	if err := json.Unmarshal(a.Frame, &f); err != nil || f.Version < 1 {
		l.opts.Warn(fmt.Errorf("%s sent a frame that is none; it is left out: %w", a.From, cmp.Or(err, errors.New("it has no version"))))
		return l.ack(ctx, a)
	}
	if f.Version > Version {
		// Its presence tells the sender that we are older. What is not acknowledged would hold up all others.
		l.opts.Warn(fmt.Errorf("%s uses version %d of links, and this program knows %d: its messages wait until this one is upgraded", a.From, f.Version, Version))
		return l.ack(ctx, a)
	}
	lg := l.opts.Ledger
	known, err := lg.Incarnation(ctx, a.From)
	if errors.Is(err, ledger.ErrNoMachine) {
		return l.ack(ctx, a) // its link was removed a moment ago
	}
	if err == nil && known == "" {
		known = f.Ledger
		_, err = lg.HeardFrom(ctx, a.From, known, nil)
	}
	if err != nil {
		return err
	}
	if known != f.Ledger { // its presence will tell which one there is now
		f.Receipts = slices.DeleteFunc(f.Receipts, func(r ledger.Receipt) bool { return r.Stage == ledger.StageReset })
	}
	if len(f.Receipts) > 0 {
		if err := lg.Confirm(ctx, a.From, f.Receipts...); err != nil {
			return err
		}
	}
	if len(f.Query) > 0 {
		if err := lg.Tell(ctx, a.From, f.Query...); err != nil {
			return err
		}
	}
	var list []ledger.Incoming
	var refused []ledger.Receipt
	for _, m := range f.Messages {
		if f.For != "" && f.For != l.opts.Self.Incarnation {
			// Meant for a ledger that this one has replaced, which may have had them. Ours in the
			// answer tells the sender so.
			refused = append(refused, ledger.Receipt{ID: m.ID, Stage: ledger.StageReset})
			continue
		}
		in, err := incoming(m)
		if err != nil {
			refused = append(refused, ledger.Receipt{ID: m.ID, Stage: ledger.StageRefused, Reason: err.Error()})
			continue
		}
		list = append(list, in)
	}
	if len(list) > 0 {
		more, err := lg.Receive(ctx, a.From, list...)
		if errors.Is(err, ledger.ErrNoMachine) {
			return l.ack(ctx, a)
		}
		if err != nil {
			return err
		}
		refused = append(refused, more...)
	}
	if len(refused) > 0 {
		l.mu.Lock()
		l.refused[a.From] = append(l.refused[a.From], refused...)
		l.mu.Unlock()
	}
	err = l.ack(ctx, a)
	time.AfterFunc(soon, func() { l.wake(a.From) })
	signal(l.arrived)
	l.opts.Changed()
	return err
}

// ack acknowledges a frame. If that fails, the frame comes again, and is known.
func (l *Link) ack(ctx context.Context, a Arrival) error {
	if err := a.Ack(ctx); err != nil && ctx.Err() == nil {
		l.opts.Warn(fmt.Errorf("a frame of %s was not acknowledged, and comes again: %w", a.From, err))
	}
	return nil
}

// content is what the ledger keeps of a message until it is delivered.
type content struct {
	Name, Text, Summary string
}

func incoming(m message) (in ledger.Incoming, err error) {
	for _, field := range []struct{ what, text string }{{"id", m.ID}, {"team", m.Team}, {"recipient", m.Member}, {"sender", m.From}, {"text", m.Text}} {
		if field.text == "" {
			return in, fmt.Errorf("it has no %s", field.what)
		}
		if field.what != "text" && len(field.text) > maxName {
			return in, fmt.Errorf("its %s has %d bytes, over %d", field.what, len(field.text), maxName)
		}
	}
	raw, err := json.Marshal(content{m.Name, m.Text, m.About})
	return ledger.Incoming{ID: m.ID, Team: m.Team, Member: m.Member, From: m.From, Digest: m.digest(), Raw: raw, Asks: m.Ask, Sent: m.Sent}, err
}

// maxName is the size of the longest name of anything, in bytes.
const maxName = 1024

// changed does what is due when the wire was connected, or lost.
func (l *Link) changed(ctx context.Context) error {
	s := l.opts.Wire.State()
	defer l.opts.Changed()
	if !s.Connected {
		return nil
	}
	if s.Queue != "" {
		again, err := l.opts.Ledger.SetQueue(ctx, s.Queue)
		if err != nil {
			return err
		}
		if again > 0 {
			l.opts.Warn(fmt.Errorf("the hub has lost what it had stored; %d messages are sent again", again))
		}
	}
	l.mu.Lock()
	for _, p := range l.peers {
		signal(p.retry)
	}
	clear(l.told) // which may be lost
	l.mu.Unlock()
	signal(l.present)
	return l.query(ctx)
}

// query asks all machines what became of messages that nothing final is known of.
func (l *Link) query(ctx context.Context) error {
	list, err := l.opts.Ledger.Machines(ctx, l.opts.Root) // its writer need not run yet
	if err != nil {
		return err
	}
	for _, m := range list {
		var ids []string
		for after, more := int64(0), true; more; {
			open, err := l.opts.Ledger.OpenOutgoing(ctx, m.Name, after, l.opts.page)
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

// queryEvery is how often machines are asked what became of messages.
const queryEvery = 10 * time.Minute
