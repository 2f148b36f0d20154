package inbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
)

// Fate is the outcome of a written message.
type Fate string

// The fates. Only Unconsumed can still change.
const (
	Unconsumed Fate = "verified" // the message waits in the inbox
	Consumed   Fate = "consumed" // the message was taken: its row was marked as read, or removed
	Lost       Fate = "lost"     // another program overwrote the message
	Unknown    Fate = "unknown"  // the row is gone, and the reason is unknown
)

// ErrLost means that a message was overwritten before its agent took it.
var ErrLost = errors.New("another program overwrote it")

// ErrUnclear means that a message has left its inbox, and that it is unknown whether its agent took it.
var ErrUnclear = errors.New("nothing shows whether the agent took it")

// Tracked is a written message, with the facts that later decide its fate.
type Tracked struct {
	ID    string          // [Row.ID]
	Row   json.RawMessage // as it is in the file
	Ahead []string        // keys of unread rows before it: see [Ahead]
	Kept  bool            // the agent keeps taken rows in the file: see [Kept]
}

// mostAhead limits the remembered rows ahead of a message, at each end. If each message of a long inbox kept
// all rows, they would need megabytes.
const mostAhead = 32

// Ahead returns the keys of the unread rows in rows, which precede a message. If there are many, it returns
// the keys of the first 32 and the last 32.
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

// Track returns the last message with an id; nil if there is none. rows must be a whole inbox.
func Track(rows []Row, id string) *Tracked {
	for i := range slices.Backward(rows) {
		if rows[i].ID() == id {
			return trackRow(rows, i)
		}
	}
	return nil
}

// Again returns the message as it was seen later; nil if it was not in the inbox.
func (t *Tracked) Again(seen *Seen) *Tracked {
	if i := t.last(seen.Rows); i >= 0 {
		return trackRow(seen.Rows, i)
	}
	return nil
}

// last returns the index of the message's last row, or -1. Others can write rows with its id.
func (t *Tracked) last(rows []Row) int {
	for i := range slices.Backward(rows) {
		if rows[i].ID() == t.ID && t.is(&rows[i]) {
			return i
		}
	}
	return -1
}

// is reports whether a row with the id of the message has its sender and text.
func (t *Tracked) is(r *Row) bool {
	if bytes.Equal(r.Raw, t.Row) {
		return true
	}
	ours, err := ParseRow(t.Row)
	return err == nil && r.From == ours.From && r.Text == ours.Text
}

// trackSent is Track for a message that may be found by either of its ids. Unless the message was just
// written, it returns the first match, as [Draft.Find] does.
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
	// Copy the row, because it is a slice of the whole file.
	return &Tracked{ID: rows[i].ID(), Row: bytes.Clone(rows[i].Raw), Ahead: Ahead(rows[:i]), Kept: Kept(rows)}
}

// RelayedBy is the key that we add to a row that a relay takes. The value is the UUID of the delivery.
const RelayedBy = "relayedBy"

// Kept reports whether an agent has marked a row as read and kept it. Old agents do that with the rows that
// they take; current agents remove them. Marks of our relays do not count. rows must be a whole inbox.
func Kept(rows []Row) bool {
	return slices.ContainsFunc(rows, func(r Row) bool {
		_, relayed := r.Extra[RelayedBy]
		return r.Read && !relayed
	})
}

// In reports whether the message was in the inbox when it was seen.
func (t *Tracked) In(seen *Seen) bool { return t.last(seen.Rows) >= 0 }

// Look decides the fate of a message by a later read of its inbox. keeps means that the agent may have left
// rows in the file that it took, because it marks them or is not running.
//
// A row that is marked as read was taken. If the row is gone:
//
//   - The message was overwritten if an unread row from before it is still there: agents take all waiting rows,
//     in the order of the file.
//   - Its fate is unknown if the agent keeps rows, and so cannot have removed it, or if there is a
//     [Seen.Fault], which no agent causes.
//   - Otherwise the agent took the message.
//
// A lost message is never written again automatically. The file cannot prove that the agent has not taken it,
// and an agent works twice on a message that comes twice.
func (t *Tracked) Look(seen *Seen, keeps bool) Fate {
	i := t.last(seen.Rows)
	switch {
	case i >= 0 && seen.Rows[i].Read:
		return Consumed
	case i >= 0:
		return Unconsumed
	case t.Passed(seen):
		return Lost
	case keeps, seen.Fault != nil:
		return Unknown
	}
	return Consumed
}

// Passed reports whether an unread row from before the message is still there.
func (t *Tracked) Passed(seen *Seen) bool {
	if len(t.Ahead) == 0 {
		return false
	}
	unread := seen.unread()
	return slices.ContainsFunc(t.Ahead, func(key string) bool { return unread[key] })
}
