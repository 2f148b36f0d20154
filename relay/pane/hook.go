package pane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
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
	ByHook   Reach = "hook"  // the waiting hook: see package wake
	ByCodex  Reach = "codex" // Codex's shared server: see package codex
	Deaf     Reach = "deaf"  // the socket that it names is not there, and it has no hook
	Nowhere  Reach = ""
)

// ReachOf returns how messages get into the session of a process, and the process as its hook knows it. The socket comes
// first, if it is there.
func ReachOf(state string, s transcript.Process) (transcript.Process, Reach) {
	if program := (Homes{}).of(ProgramOf(s)); program != nil {
		switch {
		case program.takes(s) != "":
			return s, Nowhere
		case s.Socket != "":
			return s, BySocket
		}
		return s, ByCodex
	}
	s = wake.Started(s) // even if the hook is gone, it is the same process
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

// together returns the messages that are written to a session at once, given the first: those that a hook hands over make one turn.
func (p *Panes) together(ctx context.Context, s transcript.Process, first ledger.PaneMessage) ([]ledger.PaneMessage, error) {
	if p.reach(s) != ByHook {
		return []ledger.PaneMessage{first}, nil
	}
	all, err := p.opts.Ledger.PaneMessages(ctx, first.InboxKey)
	if err != nil {
		return nil, err
	}
	var list []ledger.PaneMessage
	size := len(first.Raw)
	for _, m := range all {
		switch {
		case m.UUID == first.UUID:
			list = append(list, m)
			continue
		case m.Frame != first.Frame, m.State.Ended():
			continue
		case first.Frame == "" && (m.State != ledger.Claimed || p.expired(m) || m.Policy == string(tmux.WhenIdle) && s.Status != transcript.ProcessIdle):
			continue
		}
		if size += len(m.Raw); first.Frame == "" && size > peer.MaxText {
			break
		}
		list = append(list, m)
	}
	return list, nil
}

// uuids are the deliveries of messages.
func uuids(messages []ledger.PaneMessage) (list []string) {
	for _, m := range messages {
		list = append(list, m.UUID)
	}
	return list
}

// write writes messages of a frame to a session, those to a socket for the try-th time. The error is [peer.ErrUnsent] if they certainly did not come there.
func (p *Panes) write(ctx context.Context, root string, to transcript.Process, frame string, messages []ledger.PaneMessage, try int) error {
	if program := p.opts.Homes.of(ProgramOf(to)); program != nil {
		return program.write(ctx, p, to, frame, messages[0])
	}
	if to.Socket != "" && p.reach(to) != ByHook {
		return p.mailbox.Send(ctx, root, to, messageOf(messages[0], try))
	}
	var list []wake.Message
	for _, m := range messages {
		list = append(list, wake.Message{ID: m.UUID, From: m.From, Text: string(m.Raw)})
	}
	err := wake.Hand(ctx, p.opts.State, to.PID, wake.Text(list))
	if errors.Is(err, wake.ErrUnsent) {
		err = fmt.Errorf("%w: %s", peer.ErrUnsent, strings.TrimPrefix(err.Error(), wake.ErrUnsent.Error()+": "))
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
	return tmux.TooSoon, "the session works, and takes messages once in each turn"
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
