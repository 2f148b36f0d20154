package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
)

// write empties the outbox for a machine, in order, one frame at a time.
func (l *Link) write(ctx context.Context, machine string, p *peer) {
	said := ""
	for {
		sent, err := l.writeFrame(ctx, machine, p)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if text := err.Error(); text != said {
				said = text
				l.failed(ctx, "messages to "+machine+" wait", err)
			}
			if !pause(ctx, l.opts.Retry+rand.N(l.opts.Retry), p.retry) {
				return
			}
		case sent:
			said = ""
			l.opts.Changed()
			if !p.full && l.behind(p) && !pause(ctx, l.opts.Retry) {
				return
			}
		default:
			select {
			case <-p.wake:
			case <-ctx.Done():
				return
			}
		}
	}
}

// behind reports whether a machine is away, or empties its queue more slowly than we fill it. Messages to it
// are then collected for a while: a machine handles one frame at a time, and a frame of ten messages as fast
// as a frame of one.
func (l *Link) behind(p *peer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range p.unheard {
		if time.Since(at) > l.opts.Retry {
			return true
		}
	}
	return false
}

// writeFrame publishes one frame, if there is anything to send. sent is true if a frame was stored.
func (l *Link) writeFrame(ctx context.Context, machine string, p *peer) (sent bool, err error) {
	lg := l.opts.Ledger
	if !l.opts.Wire.State().Connected {
		return false, nil // every writer is woken on connect
	}
	list, err := lg.Outbox.Next(ctx, machine, maxMessages, maxBytes)
	if err != nil {
		return false, err
	}
	untold, err := lg.Arrivals.Untold(ctx, machine, l.opts.page)
	if err != nil {
		return false, err
	}
	l.mu.Lock()
	refused, query := l.refused[machine], l.queries[machine]
	if delete(l.refused, machine); len(refused) > l.opts.page {
		refused, l.refused[machine] = refused[:l.opts.page], slices.Clone(refused[l.opts.page:])
	}
	if delete(l.queries, machine); len(query) > l.opts.page { // a later query asks for the others
		query, l.queries[machine] = query[:l.opts.page], query[l.opts.page:]
	}
	l.mu.Unlock()
	defer func() {
		if !sent && len(refused) > 0 {
			l.mu.Lock()
			l.refused[machine] = append(refused, l.refused[machine]...)
			l.mu.Unlock()
		}
	}()
	if len(list)+len(untold)+len(refused)+len(query) == 0 {
		return false, nil
	}
	f := frame{Version: Version, Ledger: l.opts.Self.Incarnation, Query: query}
	if f.For, err = lg.Links.Incarnation(ctx, machine); err != nil {
		return false, err
	}
	var body []byte
	for fits := false; !fits; {
		if body, err = f.encode(list, untold, refused); err != nil {
			return false, err
		}
		half := func(n int) int { return (n + 1) / 2 }
		switch fits = len(body) <= maxBody; {
		case fits:
		case len(list) > 1:
			list = list[:half(len(list))]
		case len(untold)+len(refused) > 2:
			var later []ledger.Receipt
			refused, later = refused[:half(len(refused))], refused[half(len(refused)):]
			l.mu.Lock()
			l.refused[machine] = slices.Concat(later, l.refused[machine])
			l.mu.Unlock()
			untold = untold[:half(len(untold))]
		case len(list) == 1: // every hub would refuse it, and it would block all later messages
			r := ledger.Receipt{ID: list[0].UUID, Stage: ledger.StageRefused, Reason: fmt.Sprintf("it has %d bytes, too many for a link", len(list[0].Raw))}
			if err := lg.Outbox.Confirm(ctx, machine, r); err != nil {
				return false, err
			}
			list = nil
		default:
			fits = true // the wire refuses it
		}
	}
	p.full = len(list) == maxMessages
	ids := make([]string, 0, len(list))
	for _, o := range list {
		ids = append(ids, o.UUID)
	}
	if len(ids) > 0 {
		if err := lg.Outbox.Sending(ctx, ids...); err != nil {
			return false, err
		}
		l.mu.Lock()
		for _, id := range ids {
			if len(p.unheard) < l.opts.page {
				p.unheard[id] = time.Now()
			}
		}
		l.mu.Unlock()
	}
	id, said, unsure := uuid.NewString(), "", false
	for { // repeat the same frame until it is certainly stored
		err := l.opts.Wire.Publish(ctx, machine, id, body)
		if err == nil {
			break
		}
		refused := errors.Is(err, ErrPeer) || errors.Is(err, ErrFull)
		if refused && !unsure { // the hub certainly does not have it
			l.mu.Lock()
			for _, id := range ids {
				delete(p.unheard, id)
			}
			l.mu.Unlock()
			return false, cmp.Or(lg.Outbox.Unsent(context.WithoutCancel(ctx), ids...), err)
		}
		if errors.Is(err, ErrPeer) || ctx.Err() != nil {
			return false, err
		}
		unsure = unsure || !refused
		if text := err.Error(); text != said {
			said = text
			l.failed(ctx, "messages to "+machine+" wait", err)
		}
		if !pause(ctx, l.opts.Retry+rand.N(l.opts.Retry), p.retry) {
			return false, context.Cause(ctx)
		}
	}
	keep := context.WithoutCancel(ctx) // the hub has the frame
	if len(ids) > 0 {
		if err := lg.Outbox.Stored(keep, ids...); err != nil {
			return true, err
		}
	}
	if len(untold) > 0 {
		err = lg.Arrivals.Reported(keep, untold...)
	}
	return true, err
}
