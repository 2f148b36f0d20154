package relay

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// Stopped is the state of a relay that is not running: it ended, or its process is gone.
const Stopped State = "stopped"

// Ended is the state of a relay whose agent was shut down for good on request: see package reply.
const Ended = ledger.RelayEnded

// Info is the state of a relay as seen by other processes.
type Info struct {
	inbox.InboxKey
	Running bool // its process is alive
	State   State
	Reason  string // why it waits, backs off, is dead, stopped or ended
	Relay   int    // its process; 0 if it is not running
	PID     int    // of the agent, which can outlive the relay; 0 while there is none
	Session string // of the agent
	Command string // the agent's command
	// PermissionMode is the mode that the agent reports; empty if it has reported none, or no agent runs.
	PermissionMode string
	Queue          int // deliveries claimed and not done
	Failed         int // failed deliveries that nobody has dismissed or requeued
	LastAck        time.Time
	Started        time.Time       // when the agent was last started; zero if it never was
	Held           []ledger.Hold   // senders whose messages are held until released
	Handoff        *ledger.Handoff // of a session that can move, without its draft; nil unless its launcher runs
}

// lockOf returns the directory and the key of the lock of an inbox's relay, for [lockedfile.Hold].
func lockOf(state, path string) (dir, key string) {
	return filepath.Join(state, "locks"), "relay\n" + path
}

// RunID is the id of a relay that was started without a service: a version 5 UUID of its inbox key, so that
// it stays the same from run to run.
func RunID(p inbox.InboxKey) string { return ledger.DeriveID(ledger.RelayIDs, "run", p.Identity()) }

// Running reports whether a relay serves an inbox now. state is the state directory.
func Running(state string, t *teams.Team, member string) (bool, error) {
	return lockedfile.Held(lockOf(state, t.InboxFile(member)))
}

// StillRunning is [Running], but waits up to d, or until ctx ends, for a killed relay's lock to be freed (see
// [lockedfile.Handover]).
func StillRunning(ctx context.Context, d time.Duration, state string, t *teams.Team, member string) (bool, error) {
	dir, key := lockOf(state, t.InboxFile(member))
	release, err := lockedfile.HoldWithin(ctx, d, dir, key)
	if errors.Is(err, lockedfile.ErrLocked) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	return false, release()
}

// Stat returns the state of a member's relay, and whether there ever was one in this instance of the team. A
// relay that has just started has a zero Info with Running.
func Stat(ctx context.Context, l *ledger.Ledger, state string, t *teams.Team, c *teams.Config, member string) (o Info, found bool, err error) {
	post := inbox.KeyOf(t, c, member)
	running, err := Running(state, t, member)
	if err != nil {
		return Info{}, false, err
	}
	s, found, err := l.Sessions.RelayInfo(ctx, post)
	if err != nil || !found && !running {
		return Info{}, false, err
	}
	s.InboxKey = post
	o = newInfo(s, running)
	o.Held, err = l.Holds.Held(ctx, post)
	return o, true, err
}

// newInfo combines the ledger's record with whether the relay runs.
func newInfo(s ledger.RelayInfo, running bool) Info {
	o := Info{
		InboxKey: s.InboxKey, Running: running, State: Stopped, Reason: s.Reason, PID: s.PID, Session: s.ID, Command: s.Command,
		Queue: s.Open, Failed: s.Failed, LastAck: s.Acked, Started: s.At,
	}
	if !running {
		switch {
		case s.Dead != "":
			o.State, o.Reason = Dead, s.Dead
		case s.ShutDown != "":
			o.State, o.Reason = Ended, s.ShutDown
		case s.State == ledger.RelayEnded && s.Reason == ledger.EndedAsleep:
			o.Reason = ""
		case s.State != ledger.RelayEnded:
			o.Reason = "its process is gone without having ended it"
			if s.Handoff != nil {
				o.Reason += "; run it again to go on with its session"
			}
		}
		return o
	}
	o.Relay, o.Handoff, o.PermissionMode = s.Relay, s.Handoff, s.PermissionMode
	switch s.State {
	case ledger.RelayWaiting, ledger.RelayBackOff, ledger.RelayAsleep, ledger.RelayLocal, ledger.RelaySwitching:
		o.State = s.State
	case ledger.RelayRunning:
		if o.State = Idle; s.Open > 0 {
			o.State = Working
		}
	default:
		// The record is of an earlier run; a new one is starting.
		o.State, o.Reason, o.Relay = Starting, "", 0
	}
	return o
}

// Facts returns the facts for [teams.Config.Deliverability]. Without a ledger, only whether a relay runs is
// known. A member counts as headless if it was ever relayed to, unless it has joined again since, or is a
// lead whose process runs, which is then in a terminal.
func Facts(ctx context.Context, l *ledger.Ledger, state string, t *teams.Team, c *teams.Config, member string) (teams.Facts, error) {
	running, err := Running(state, t, member)
	f := teams.Facts{Headless: running, Relayed: running}
	if !running && err == nil {
		now := time.Now()
		f.Lead, f.Agent = t.LeadState(c, now), t.AgentState(c, member, now)
	}
	if err != nil || l == nil {
		return f, err
	}
	s, found, err := l.Sessions.Session(ctx, inbox.KeyOf(t, c, member))
	if running {
		f.AtTerminal = found && s.State == ledger.RelayLocal
	} else {
		f.Headless = found && headless(t, c, member, s)
	}
	return f, err
}

func headless(t *teams.Team, c *teams.Config, member string, s ledger.Session) bool {
	m, ok := c.Member(member)
	if lead, _ := c.Lead(); ok && member == lead.Name {
		_, state := t.Leader(c)
		ok = state != teams.Alive
	}
	return ok && !m.JoinedAt.After(s.At)
}
