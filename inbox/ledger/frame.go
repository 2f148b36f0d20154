package ledger

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Frames are the lines that agents get. The tables are frames and lines.
type Frames struct{ *file }

// FrameKind is the purpose of a frame.
type FrameKind string

// The kinds of frames.
const (
	FrameMessage FrameKind = "message" // rows, or user prompts
	FrameNudge   FrameKind = "nudge"   // asks the agent to continue a turn that was cut
	FrameCommand FrameKind = "command" // one isolated user prompt
)

// A Frame is one line to the agent, which acknowledges it as a unit.
//
// An inbox has at most one frame in flight (not ended), and one nudge for that frame if its turn was cut. Until both
// have ended, no other frame is committed.
type Frame struct {
	UUID string
	inbox.InboxKey
	Kind    FrameKind
	Parent  string // of a nudge: the frame that was cut, never a nudge itself
	Bytes   []byte // the exact line, without a newline: a second try writes the same bytes
	Session string // to which it was last written
	State   DeliveryState
	Reason  string
	Tries   int       // how often it was written to a process
	Deaths  int       // how often the process died while it was in flight
	Nudges  int       // nudges made for this frame; 0 for a nudge
	At      time.Time // when it reached its state; kept to the microsecond, returned in UTC

	// Mode is used only by [Frames.Commit]. It is the agent's mode when the frame is written, as JSON, and becomes
	// the Mode of the [Session]. If empty, the session keeps its own.
	Mode []byte
}

func (f *Frame) check(deliveries int) error {
	if err := cmp.Or(checkInbox(f.InboxKey), names("uuid", f.UUID)); err != nil {
		return err
	}
	switch f.Kind {
	case FrameMessage, FrameCommand:
		if f.Parent != "" {
			return invalid("parent", "is given; only a nudge has one")
		}
		if deliveries == 0 {
			return invalid("deliveries", "are missing; only a nudge has none")
		}
	case FrameNudge:
		if err := names("parent", f.Parent); err != nil {
			return err
		}
		if deliveries != 0 {
			return invalid("deliveries", "are given; they stay with the frame that the nudge is about")
		}
	default:
		return invalid("kind", fmt.Sprintf("is %q, not message, nudge or command", f.Kind))
	}
	if len(f.Bytes) == 0 {
		return invalid("bytes", "are missing")
	}
	if bytes.IndexByte(f.Bytes, '\n') >= 0 {
		return invalid("bytes", "hold a newline, which would end the line")
	}
	return cmp.Or(content("bytes", f.Bytes), content("mode", f.Mode))
}

// Commit records a frame before its first byte is written, and puts deliveries into it. Frame and deliveries are then
// [FrameWritten]. When Commit returns nil this is on the disk, with the Mode of the session if f has one. It ignores
// State, Reason, Tries and Nudges. The frame's Deaths are those of its deliveries in earlier frames, see
// [Frames.Split]. A zero At is now.
//
// A nudge has no deliveries. Its parent and the parent's deliveries become [Cut], and the parent's Nudges grow by
// one. An earlier nudge whose turn was cut becomes [Failed].
//
// A frame that is recorded already, with the same bytes and deliveries, is not changed. Commit fails, and changes
// nothing, with
//
//   - *[StateError] if another frame is in flight, if a delivery is not claimed, not marked or in a frame, if the
//     parent of a nudge has ended or its last nudge was not cut, and if the frame is recorded and has ended;
//   - [ErrConflict] if the uuid belongs to another frame;
//   - [ErrUnknown] if a delivery, or the parent of a nudge, is not recorded;
//   - *[ValueError], also for deliveries of another inbox.
func (l Frames) Commit(ctx context.Context, f Frame, deliveries ...string) error {
	if err := f.check(len(deliveries)); err != nil {
		return err
	}
	return l.write(ctx, "commit", durable, func(c *sqlite.Conn) error { return commitFrame(c, f, deliveries) })
}

func commitFrame(c *sqlite.Conn, f Frame, deliveries []string) error {
	if was, found, err := frame(c, f.UUID); err != nil {
		return err
	} else if found {
		if was, err = withLine(c, was); err != nil {
			return err
		}
		return same(c, was, f, deliveries)
	}
	at := micros(f.At)
	if f.Kind == FrameNudge {
		if err := cutParent(c, f, at); err != nil {
			return err
		}
	} else if other, found, err := inFlight(c, f.InboxKey); err != nil {
		return err
	} else if found {
		return &StateError{Op: "commit", UUID: other.UUID, State: other.State, Want: "one frame is in flight at a time: wait for its end"}
	}
	if err := insertFrame(c, f, at); err != nil {
		return err
	}
	for _, uuid := range deliveries {
		if err := board(c, f, uuid, at); err != nil {
			return err
		}
	}
	if len(f.Mode) == 0 {
		return nil
	}
	_, err := c.Exec("UPDATE sessions SET mode=? WHERE inbox_id="+thisInboxID, inboxArgs(f.InboxKey, f.Mode)...)
	return err
}

