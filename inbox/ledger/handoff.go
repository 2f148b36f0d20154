package ledger

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Place is where a movable session runs.
type Place string

// The places.
const (
	AtTerminal Place = "local"  // interactively, in a person's terminal
	AtRelay    Place = "remote" // headless, behind a relay
)

func (p Place) check(field string) error {
	if p != AtTerminal && p != AtRelay {
		return invalid(field, fmt.Sprintf("is %q; %s or %s is wanted", p, AtTerminal, AtRelay))
	}
	return nil
}

// A Handoff is a session that moves between a person's terminal and a relay.
//
// Only its launcher calls [Sessions.SetHandoff]. Any process may wish for a place with [Sessions.AskPlace]. Wishes
// have numbers. The launcher answers the wish that it has read, so a wish made in between is not lost.
type Handoff struct {
	inbox.InboxKey
	At     Place
	To     Place     // where it moves to; "" if it stays
	Reason string    // why it has not moved yet, or cannot
	Since  time.Time // when this state began; kept to the microsecond, returned in UTC

	Draft    string    // the text at the prompt, to be restored there
	Typed    time.Time // the transcript may lack input that was entered after this time; zero if unknown
	Returned int64     // Seq of the newest prompt when the session last returned to the terminal

	// The last wish. SetHandoff does not set these fields, but answers wish number Wish if Wanted is empty.
	Wanted   Place // "" if there is no wish, or it was answered
	Force    bool  // move even if something holds the session
	Wish     int64 // number of the last wish; 0 for none
	Answered int64 // number of the last wish that was answered

	Refused string // why wish number Answered was refused; "" if granted
}

func (h *Handoff) check() error {
	err := cmp.Or(checkInbox(h.InboxKey), h.At.check("place"), content("draft", []byte(h.Draft)))
	if err == nil && h.To != "" {
		err = h.To.check("target")
	}
	return err
}

// SetHandoff records where a session is and where it moves to, durably, and replaces the earlier record. A zero Since
// is now. If h.Wanted is empty, the wish number h.Wish, and each before it, is answered: refused, if h.Refused has a
// reason, and else granted. A later wish stays. SetHandoff fails with *[ValueError].
func (l Sessions) SetHandoff(ctx context.Context, h Handoff) error {
	if err := h.check(); err != nil {
		return err
	}
	var typed int64
	if !h.Typed.IsZero() {
		typed = h.Typed.UnixMicro()
	}
	return l.write(ctx, "set handoff", durable, func(c *sqlite.Conn) error {
		inboxID, err := addInbox(c, h.InboxKey)
		if err != nil {
			return err
		}
		_, err = c.Exec(`INSERT INTO handoffs (inbox_id, place, target, hold, since, draft, typed, returned)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET place=excluded.place, target=excluded.target,
			hold=excluded.hold, since=excluded.since, draft=excluded.draft, typed=excluded.typed, returned=excluded.returned`,
			inboxID, string(h.At), string(h.To), h.Reason, micros(h.Since), []byte(h.Draft), typed, h.Returned)
		if err != nil || h.Wanted != "" {
			return err
		}
		_, err = c.Exec(`UPDATE handoffs SET answered=?2, refused=?3, wanted=iif(wish=?2, '', wanted), force=iif(wish=?2, 0, force)
			WHERE inbox_id=?1 AND answered<?2 AND wish>=?2`, inboxID, h.Wish, h.Refused)
		return err
	})
}

// Handoff returns the handoff of an inbox, and whether there is one.
func (l Sessions) Handoff(ctx context.Context, k inbox.InboxKey) (Handoff, bool, error) {
	if err := checkInbox(k); err != nil {
		return Handoff{}, false, err
	}
	return first(l.handoffs(ctx, thisInbox, inboxArgs(k)...))
}

// Handoffs lists the sessions of a Claude root that can move, or of every root if root is
// "", in the order of [Sessions.List]. Their launchers may have ended.
func (l Sessions) Handoffs(ctx context.Context, root string) ([]Handoff, error) {
	return l.handoffs(ctx, inRoot, root)
}

