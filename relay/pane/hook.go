package pane

import (
	"context"
	"errors"
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
	ByHook   Reach = "hook"  // the waiting hook: see package wake
	ByCodex  Reach = "codex" // Codex's shared server: see package codex
	Deaf     Reach = "deaf"  // the socket that it names is not there, and it has no hook
	Nowhere  Reach = ""

	Outdated Reach = "outdated" // it is a Claude Code that is known to be older than [teams.Oldest]: nothing is written to it
)

// ReachOf returns how messages get into the session of a process. The socket comes first, if it is there, unless the person
// wants the hook to be the way.
func ReachOf(state string, s transcript.Process) Reach {
	if program := (Homes{}).of(ProgramOf(s)); program != nil {
		switch {
		case program.takes(s) != "":
			return Nowhere
		case s.Socket != "":
			return BySocket
		}
		return ByCodex
	}
	if CheckVersion(s, "") != nil {
		return Outdated
	}
	h, hooked := wake.Of(state, s)
	if _, err := os.Stat(s.Socket); s.Socket != "" && !errors.Is(err, fs.ErrNotExist) && !(hooked && h.Unasked) {
		return BySocket
	}
	switch {
	case hooked:
		return ByHook
	case s.Socket != "":
		return Deaf
	}
	return Nowhere
}

func (s *shared) reach(of transcript.Process) Reach { return ReachOf(s.opts.State, of) }

// CheckVersion returns a [*teams.OutdatedError] if the session of a process is one of a Claude Code that is known to be older
// than [teams.Oldest]. Versions of other programs are not compared. Who names the session in the error.
func CheckVersion(s transcript.Process, who string) error {
	if ProgramOf(s) != Session {
		return nil
	}
	v, _ := teams.ParseVersion(s.Version) // an unknown one counts as a current one
	return v.Check(who)
}

// Outdated returns a [*teams.OutdatedError] if the program of a pane or session is a Claude Code that is known to be older than
// [teams.Oldest]. Nothing is put into its queue then; what is in it waits until a current one goes on.
func (vs *Views) Outdated(ctx context.Context, of Pane) error {
	s := vs.agent(of)
	if of.IsSession() {
		var err error
		if s, err = vs.sessions.process(ctx, &of); err != nil {
			return err
		}
	}
	return CheckVersion(s, of.Inbox+"@"+of.Team)
}

// agent returns the process of Claude Code in a pane, as far as it is known.
func (vs *Views) agent(of Pane) transcript.Process {
	if of.Profile != tmux.Claude {
		return transcript.Process{}
	}
	return vs.process(of.Ref.PID)
}

// together returns the messages that are written to a session at once, given the first: those that a hook hands over make one turn.
func (c *carrier) together(ctx context.Context, s transcript.Process, first ledger.PaneMessage) ([]ledger.PaneMessage, error) {
	if c.reach(s) != ByHook {
		return []ledger.PaneMessage{first}, nil
	}
	all, err := c.opts.Ledger.PaneMessages.List(ctx, first.InboxKey)
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
		case first.Frame == "" && (m.State != ledger.Claimed || c.queue.expired(m) || m.Policy == string(tmux.WhenIdle) && s.Status != transcript.ProcessIdle):
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

// write writes messages of a frame to a session, those to a socket for the try-th time. The error is a
// [*delivery.UnsentError] if they certainly did not come there.
func (c *carrier) write(ctx context.Context, root string, to transcript.Process, frame string, messages []ledger.PaneMessage, try int) error {
	if program := c.opts.Homes.of(ProgramOf(to)); program != nil {
		return program.write(ctx, c, to, frame, messages[0])
	}
	if to.Socket != "" && c.reach(to) != ByHook {
		return c.incoming.mailbox.Send(ctx, root, to, messageOf(messages[0], try))
	}
	var list []wake.Message
	for _, m := range messages {
		list = append(list, wake.Message{ID: m.UUID, From: m.From, Text: string(m.Raw)})
	}
	return wake.Hand(ctx, c.opts.State, to.PID, wake.Text(list))
}

// wakes says why nothing can be handed to the hook of a session now; "" if it waits, or the session has no hook.
func (c *carrier) wakes(s transcript.Process) (tmux.Reason, string) {
	switch {
	case s.PID == 0 || c.reach(s) != ByHook || wake.Waits(c.opts.State, s.PID):
		return "", ""
	case s.Status == transcript.ProcessWaiting:
		return tmux.Dialog, whyBusy(s)
	}
	return tmux.TooSoon, "the session works, and takes messages once in each turn"
}

// again is when to look again at a message that was not written. A hook is back soon.
func (c *carrier) again(s transcript.Process, m ledger.PaneMessage) time.Time {
	if why, _ := c.wakes(s); why == "" {
		return c.nextTry(m)
	}
	since := time.Duration(0)
	if !m.HeldSince.IsZero() {
		since = time.Since(m.HeldSince)
	}
	return time.Now().Add(min(since/8+c.timing.look/2, 2*time.Second))
}