// same refuses a frame that differs from the recorded frame with its uuid.
func same(c *sqlite.Conn, was, f Frame, deliveries []string) error {
	if was.InboxKey != f.InboxKey || was.Kind != f.Kind || was.Parent != f.Parent || !bytes.Equal(was.Bytes, f.Bytes) {
		return fmt.Errorf("ledger: commit %s: another frame has this uuid: %w", f.UUID, ErrConflict)
	}
	if was.State.Ended() {
		return &StateError{Op: "commit", UUID: f.UUID, State: was.State, Want: "a new frame needs a new uuid"}
	}
	for _, uuid := range deliveries {
		d, found, err := delivery(c, uuid)
		if err != nil {
			return err
		}
		if !found || d.Frame != f.UUID {
			return fmt.Errorf("ledger: commit %s: the frame with this uuid has other deliveries: %w", f.UUID, ErrConflict)
		}
	}
	n, err := c.Number("SELECT count(*) FROM deliveries WHERE frame=? AND "+unended, f.UUID)
	if err == nil && int(n) != len(deliveries) {
		err = fmt.Errorf("ledger: commit %s: the frame with this uuid has %d deliveries, not %d: %w", f.UUID, n, len(deliveries), ErrConflict)
	}
	return err
}

// cutParent brings the parent of a nudge, and the parent's deliveries, to Cut.
func cutParent(c *sqlite.Conn, nudge Frame, at int64) error {
	parent, found, err := frame(c, nudge.Parent)
	switch {
	case err != nil:
		return err
	case !found:
		return unknown("commit of a nudge for", nudge.Parent)
	case parent.InboxKey != nudge.InboxKey:
		return invalid("parent", fmt.Sprintf("is of another inbox, %v", parent.InboxKey))
	case parent.Kind == FrameNudge:
		return invalid("parent", "is a nudge; name the frame that one is about")
	case parent.State.Ended():
		return &StateError{Op: "commit", UUID: parent.UUID, State: parent.State, Want: "it needs no nudge"}
	}
	if last, _, err := inFlight(c, nudge.InboxKey); err != nil {
		return err
	} else if last.Kind == FrameNudge {
		if last.State != Cut {
			return &StateError{Op: "commit", UUID: last.UUID, State: last.State, Want: "a further nudge waits for its end"}
		}
		if err := setFrame(c, last.UUID, Failed, "cut; nudge "+nudge.UUID+" took its place", at); err != nil {
			return err
		}
	}
	if err := advance(c, parent, Cut, "", at); err != nil {
		return err
	}
	_, err = c.Exec("UPDATE frames SET nudges=nudges+1 WHERE uuid=?", parent.UUID)
	return err
}

func insertFrame(c *sqlite.Conn, f Frame, at int64) error {
	inboxID, err := addInbox(c, f.InboxKey)
	if err != nil {
		return err
	}
	if _, err := c.Exec(`INSERT INTO frames (uuid, inbox_id, kind, parent, session, state, reason, tries, deaths, nudges, at)
		VALUES (?, ?, ?, ?, ?, 'written', '', 0, ?, 0, ?)`, f.UUID, inboxID, string(f.Kind), f.Parent, f.Session, f.Deaths, at); err != nil {
		return err
	}
	_, err = c.Exec("INSERT INTO lines (uuid, line) VALUES (?, ?)", f.UUID, f.Bytes)
	return err
}

// board puts a delivery into a frame.
func board(c *sqlite.Conn, f Frame, uuid string, at int64) error {
	d, found, err := delivery(c, uuid)
	switch {
	case err != nil:
		return err
	case !found:
		return unknown("commit", uuid)
	case d.InboxKey != f.InboxKey:
		return invalid("deliveries", fmt.Sprintf("hold %s, which is of another inbox, %v", uuid, d.InboxKey))
	case d.State != Claimed || d.Frame != "":
		return &StateError{Op: "commit", UUID: uuid, State: d.State, Frame: d.Frame, Want: "only what is claimed and in no frame goes into one"}
	case !d.Marked:
		return &StateError{Op: "commit", UUID: uuid, State: d.State, Want: "mark it first: the agent could take the row itself"}
	}
	_, err = c.Exec("UPDATE deliveries SET frame=?, state='written', reason='', at=? WHERE uuid=?", f.UUID, at, uuid)
	return err
}