func (l Sessions) handoffs(ctx context.Context, rest string, args ...sqlite.Value) ([]Handoff, error) {
	return sqlite.Select(ctx, l.db, "handoffs", func(v sqlite.Row) Handoff {
		h := scanHandoff(v, 5)
		h.InboxKey, h.Draft = scanKey(v, 0), string(v.Blob(4))
		return h
	}, "SELECT root, team, created_at, inbox, draft, "+handoffColumns+" FROM inboxes JOIN handoffs USING (inbox_id) WHERE "+rest, args...)
}

const handoffColumns = "place, target, hold, since, typed, returned, wanted, force, wish, answered, refused"

// scanHandoff reads handoffColumns from column i on; the result has no place if they are NULL.
func scanHandoff(v sqlite.Row, i int) Handoff {
	h := Handoff{
		At: Place(v.Text(i)), To: Place(v.Text(i + 1)), Reason: v.Text(i + 2), Since: v.Time(i + 3), Returned: v.Int(i + 5),
		Wanted: Place(v.Text(i + 6)), Force: v.Bool(i + 7), Wish: v.Int(i + 8), Answered: v.Int(i + 9), Refused: v.Text(i + 10),
	}
	if v.Bool(i + 4) {
		h.Typed = v.Time(i + 4)
	}
	return h
}

// AskPlace records, durably, the wish that a session moves to a place, with force even if something holds it, and
// returns the number of the wish. The wish replaces one that was not answered yet. AskPlace fails with [ErrUnknown]
// if no session of that inbox can move, and with *[ValueError].
func (l Sessions) AskPlace(ctx context.Context, k inbox.InboxKey, at Place, force bool) (wish int64, err error) {
	if err := cmp.Or(checkInbox(k), at.check("place")); err != nil {
		return 0, err
	}
	err = l.write(ctx, "ask for a place", durable, func(c *sqlite.Conn) error {
		wish, err = c.Number("UPDATE handoffs SET wanted=?, force=?, wish=wish+1 WHERE inbox_id="+thisInboxID+" RETURNING wish",
			inboxArgs(k, string(at), force)...)
		if err == nil && wish == 0 {
			err = fmt.Errorf("ledger: ask that %s@%s moves: %w", k.Inbox, k.Team, ErrUnknown)
		}
		return err
	})
	return wish, err
}

// WithdrawPlace takes a wish back, durably, and reports whether it could: the wish may have been answered or
// replaced.
func (l Sessions) WithdrawPlace(ctx context.Context, k inbox.InboxKey, wish int64) (withdrawn bool, err error) {
	if err := checkInbox(k); err != nil {
		return false, err
	}
	err = l.write(ctx, "withdraw a place", durable, func(c *sqlite.Conn) error {
		n, err := c.Exec("UPDATE handoffs SET wanted='', force=0 WHERE wanted<>'' AND wish=? AND inbox_id="+thisInboxID, inboxArgs(k, wish)...)
		withdrawn = n > 0
		return err
	})
	return withdrawn, err
}

// RemoveHandoff forgets a handoff, durably. Without a handoff it does nothing.
func (l Sessions) RemoveHandoff(ctx context.Context, k inbox.InboxKey) error {
	if err := checkInbox(k); err != nil {
		return err
	}
	return l.exec(ctx, "remove handoff", durable, "DELETE FROM handoffs WHERE inbox_id="+thisInboxID, inboxArgs(k)...)
}

// OpenPrompts returns the number of open user prompts of an inbox that were claimed after the delivery with Seq
// after, and the Seq of the newest of them, or after if there are none. No writer waits for it.
func (l Deliveries) OpenPrompts(ctx context.Context, k inbox.InboxKey, after int64) (n int, newest int64, err error) {
	if err := checkInbox(k); err != nil {
		return 0, after, err
	}
	type open struct{ n, newest int64 }
	list, err := sqlite.Select(ctx, l.db, "open prompts", func(v sqlite.Row) open { return open{v.Int(0), v.Int(1)} },
		`SELECT count(*), coalesce(max(seq), ?1) FROM deliveries WHERE inbox_id=
		(SELECT inbox_id FROM inboxes WHERE root=?2 AND team=?3 AND created_at=?4 AND inbox=?5) AND seq>?1 AND person<>0 AND `+unended,
		inboxArgs(k, after)...)
	if err != nil {
		return 0, after, err
	}
	return int(list[0].n), list[0].newest, nil
}
