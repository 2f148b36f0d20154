package pane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
)

// carrier delivers one message at a time, and records its outcome.
type carrier struct{ *shared }

// way returns the way to a pane or a session. It records the process that has the session now.
func (c *carrier) way(ctx context.Context, of *Pane, m ledger.PaneMessage) (way, error) {
	if !of.IsSession() {
		return &terminal{carrier: c, of: *of, agent: c.views.agent(*of), record: c.transcripts.proof(*of, m)}, nil
	}
	now, err := c.sessions.process(ctx, of)
	if err != nil {
		return nil, err
	}
	s := &session{carrier: c, of: *of, now: now, record: c.transcripts.proof(*of, m), most: 2}
	switch {
	case of.Profile == Codex:
		if m.Policy == string(ByQueue) { // an interrupt leaves it in the queue, and Enqueue adds none twice
			s.most = math.MaxInt
		}
		return codexSession{s}, nil
	case of.Profile == Qwen:
		s.most = 5 // a session that has it only repeats its last notice, which our process loses if it is killed
		return qwenSession{s}, nil
	case now.Socket == "" || c.reach(now) == ByHook:
		return hook{s}, nil
	}
	return socket{s}, nil
}

// carry gives one message to its agent, or finds the outcome of an earlier attempt, and records the result.
func (c *carrier) carry(ctx context.Context, of Pane, m ledger.PaneMessage) error {
	defer c.changed(m.InboxKey)
	w, err := c.way(ctx, &of, m)
	if err != nil {
		return err
	}
	a := &attempt{message: m, uuids: []string{m.UUID}, frame: m.Frame}
	var f facts
	if m.Frame != "" {
		frame, found, err := c.opts.Ledger.Frames.Frame(ctx, m.Frame)
		if err != nil || !found {
			return err
		}
		a.session, a.tries = frame.Session, frame.Tries
	} else if !m.SentAt.IsZero() { // a person retries it, and the agent may have taken it the first time
		p := c.transcripts.proof(of, m)
		f = p.shown(ctx)
		there, _ := p.find(ctx)
		f.shown = f.shown && !f.altered && (there.given || there.kept || !of.IsSession()) // the queue of a session ends with its process
	}
	if !f.shown {
		if f, err = w.look(ctx, a); err != nil {
			return err
		}
	}
	if decide(f) == give {
		f, err = w.give(ctx, a)
	}
	return errors.Join(err, c.settle(context.WithoutCancel(ctx), a, f)) // record the facts even if ctx has ended
}

// commit records an attempt before it is made and, for a session, the process that gets the message.
func (c *carrier) commit(ctx context.Context, a *attempt, text, session string) error {
	if a.frame == "" {
		bytes, err := json.Marshal(text)
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		f := ledger.Frame{
			UUID: uuid.NewString(), InboxKey: a.message.InboxKey, Kind: ledger.FrameCommand, Bytes: bytes, Session: session, State: ledger.FrameWritten, At: time.Now(),
		}
		if err := c.opts.Ledger.PaneMessages.PasteFrame(ctx, f, a.uuids...); err != nil {
			return err
		}
		a.frame, a.message.SentAt = f.UUID, f.At
		c.changed(a.message.InboxKey)
	}
	if a.session = session; session == "" {
		return nil
	}
	return c.opts.Ledger.Frames.Tried(context.WithoutCancel(ctx), a.frame, session)
}

// settle records the action that follows from the facts of a message.
func (c *carrier) settle(ctx context.Context, a *attempt, f facts) (err error) {
	l, do := c.opts.Ledger, decide(f)
	switch do {
	case confirm:
		if a.frame == "" {
			return c.queue.end(ctx, a.message, ledger.Done, "the transcript has it")
		}
		err = l.PaneMessages.ConfirmFrame(ctx, a.frame, "", f.task, f.transcript)
	case refuse:
		err = l.PaneMessages.FailFrame(ctx, a.frame, ledger.CauseNotSent.Reason(f.refused), string(tmux.Refused), ledger.TaskNone)
	case takeBack:
		if a.frame != "" {
			err = l.PaneMessages.ReturnFrame(ctx, a.frame, f.absent)
		}
	case giveUp:
		if f.altered {
			f.doubt, f.hold.why, f.task = altered, tmux.Altered, ledger.TaskNone
		}
		err = l.PaneMessages.FailFrame(ctx, a.frame, ledger.CauseUnknown.Reason(f.doubt), string(f.hold.why), f.task)
	}
	if err != nil {
		return ignoreMoved(err, a.frame)
	}
	if do != keep && do != leave && do != give {
		c.incoming.mailbox.Forget(a.message.UUID)
		c.incoming.mailbox.Forget(a.frame)
	}
	if (do == keep || do == takeBack) && f.hold.why != "" {
		next := cmp.Or(f.hold.next, c.nextTry(a.message))
		if f.hold.next.IsZero() && do == keep && a.session != "" { // the transcript may show it at any time
			next = time.Now().Add(min(time.Since(a.message.SentAt)/4+c.timing.look, c.timing.repeat/8))
		}
		err = l.PaneMessages.Hold(ctx, a.message.UUID, string(f.hold.why), f.hold.detail, next)
	}
	return err
}

func (c *carrier) nextTry(m ledger.PaneMessage) time.Time {
	wait := c.timing.maxTry
	if m.Tries < 16 {
		wait = min(c.timing.firstTry<<m.Tries, wait)
	}
	return time.Now().Add(wait)
}

// ignoreMoved returns err, or nil if another process has dropped or removed the message since it was read.
// In that case the step changed nothing.
func ignoreMoved(err error, uuids ...string) error {
	state, ok := errors.AsType[*ledger.StateError](err)
	if errors.Is(err, ledger.ErrUnknown) || ok && slices.Contains(uuids, state.UUID) {
		return nil
	}
	return err
}
