package ledger

import (
	"context"
	"errors"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Sessions are the sessions of the agents behind the inboxes, with the state of their relays and their handoffs. The
// tables are sessions and handoffs.
type Sessions struct{ *file }

// A Session is the agent behind an inbox: its session and the last process that was started for it.
type Session struct {
	inbox.InboxKey
	ID      string // of the session
	PID     int    // of the process
	Group   int    // its process group
	Start   string // start time of the process, from the system; "" without a process
	Command string // of the process
	At      time.Time
	Dead    string // why the relay gave up; "" if it did not

	// Mode is the agent's mode, as JSON: at first the mode of the relay, then that of the last frame, with which
	// [Frames.Commit] records it.
	Mode []byte

	// PermissionMode is the permission mode that the agent last reported, in its own words; empty if it has reported
	// none since its start.
	PermissionMode string

	// The last report of the relay about itself. It cannot report that it was killed.
	State  RelayState
	Reason string // why it is in that state; may be empty
	Relay  int    // the process that relays

	// ShutDown is why the agent was ended for good, or "". [Replies.EndShutdown] sets it, SetSession does not.
	ShutDown string

	// Acked is when the agent last acknowledged a frame, in UTC; zero if it never did. [Frames.Advance] sets it,
	// SetSession does not.
	Acked time.Time
}

// RelayState is the state of a relay, as it reports.
type RelayState string

// The events of holds, in [Events.After]: see [Hold].
const (
	RelayHeld     RelayState = "held"
	RelayReleased RelayState = "released"
)

// The recorded states of a relay. The frames say whether one is in flight.
const (
	RelayWaiting   RelayState = "waiting"     // for the agent of an earlier relay to end
	RelayStarting  RelayState = "starting"    // an agent is being started
	RelayRunning   RelayState = "running"     // the agent runs
	RelayAsleep    RelayState = "asleep"      // the agent was idle and was ended; the next message starts it
	RelayBackOff   RelayState = "backing off" // the agent ended, and is started again in a while
	RelayDead      RelayState = "dead"        // the relay gave up
	RelayEnded     RelayState = "ended"       // on request, or for the reason
	RelayLocal     RelayState = "local"       // the agent runs in a person's terminal: see [Handoff]
	RelaySwitching RelayState = "switching"   // the agent is being moved to or from there
)

// EndedAsleep is the reason of [RelayEnded] if the relay ended on request while its agent was asleep. The next relay
// leaves it asleep until a message comes.
const EndedAsleep = "its agent was asleep"

// SetSession records the session of an inbox, durably, and replaces the earlier record. A zero At is now. It fails
// with *[ValueError].
func (l Sessions) SetSession(ctx context.Context, s Session) error {
	if err := errors.Join(checkInbox(s.InboxKey), content("mode", s.Mode)); err != nil {
		return err
	}
	return l.write(ctx, "set session", durable, func(c *sqlite.Conn) error {
		inboxID, err := addInbox(c, s.InboxKey)
		if err != nil {
			return err
		}
		_, err = c.Exec(`INSERT INTO sessions (inbox_id, id, pid, process_group, start, command, dead, at, state, reason, relay, mode, permission_mode)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET id=excluded.id, pid=excluded.pid,
			process_group=excluded.process_group, start=excluded.start, command=excluded.command, dead=excluded.dead,
			at=excluded.at, state=excluded.state, reason=excluded.reason, relay=excluded.relay, mode=excluded.mode,
			permission_mode=excluded.permission_mode`,
			inboxID, s.ID, s.PID, s.Group, s.Start, s.Command, s.Dead, micros(s.At), string(s.State), s.Reason, s.Relay, s.Mode, s.PermissionMode)
		return err
	})
}

// Revive forgets, durably, that the relay of an inbox gave up or that its agent was shut down, so that a service
// starts it again. Otherwise, or without a session, it does nothing.
func (l Sessions) Revive(ctx context.Context, k inbox.InboxKey) error {
	if err := checkInbox(k); err != nil {
		return err
	}
	return l.exec(ctx, "revive", durable, "UPDATE sessions SET dead='', shut_down='' WHERE inbox_id="+thisInboxID, inboxArgs(k)...)
}

// SetAnswers records, durably, whether the relay of an inbox answers for its agent. If so,
// each frame that ends from then on is [Replies.Owed], by the commit that ends it, and
// [Deliveries.Waiting] stops before the first shutdown request. It also forgets that the agent
// was shut down. It does nothing if the inbox has no [Session].
func (l Sessions) SetAnswers(ctx context.Context, k inbox.InboxKey, on bool) error {
	if err := checkInbox(k); err != nil {
		return err
	}
	return l.exec(ctx, "set answers", durable, "UPDATE sessions SET answers=?, shut_down='' WHERE inbox_id="+thisInboxID, inboxArgs(k, on)...)
}

// Session returns the session of an inbox, and whether there is one.
func (l Sessions) Session(ctx context.Context, k inbox.InboxKey) (Session, bool, error) {
	if err := checkInbox(k); err != nil {
		return Session{}, false, err
	}
	return first(l.list(ctx, "session", thisInbox, inboxArgs(k)...))
}

// first returns the first element of a list, and whether there is one.
func first[T any](list []T, err error) (v T, found bool, _ error) {
	if err != nil || len(list) == 0 {
		return v, false, err
	}
	return list[0], true, nil
}

// List returns the sessions of a Claude root, or of every root if root is "", sorted by
// root, team, creation time of the team and inbox.
func (l Sessions) List(ctx context.Context, root string) ([]Session, error) {
	return l.list(ctx, "sessions", inRoot, root)
}

// inRoot is the condition that an inbox is in a Claude root, or true if the root is "", with the order of the result.
const inRoot = "?1='' OR root=?1 ORDER BY root, team, created_at, inbox"

func (l Sessions) list(ctx context.Context, op, rest string, args ...sqlite.Value) ([]Session, error) {
	return sqlite.Select(ctx, l.db, op, scanSession, "SELECT "+sessionColumns+" FROM inboxes JOIN sessions USING (inbox_id) WHERE "+rest, args...)
}

const sessionColumns = `root, team, created_at, inbox, id, pid, process_group, start, command, dead, at,
	sessions.state, sessions.reason, relay, acked, mode, shut_down, permission_mode`

// sessionFields is the number of sessionColumns.
const sessionFields = 18

func scanSession(v sqlite.Row) Session {
	s := Session{
		InboxKey: scanKey(v, 0), ID: v.Text(4), PID: int(v.Int(5)), Group: int(v.Int(6)), Start: v.Text(7),
		Command: v.Text(8), Dead: v.Text(9), At: v.Time(10),
		State: RelayState(v.Text(11)), Reason: v.Text(12), Relay: int(v.Int(13)), Mode: v.Blob(15), ShutDown: v.Text(16), PermissionMode: v.Text(17),
	}
	if v.Bool(14) {
		s.Acked = v.Time(14)
	}
	return s
}

// A RelayInfo is the recorded state of a relay. It does not show whether the relay still runs.
type RelayInfo struct {
	Session
	Open     int      // deliveries that have not ended
	Failed   int      // failed deliveries, about which a person has not decided yet
	InFlight string   // uuid of the frame or nudge that has not ended; "" for none
	Handoff  *Handoff // of a session that can move, without its draft; else nil
}

// RelayInfos lists the states of the relays of a Claude root, or of every root if root is
// "", in the order of [Sessions.List].
func (l Sessions) RelayInfos(ctx context.Context, root string) ([]RelayInfo, error) {
	return l.relayInfos(ctx, inRoot, root)
}

// RelayInfo returns the state of the relay of an inbox, and whether there ever was one.
func (l Sessions) RelayInfo(ctx context.Context, k inbox.InboxKey) (RelayInfo, bool, error) {
	if err := checkInbox(k); err != nil {
		return RelayInfo{}, false, err
	}
	return first(l.relayInfos(ctx, thisInbox, inboxArgs(k)...))
}

func (l Sessions) relayInfos(ctx context.Context, rest string, args ...sqlite.Value) ([]RelayInfo, error) {
	return sqlite.Select(ctx, l.db, "relay infos", func(v sqlite.Row) RelayInfo {
		i := RelayInfo{Session: scanSession(v), Open: int(v.Int(sessionFields)), Failed: int(v.Int(sessionFields + 1)), InFlight: v.Text(sessionFields + 2)}
		if h := scanHandoff(v, sessionFields+3); h.At != "" {
			h.InboxKey, i.Handoff = i.InboxKey, &h
		}
		return i
	}, `SELECT `+sessionColumns+`,
		(SELECT count(*) FROM deliveries WHERE inbox_id=inboxes.inbox_id AND `+unended+`),
		(SELECT count(*) FROM deliveries WHERE inbox_id=inboxes.inbox_id AND state='failed'),
		coalesce((SELECT uuid FROM frames WHERE inbox_id=inboxes.inbox_id AND `+unended+` ORDER BY kind='nudge' DESC LIMIT 1), ''),
		`+handoffColumns+`
		FROM inboxes JOIN sessions USING (inbox_id) LEFT JOIN handoffs USING (inbox_id) WHERE `+rest, args...)
}