// Tried records that a frame is about to be written to a process, and the session. It fails with *[StateError] for a
// frame that has ended, and with [ErrUnknown].
//
// It does not wait for the disk: a power cut can take back the count and the session.
func (l Frames) Tried(ctx context.Context, uuid, session string) error {
	return l.write(ctx, "tried", quick, func(c *sqlite.Conn) error {
		if _, err := unendedFrame(c, "tried", uuid); err != nil {
			return err
		}
		_, err := c.Exec("UPDATE frames SET tries=tries+1, session=? WHERE uuid=?", session, uuid)
		return err
	})
}

// Died records that the process died while the frame was in flight, and returns the frame with this death counted. It
// fails as [Frames.Tried] does, and does not wait for the disk.
func (l Frames) Died(ctx context.Context, uuid string) (f Frame, err error) {
	err = l.write(ctx, "died", quick, func(c *sqlite.Conn) (err error) {
		if f, err = unendedFrame(c, "died", uuid); err != nil {
			return err
		}
		if f, err = withLine(c, f); err != nil {
			return err
		}
		f.Deaths++
		_, err = c.Exec("UPDATE frames SET deaths=? WHERE uuid=?", f.Deaths, uuid)
		return err
	})
	return f, err
}

// Advance brings a frame that has not ended, and its deliveries, to [Accepted], [Cut],
// [Done], [Cancelled] or [Failed]. A second call has no effect.
//
// If a nudge is done, its parent is done as well; if it ends in another state, its parent stays cut. If a frame ends
// while it has an open nudge, the nudge ends in the same state. So a caller that ends the work names the frame.
//
// Cancelled and failed are on the disk when Advance returns nil: a frame that a person stopped must not start again.
// If a power cut takes another state back, the frame is written again with a uuid that the agent knows. Advance fails
// with *[StateError] for a frame that has ended in another state, with [ErrUnknown] and with *[ValueError].
func (l Frames) Advance(ctx context.Context, uuid string, state DeliveryState, reason string) error {
	return l.Finish(ctx, uuid, state, reason, "")
}

// Finish is [Frames.Advance] to the end of a frame. If that is [Done], the same commit
// records the agent's answer, if any, up to 1 MiB: see [Event.Answer].
func (l Frames) Finish(ctx context.Context, uuid string, state DeliveryState, reason, answer string) error {
	level := quick
	switch state {
	case Accepted, Cut, Done:
	case Cancelled, Failed:
		level = durable
	default:
		return invalid("state", fmt.Sprintf("is %q, to which no frame is advanced", state))
	}
	return l.write(ctx, "advance", level, func(c *sqlite.Conn) error {
		f, found, err := frame(c, uuid)
		switch {
		case err != nil:
			return err
		case !found:
			return unknown("advance", uuid)
		case f.State == state:
			return nil
		case f.State.Ended():
			return &StateError{Op: "advance", UUID: uuid, State: f.State, Want: "it has ended and cannot become " + string(state)}
		}
		at := micros(time.Time{})
		if err := advance(c, f, state, reason, at); err != nil {
			return err
		}
		if state == Accepted || state == Done || state == Cancelled {
			if _, err := c.Exec("UPDATE sessions SET acked=? WHERE inbox_id="+thisInboxID, inboxArgs(f.InboxKey, at)...); err != nil {
				return err
			}
		}
		if state == Done && answer != "" {
			if err := addAnswer(c, f, answer, at); err != nil {
				return err
			}
		}
		switch {
		case f.Kind == FrameNudge && state == Done:
			parent, found, err := frame(c, f.Parent)
			if err != nil || !found || parent.State.Ended() {
				return err
			}
			return advance(c, parent, Done, reason, at)
		case f.Kind != FrameNudge && state.Ended():
			nudge, found, err := inFlight(c, f.InboxKey)
			if err != nil || !found {
				return err
			}
			return advance(c, nudge, state, reason, at)
		}
		return nil
	})
}

// advance brings one frame and its deliveries to a state.
func advance(c *sqlite.Conn, f Frame, state DeliveryState, reason string, at int64) error {
	if err := setFrame(c, f.UUID, state, reason, at); err != nil {
		return err
	}
	// With inbox_id, SQLite uses the index of open deliveries, and reads no ended ones.
	_, err := c.Exec("UPDATE deliveries SET state=?, reason=?, at=? WHERE frame=? AND inbox_id="+thisInboxID+" AND "+unended,
		inboxArgs(f.InboxKey, string(state), reason, at, f.UUID)...)
	return err
}

func setFrame(c *sqlite.Conn, uuid string, state DeliveryState, reason string, at int64) error {
	_, err := c.Exec("UPDATE frames SET state=?, reason=?, at=? WHERE uuid=?", string(state), reason, at, uuid)
	return err
}

