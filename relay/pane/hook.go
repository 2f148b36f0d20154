package pane

import (
	"cmp"
	"context"
	"slices"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/peer"
	"teambridge/relay/tmux"
	"teambridge/relay/wake"
	"teambridge/teams/transcript"
)

// hook is the way by the waiting hook of a session. Messages that are handed over together make one turn.
type hook struct{ *session }

func (w hook) look(ctx context.Context, a *attempt) (facts, error) {
	return w.seen(ctx, a, w.away(a))
}

func (w hook) give(ctx context.Context, a *attempt) (facts, error) {
	list, err := w.together(ctx, a.message)
	a.uuids = nil
	var messages []wake.Message
	for _, m := range list {
		a.uuids = append(a.uuids, m.UUID)
		messages = append(messages, wake.Message{ID: m.UUID, From: m.From, Text: string(m.Raw)})
	}
	if err != nil || !slices.Contains(a.uuids, a.message.UUID) { // it has just been dropped
		return facts{pending: true}, err
	}
	return w.write(ctx, a, func() error { return wake.Hand(ctx, w.opts.State, w.now.PID, wake.Text(messages)) })
}

// away says why the hook is not waiting for messages now; zero if it is.
func (w hook) away(a *attempt) (h hold) {
	if w.reach(w.now) != ByHook || wake.Waits(w.opts.State, w.now.PID) {
		return h
	}
	switch h.why = tmux.TooSoon; {
	case w.now.Status == transcript.ProcessWaiting:
		h.why, h.detail = tmux.Dialog, whyBusy(w.now)
	case a.frame != "":
		h.detail = "the session does not show it yet"
	default:
		h.detail = "the session works, and takes messages once in each turn"
	}
	if a.frame == "" { // the hook waits again soon
		h.next = time.Now().Add(min(time.Since(cmp.Or(a.message.HeldSince, time.Now()))/8+w.timing.look/2, 2*time.Second))
	}
	return h
}

// together returns the messages that are handed over with the first, and the first.
func (w hook) together(ctx context.Context, first ledger.PaneMessage) (list []ledger.PaneMessage, err error) {
	all, err := w.opts.Ledger.PaneMessages.List(ctx, first.InboxKey)
	size := len(first.Raw)
	for _, m := range all {
		switch {
		case m.UUID == first.UUID:
			list = append(list, m)
			continue
		case m.Frame != first.Frame, m.State.Ended():
			continue
		case first.Frame == "" && (m.State != ledger.Claimed || w.queue.expired(m) || m.Policy == string(tmux.WhenIdle) && w.now.Status != transcript.ProcessIdle):
			continue
		}
		if size += len(m.Raw); first.Frame == "" && size > peer.MaxText {
			break
		}
		list = append(list, m)
	}
	return list, err
}
