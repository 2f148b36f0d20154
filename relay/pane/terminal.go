package pane

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
)

// terminal is the way to a pane: it types the message, and presses Enter. Each of the two steps is committed first.
// After the first commit the message is only continued, by [tmux.Continue], which cannot paste.
type terminal struct {
	*carrier
	of     Pane
	agent  transcript.Process
	record *proof
}

func (t *terminal) look(ctx context.Context, a *attempt) (f facts, _ error) {
	old := CheckVersion(t.agent, "it")
	switch {
	case a.frame != "" && old != nil: // the text may be at the prompt, where Enter would give it to the agent
		if f = t.record.shown(ctx); !f.shown {
			f = t.outcome(a, tmux.Outcome{State: tmux.Unconfirmed, Reason: tmux.Outdated, Detail: old.Error()}, nil)
		}
	case a.frame != "": // give continues it
	case old != nil:
		f.hold = hold{why: tmux.Outdated, detail: old.Error()}
	case t.agent.Status == transcript.ProcessWaiting: // reported up to 0.3 s before the dialog is on the screen
		f.hold = hold{why: tmux.Dialog, detail: "the agent asks something"}
	}
	return f, nil
}

func (t *terminal) give(ctx context.Context, a *attempt) (facts, error) {
	// After the paste, a delivery goes on for up to timing.finish even if ctx has ended.
	var pasted atomic.Bool
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		if pasted.Load() {
			time.AfterFunc(t.timing.finish, cancel)
		} else {
			cancel()
		}
	})
	defer stop()
	input := typed(a.message)
	steps := tmux.Steps{
		Pasting: func(context.Context) error {
			pasted.Store(true)
			return t.commit(ctx, a, input.Line(), "")
		},
		Entered: func(ctx context.Context) error {
			err := t.opts.Ledger.Frames.Advance(ctx, a.frame, ledger.Accepted, "")
			if err == nil {
				t.changed(t.of.InboxKey)
			}
			return err
		},
		Submitted: func(ctx context.Context) (bool, error) { return t.record.shown(ctx).shown, nil },
	}
	var out tmux.Outcome
	var err error
	if a.frame == "" {
		out, err = t.tmux.send(sending, t.of.Ref, t.of.Profile, input, steps)
	} else {
		pasted.Store(true)
		out, err = t.tmux.resume(sending, t.of.Ref, t.of.Profile, input, a.message.State == ledger.Accepted, steps)
	}
	f := t.outcome(a, out, err)
	if f.shown {
		f = t.begun(context.WithoutCancel(ctx), out)
	}
	return f, ignoreMoved(err, a.message.UUID)
}

// outcome returns the facts after a try.
func (t *terminal) outcome(a *attempt, out tmux.Outcome, failed error) (f facts) {
	m, detail := a.message, cmp.Or(out.Detail, string(out.Reason))
	if failed != nil {
		detail = cmp.Or(out.Detail, failed.Error())
	}
	if out.Reason == "" && (errors.Is(failed, context.Canceled) || errors.Is(failed, context.DeadlineExceeded)) {
		out.Reason, detail = tmux.Reason(m.Held), cmp.Or(m.Detail, detail) // an interrupted look has found nothing new
	}
	why := hold{why: cmp.Or(out.Reason, tmux.Unknown), detail: detail}
	switch {
	case out.State == tmux.Confirmed:
		f.shown = true
	case out.State == tmux.NotSent && m.Frame == "":
		f.absent, f.hold = cmp.Or(detail, string(why.why)), why
	case time.Since(cmp.Or(m.SentAt, time.Now())) < t.patience(m, out, failed):
		f.hold = why
	default:
		f.last, f.doubt = true, detail
		if out.Reason == tmux.NotProven && t.of.Profile == tmux.Generic && m.Notify {
			f.task = ledger.TaskStaged // there is never a proof, but a hook may report the end
		}
	}
	return f
}

// patience returns for how long after the paste a proof of a message may still appear.
func (t *terminal) patience(m ledger.PaneMessage, out tmux.Outcome, failed error) time.Duration {
	switch out.Reason {
	case tmux.Outdated, tmux.Stuck, tmux.InMode, tmux.InputOff, tmux.Synchronized, tmux.Dialog, tmux.Unknown:
		return t.timing.expire
	case tmux.NotShown:
		if m.Frame != "" { // another process pasted it, and the transcript may lag behind
			return t.timing.lag
		}
	}
	if failed != nil {
		return t.timing.expire
	}
	return 0
}

// begun returns the facts of a message that the program has taken.
func (t *terminal) begun(ctx context.Context, out tmux.Outcome) facts {
	f := t.record.has(ctx)
	switch {
	case f.shown:
	case out.Busy || t.of.Profile != tmux.Claude:
		f.task = ledger.TaskStaged // the turn is not known: a late end is better than an early one
	default:
		f.task = ledger.TaskArmed
	}
	f.shown = true
	return f
}