// Split takes back a frame of several deliveries; the caller must know that the agent has not taken it. The frame is
// [Cancelled], and the deliveries are [Claimed] again, durably, each to be alone in its next frame. They keep their
// Seq. A frame with one delivery is not changed, and split is false. Split fails with *[StateError] for a frame that
// is not written, or has ended, with [ErrUnknown], and with *[ValueError] for a nudge.
func (l Frames) Split(ctx context.Context, uuid, reason string) (split bool, err error) {
	err = l.write(ctx, "split", durable, func(c *sqlite.Conn) error {
		split = false // this function runs again if the file was busy
		f, err := unendedFrame(c, "split", uuid)
		switch {
		case err != nil:
			return err
		case f.Kind == FrameNudge:
			return invalid("frame", "is a nudge, which has no deliveries")
		case f.State != FrameWritten:
			return &StateError{Op: "split", UUID: uuid, State: f.State, Want: "the agent has taken it"}
		}
		n, err := c.Number("SELECT count(*) FROM deliveries WHERE frame=? AND "+unended, uuid)
		if err != nil || n < 2 {
			return err
		}
		split = true
		at := micros(time.Time{})
		if err := setFrame(c, uuid, Cancelled, reason, at); err != nil {
			return err
		}
		_, err = c.Exec("UPDATE deliveries SET frame='', state='claimed', reason=?, isolated=1, at=? WHERE frame=? AND inbox_id="+thisInboxID+" AND "+unended,
			inboxArgs(f.InboxKey, reason, at, uuid)...)
		return err
	})
	return split && err == nil, err
}

// InFlight returns the frame of an inbox that has not ended, or that frame's open nudge.
func (l Frames) InFlight(ctx context.Context, k inbox.InboxKey) (f Frame, found bool, err error) {
	if err := checkInbox(k); err != nil {
		return Frame{}, false, err
	}
	return l.read(ctx, "in flight", func(c *sqlite.Conn) (Frame, bool, error) { return inFlight(c, k) })
}

// Frame returns the frame with that uuid, and whether there is one.
func (l Frames) Frame(ctx context.Context, uuid string) (f Frame, found bool, err error) {
	return l.read(ctx, "frame", func(c *sqlite.Conn) (Frame, bool, error) { return frame(c, uuid) })
}

// read adds its bytes to the frame that find returns.
func (l Frames) read(ctx context.Context, op string, find func(*sqlite.Conn) (Frame, bool, error)) (f Frame, found bool, err error) {
	err = l.db.Transaction(ctx, op, "DEFERRED", func(c *sqlite.Conn) (err error) {
		if f, found, err = find(c); err != nil || !found {
			return err
		}
		f, err = withLine(c, f)
		return err
	})
	return f, found, err
}

func unendedFrame(c *sqlite.Conn, op, uuid string) (Frame, error) {
	f, found, err := frame(c, uuid)
	switch {
	case err != nil:
		return Frame{}, err
	case !found:
		return Frame{}, unknown(op, uuid)
	case f.State.Ended():
		return Frame{}, &StateError{Op: op, UUID: uuid, State: f.State, Want: "it has ended and is not in flight"}
	}
	return f, nil
}

// frame returns a frame without its bytes: most steps do not need them, and 128 KiB took 0.3 ms to read.
func frame(c *sqlite.Conn, uuid string) (Frame, bool, error) {
	return oneFrame(c, "uuid=?", uuid)
}

// inFlight is InFlight without the bytes.
func inFlight(c *sqlite.Conn, k inbox.InboxKey) (Frame, bool, error) {
	return oneFrame(c, thisInbox+" AND "+unended+" ORDER BY kind='nudge' DESC LIMIT 1", inboxArgs(k)...)
}

func oneFrame(c *sqlite.Conn, rest string, args ...sqlite.Value) (Frame, bool, error) {
	return sqlite.One(c, func(v sqlite.Row) Frame {
		return Frame{
			UUID: v.Text(0), InboxKey: scanKey(v, 1), Kind: FrameKind(v.Text(5)), Parent: v.Text(6), Session: v.Text(7),
			State: DeliveryState(v.Text(8)), Reason: v.Text(9), Tries: int(v.Int(10)), Deaths: int(v.Int(11)), Nudges: int(v.Int(12)), At: v.Time(13),
		}
	}, `SELECT uuid, root, team, created_at, inbox, kind, parent, session, state, reason, tries, deaths, nudges, at
		FROM inboxes JOIN frames USING (inbox_id) WHERE `+rest, args...)
}

func withLine(c *sqlite.Conn, f Frame) (Frame, error) {
	err := c.Query(func(v sqlite.Row) { f.Bytes = v.Blob(0) }, "SELECT line FROM lines WHERE uuid=?", f.UUID)
	return f, err
}
