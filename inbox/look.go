package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// Fate is what happened to a written message.
type Fate string

// The fates. Only Unconsumed can still change.
const (
	Unconsumed Fate = "verified" // it waits in the inbox
	Consumed   Fate = "consumed" // it was taken: marked as read, or removed
	Lost       Fate = "lost"     // another program overwrote it
	Unknown    Fate = "unknown"  // it is gone, for an unknown reason
)

// ErrLost means that a message was overwritten before its agent took it.
var ErrLost = errors.New("another program overwrote it")

// ErrUnclear means that a message has left its inbox, and that it is unknown whether its agent took it.
var ErrUnclear = errors.New("nothing tells whether the agent took it")

// Tracked is a written message, with the facts needed to decide its fate later.
type Tracked struct {
	ID    string          // [Row.ID]
	Row   json.RawMessage // as it is in the file
	Ahead []string        // keys of unread rows in front of it: see [Ahead]
	Kept  bool            // the agent keeps taken rows in the file: see [Kept]
}

// mostAhead limits the remembered rows ahead of a message, at each end. All rows of a long inbox, kept for
// each of its messages, would be megabytes.
const mostAhead = 32

// Ahead returns the keys of the unread rows, which precede a message: if there are many, those of the first
// 32 and the last 32.
func Ahead(rows []Row) []string {
	var unread []int
	for i := range rows {
		if !rows[i].Read {
			unread = append(unread, i)
		}
	}
	if len(unread) > 2*mostAhead {
		unread = slices.Delete(unread, mostAhead, len(unread)-mostAhead)
	}
	var keys []string
	for _, i := range unread {
		keys = append(keys, rows[i].Key())
	}
	return keys
}

// Track returns the last message with that id in rows, which are a whole inbox; nil if there
// is none.
func Track(rows []Row, id string) *Tracked {
	if i := lastWith(rows, id); i >= 0 {
		return trackRow(rows, i)
	}
	return nil
}

// lastWith returns the index of the last of rows with that id, or -1.
func lastWith(rows []Row, id string) int {
	for i := range slices.Backward(rows) {
		if rows[i].ID() == id {
			return i
		}
	}
	return -1
}

// trackSent is Track for a message known by either id. Unless it was just written, it is the first match, as
// with [Draft.Find].
func trackSent(rows []Row, m *Message, wrote bool) *Tracked {
	uid := msgID(m.ID)
	found := -1
	for i := range slices.Backward(rows) {
		if rows[i].MsgID == uid || rows[i].ID() == m.ID {
			if found = i; wrote {
				break
			}
		}
	}
	if found < 0 {
		return nil
	}
	return trackRow(rows, found)
}

func trackRow(rows []Row, i int) *Tracked {
	// A copy: the row is a slice of the whole file.
	return &Tracked{ID: rows[i].ID(), Row: bytes.Clone(rows[i].Raw), Ahead: Ahead(rows[:i]), Kept: Kept(rows)}
}

// RelayedBy is the key that we add to a row that we take for somebody else. Its value is the UUID of the delivery.
const RelayedBy = "relayedBy"

// Kept reports whether one of rows, which are a whole inbox, is marked as read, and not by a relay of ours.
// Old agents mark and keep the rows that they take; current ones remove them.
func Kept(rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool {
		_, relayed := r.Extra[RelayedBy]
		return r.Read && !relayed
	})
}

// In reports whether the message is in an inbox that was seen.
func (t *Tracked) In(seen *Seen) bool { return seen.row(t.ID) != nil }

// Look decides the fate of a message from a later reading of its inbox. keeps means that its agent may leave
// taken rows in the file, because it marks them or is not running.
//
// A row that is marked as read was taken. If the row is gone:
//
//   - It was overwritten if an unread row from ahead of it is still there: agents take all waiting rows, in
//     the order of the file.
//   - Its fate is unknown if the agent keeps rows, and so cannot have removed it, or if there is a
//     [Seen.Fault], which no agent causes.
//   - Otherwise the agent took it.
//
// A lost message is never written again automatically: the file cannot prove that the agent has not taken it,
// and an agent works twice on a message that comes twice.
func (t *Tracked) Look(seen *Seen, keeps bool) Fate {
	row := seen.row(t.ID)
	switch {
	case row != nil && row.Read:
		return Consumed
	case row != nil:
		return Unconsumed
	case t.Passed(seen):
		return Lost
	case keeps, seen.Fault != nil:
		return Unknown
	}
	return Consumed
}

// Passed reports whether an unread row from ahead of the message is still there.
func (t *Tracked) Passed(seen *Seen) bool {
	if len(t.Ahead) == 0 {
		return false
	}
	unread := seen.unread()
	return slices.ContainsFunc(t.Ahead, func(key string) bool { return unread[key] })
}
