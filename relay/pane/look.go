package pane

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/tmux"
	"teambridge/teams/transcript"
)

// Look returns the state of the program in a pane, and the messages with an open delivery or task. It reads the
// screen twice. A pane that is gone is no error.
func (vs *Views) Look(ctx context.Context, of Pane) (View, error) {
	v, err := vs.see(ctx, of)
	if err != nil || vs.opts.Ledger == nil { // nothing was sent
		return v, err
	}
	v.Messages, err = vs.opts.Ledger.PaneMessages.List(ctx, of.InboxKey)
	return v, err
}

// LookAll looks at panes, all at the same time, as [Views.Look] does at one.
func (vs *Views) LookAll(ctx context.Context, list []Pane) ([]View, error) {
	views, errs := make([]View, len(list)), make([]error, len(list))
	var looks sync.WaitGroup
	for i, of := range list {
		looks.Go(func() { views[i], errs[i] = vs.Look(ctx, of) })
	}
	looks.Wait()
	return views, errors.Join(errs...)
}

func (vs *Views) see(ctx context.Context, of Pane) (View, error) {
	if of.IsSession() {
		return vs.seeSession(ctx, of)
	}
	v := View{Pane: of, At: time.Now().UTC(), Basis: OnPane, PID: of.Ref.PID}
	var err error
	if v.Terminal, err = vs.tmux.look(ctx, of.Ref); errors.Is(err, tmux.ErrGone) {
		v.State, v.Why = tmux.Gone, "the pane is gone"
		return v, nil
	} else if err != nil {
		return v, err
	}
	if v.Terminal.Dead {
		v.State, v.Why = tmux.Gone, "the program in the pane has ended"
		return v, nil
	}
	v.Process = vs.process(of.Ref.PID)
	v.PID = cmp.Or(v.Process.PID, v.PID)
	if old := CheckVersion(v.Process, "it"); old != nil && of.Profile == tmux.Claude {
		v.State, v.Why, v.Basis = tmux.Unknown, old.Error(), OnProcess
		return v, nil
	}
	if v.Composer, err = vs.tmux.composer(ctx, of.Ref, of.Profile); errors.Is(err, tmux.ErrGone) {
		v.State, v.Why = tmux.Gone, "the pane is gone"
		return v, nil
	} else if err != nil {
		return v, err
	}
	v.Basis = OnScreen
	v.State = v.Composer.State()
	switch v.State {
	case tmux.Dialog:
		v.Why = v.Composer.Dialog
	case tmux.Draft:
		v.Why = "somebody has typed at the prompt"
	case tmux.Unknown:
		reason, detail, err := vs.tmux.held(ctx, of.Ref, of.Profile, tmux.Queued)
		if err != nil {
			return v, err
		}
		v.Why = cmp.Or(detail, "the screen does not show what the program does")
		if reason.NoAgent() {
			v.State, v.Basis = tmux.Closed, OnPane
		}
	}
	// The process reports its current state, but a screen can be scrolled back.
	switch status := v.Process.Status; {
	case v.State == tmux.Closed:
	case status == transcript.ProcessBusy, status == transcript.ProcessShell:
		v.State, v.Basis, v.Since = tmux.Busy, OnProcess, v.Process.Changed
		v.Why = ""
	case status == transcript.ProcessWaiting:
		v.State, v.Basis, v.Since = tmux.Dialog, OnProcess, v.Process.Changed
		v.Why = cmp.Or(v.Composer.Dialog, v.Process.WaitingFor)
	case status == transcript.ProcessIdle && (v.State == tmux.Empty || v.State == tmux.Unknown && v.Terminal.Mode != ""):
		v.State, v.Basis, v.Since = tmux.Empty, OnProcess, v.Process.Changed
	}
	return v, nil
}

// atWork says what the program in a pane does, or why that is not known; "" if two looks show that it is idle. With
// typing, a program that does nothing counts as idle even if a person's draft is at its prompt.
func (vs *Views) atWork(ctx context.Context, of Pane, typing bool) (why string, err error) {
	for n := range 2 {
		if n > 0 {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(vs.timing.look):
			}
		}
		v, err := vs.see(ctx, of)
		if err != nil {
			return "", err
		}
		if v.State != tmux.Empty && !(typing && v.State == tmux.Draft && !v.Composer.Busy) {
			return cmp.Or(v.Why, string(v.State)), nil
		}
	}
	return "", nil
}

// Busy says why a pane is not idle: its program works, a person has typed something, or a
// message of ours waits, is being delivered, or has an open task. It is "" if two looks
// show an idle program with an empty composer, and there is no such message. So Busy never
// returns "" in the moment between two tasks.
func (t *Tasks) Busy(ctx context.Context, of Pane) (why string, err error) {
	if why, err = t.unfinished(ctx, of); err != nil || why != "" {
		return why, err
	}
	if why, err = t.views.atWork(ctx, of, false); why != "" && t.views.saysIdle(ctx, of) {
		why = ""
	}
	if err != nil || why != "" {
		return why, err
	}
	// A message may have come during the look.
	return t.unfinished(ctx, of)
}

// unfinished describes a message to a pane with an open delivery or task; "" if there is none.
func (t *Tasks) unfinished(ctx context.Context, of Pane) (why string, err error) {
	messages, err := t.opts.Ledger.PaneMessages.List(ctx, of.InboxKey)
	if err != nil || len(messages) == 0 {
		return "", err
	}
	switch m := messages[0]; {
	case m.State == ledger.Claimed:
		why = "a message waits" + because(m.Detail)
	case !m.State.Ended():
		why = "a message is being delivered" + because(m.Detail)
	default:
		// Follow it here, since there may be no service.
		why, err = "the task of message "+Nonce(m.UUID)+" has not ended", t.follow(ctx, of, messages)
	}
	return why, err
}

func because(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}
