package pane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"teambridge/inbox/ledger"
	"teambridge/relay/peer"
	"teambridge/relay/tmux"
	"teambridge/relay/wake"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// Reach is how what is written gets into a session.
type Reach string

// The ways into a session.
const (
	BySocket Reach = "socket"
	ByHook   Reach = "hook" // the waiting hook: see package wake
	Deaf     Reach = "deaf" // the socket that it names is not there, and it has no hook
	Nowhere  Reach = ""
)

// ReachOf returns how messages get into the session of a process, and the process as its hook knows it. The socket comes
// first, if it is there.
func ReachOf(state string, s transcript.Process) (transcript.Process, Reach) {
	if _, err := os.Stat(s.Socket); s.Socket != "" && !errors.Is(err, fs.ErrNotExist) {
		return s, BySocket
	}
	if h, ok := wake.Of(state, s); ok {
		if known := h.Complete(s); teams.StateOf(known) != teams.Gone {
			return known, ByHook
		}
	}
	if s.Socket != "" {
		return s, Deaf
	}
	return s, Nowhere
}

func (p *Panes) reach(s transcript.Process) Reach {
	_, by := ReachOf(p.opts.State, s)
	return by
}

// known is the process as its hook knows it.
func (p *Panes) known(s transcript.Process) transcript.Process {
	s, _ = ReachOf(p.opts.State, s)
	return s
}

// write writes a message to a session. The error is [peer.ErrUnsent] if it certainly did not come there.
func (p *Panes) write(ctx context.Context, root string, to transcript.Process, m peer.Message) error {
	if to.Socket != "" && p.reach(to) != ByHook {
		return p.mailbox.Send(ctx, root, to, m)
	}
	err := wake.Hand(ctx, p.opts.State, to.PID, wake.Message{ID: m.ID, From: m.From, Text: m.Text}.String())
	if errors.Is(err, wake.ErrUnsent) {
		err = fmt.Errorf("%w: %w", peer.ErrUnsent, err)
	}
	return err
}

// wakes says why nothing can be handed to the hook of a session now; "" if it waits, or the session has no hook.
func (p *Panes) wakes(s transcript.Process) (tmux.Reason, string) {
	switch {
	case s.PID == 0 || p.reach(s) != ByHook || wake.Waits(p.opts.State, s.PID):
		return "", ""
	case s.Status == transcript.ProcessWaiting:
		return tmux.Dialog, whyBusy(s)
	}
	return tmux.TooSoon, "the session works, and takes one message in each turn"
}

// again is when to look again at a message that was not written. A hook is back soon.
func (p *Panes) again(s transcript.Process, m ledger.PaneMessage) time.Time {
	if why, _ := p.wakes(s); why == "" {
		return p.nextTry(m)
	}
	since := time.Duration(0)
	if !m.HeldSince.IsZero() {
		since = time.Since(m.HeldSince)
	}
	return time.Now().Add(min(since/8+p.timing.look/2, 2*time.Second))
}
