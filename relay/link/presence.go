package link

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Announce makes the link send its presence soon, because the state of members has changed.
func (l *Link) Announce() { signal(l.present) }

// heard records the presence of a machine. A presence decides only which messages are sent again.
func (l *Link) heard(ctx context.Context, machine string, text []byte) error {
	if machine == l.opts.Self.Name {
		return nil
	}
	p, left, err := openPresence(text)
	if err != nil {
		l.leftOut(machine, 1, "its presence: "+err.Error())
		return nil // the next presence will repeat it
	}
	l.mu.Lock()
	if l.offered[machine] != left { // warn only of new faults
		if l.offered[machine] = left; left != "" {
			l.leave(machine, 1, "its presence: "+left)
		}
	}
	l.mu.Unlock()
	if text, err = json.Marshal(p); err != nil { // keep only the valid part
		return err
	}
	if lost, err := l.opts.Ledger.Links.HeardFrom(ctx, machine, p.Ledger, text); err != nil {
		return err
	} else if lost > 0 {
		l.opts.Warn(fmt.Errorf("%s has another ledger than before; whether %d messages arrived is unknown", machine, lost))
	}
	// Our own queue must be empty, too: it may hold a receipt.
	if p.Empty && p.Version >= Version && l.opts.Wire.State().Waiting == 0 {
		again, err := l.opts.Ledger.Outbox.Again(ctx, machine, time.Now().Add(-l.opts.Late))
		if err != nil {
			return err
		}
		if again > 0 {
			l.wake(machine)
		}
	}
	l.mu.Lock()
	anew := l.instances[machine] != p.Instance
	if l.instances[machine] = p.Instance; anew { // the new process does not have our presence yet
		delete(l.announced, machine)
		signal(l.present)
	}
	l.mu.Unlock()
	l.opts.Changed()
	return nil
}

// announce sends the presence periodically and on changes. It never answers a presence: otherwise two
// machines would answer each other for ever.
func (l *Link) announce(ctx context.Context) error {
	asked := time.Now()
	due := asked.Add(l.opts.Every)
	for {
		if !pause(ctx, time.Until(due), l.present) {
			return nil
		}
		if !time.Now().Before(due) {
			due = time.Now().Add(l.opts.Every)
			l.mu.Lock()
			clear(l.announced)
			l.mu.Unlock()
		}
		if time.Since(asked) > queryEvery {
			asked = time.Now()
			if err := l.query(ctx); err != nil && l.failed(ctx, "cannot query the state of messages", err) {
				return err
			}
		}
		s := l.opts.Wire.State()
		if !s.Connected {
			continue
		}
		l.mu.Lock()
		names := []string{l.opts.Self.Name}
		for name := range l.peers {
			names = append(names, name)
		}
		l.mu.Unlock()
		for _, name := range names {
			var err error
			p := Presence{Version: Version, Instance: l.instance, Ledger: l.opts.Self.Incarnation, Program: l.opts.Program}
			if p.Empty, err = l.empty(ctx, name, s); err != nil && l.failed(ctx, "cannot read the receipts for "+name, err) {
				return err
			}
			if name != l.opts.Self.Name && l.opts.Teams != nil {
				teams, err := l.opts.Teams(ctx, name)
				if err != nil && ctx.Err() == nil {
					l.failed(ctx, "cannot read the teams shared with "+name, err)
				}
				p.Teams = teams
			}
			text, err := json.Marshal(p)
			if err != nil {
				return err
			}
			l.mu.Lock()
			same := l.announced[name] == string(text)
			l.announced[name] = string(text)
			l.mu.Unlock()
			if same {
				continue
			}
			if err := l.opts.Wire.Tell(ctx, name, text); err != nil && ctx.Err() == nil {
				l.mu.Lock()
				delete(l.announced, name)
				l.mu.Unlock()
				break // this presence is lost; the next one follows
			}
		}
		if !pause(ctx, l.opts.Every/15) { // group changes in quick succession
			return nil
		}
	}
}

// empty reports whether this machine's queue is empty and all receipts for a machine were sent. If so,
// messages that the machine still has no receipt for were lost.
func (l *Link) empty(ctx context.Context, machine string, s State) (bool, error) {
	if s.Waiting != 0 {
		return false, nil
	}
	untold, err := l.opts.Ledger.Arrivals.Untold(ctx, machine, 1)
	return err == nil && len(untold) == 0, err
}
