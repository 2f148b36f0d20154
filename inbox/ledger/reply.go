package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/sqlite"
)

// Replies are the answers that relays have yet to send. The table is owed.
type Replies struct{ *file }

// A Reply is the end of a frame, which its senders do not know yet. It is owed if the relay answers for its agent:
// see [Sessions.SetAnswers].
type Reply struct {
	Frame   string
	State   DeliveryState // of the frame, which has ended
	Reason  string
	At      time.Time // when the frame ended
	Text    string    // the agent's last text, at most 1 MiB; empty without one, or if the frame is not done
	Senders []Sender  // of the deliveries in the frame, in their order
}

// A Sender is the author of a delivery.
type Sender struct {
	Name   string
	Kind   string
	Person bool
}

// Owed lists the ends of frames that their senders do not know yet, in order.
func (l Replies) Owed(ctx context.Context, k inbox.InboxKey) (owed []Reply, err error) {
	if err := checkInbox(k); err != nil {
		return nil, err
	}
	// No other process waits for a transaction that only reads.
	err = l.db.Transaction(ctx, "owed", "DEFERRED", func(c *sqlite.Conn) error {
		if owed, err = sqlite.All(c, func(v sqlite.Row) Reply {
			return Reply{Frame: v.Text(0), State: DeliveryState(v.Text(1)), Reason: v.Text(2), At: v.Time(3)}
		}, "SELECT uuid, state, reason, at FROM owed JOIN frames ON uuid=frame JOIN inboxes USING (inbox_id) WHERE "+thisInbox+" ORDER BY n", inboxArgs(k)...); err != nil {
			return err
		}
		for i := range owed {
			if err := owed[i].fill(c); err != nil {
				return err
			}
		}
		return nil
	})
	return owed, err
}

// fill adds the answer and the senders.
func (r *Reply) fill(c *sqlite.Conn) (err error) {
	r.Senders, err = sqlite.All(c, func(v sqlite.Row) Sender { return Sender{v.Text(0), v.Text(1), v.Bool(2)} },
		"SELECT sender, kind, person FROM deliveries WHERE frame=? ORDER BY seq", r.Frame)
	if err != nil || r.State != Done {
		return err
	}
	// The answer to a cut turn is in the turn of a nudge.
	raw, found, err := sqlite.One(c, func(v sqlite.Row) []byte { return v.Blob(0) },
		"SELECT raw FROM messages WHERE frame IN (SELECT ?1 UNION SELECT uuid FROM frames WHERE parent=?1 AND parent<>'') ORDER BY message DESC LIMIT 1", r.Frame)
	if err != nil || !found {
		return err
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("ledger: the answer to frame %s: %w", r.Frame, err)
	}
	r.Text = a.Text
	return nil
}

// Replied records that the senders of a frame were told its end. A power cut can take that back.
func (l Replies) Replied(ctx context.Context, frame string) error {
	return l.exec(ctx, "replied", quick, "DELETE FROM owed WHERE frame=?", frame)
}

// ShutdownAsked returns the shutdown request that is next: all deliveries that were claimed before it have ended.
func (l Replies) ShutdownAsked(ctx context.Context, k inbox.InboxKey) (d Delivery, asked bool, err error) {
	open, err := Deliveries(l).ofInbox(ctx, "shutdown asked", k, unended+" ORDER BY seq LIMIT 1")
	if err != nil || len(open) == 0 || open[0].Kind != shutdownRequest || open[0].Person || !open[0].Marked || open[0].Frame != "" {
		return Delivery{}, false, err
	}
	return open[0], true, nil
}

const shutdownRequest = "shutdown_request"

// EndShutdown records, durably, that a shutdown request is done, and in the same commit why the agent was ended for
// good; an empty why means that it was not ended. It fails with [ErrUnknown], and with *[StateError] if the request
// has ended in another state.
func (l Replies) EndShutdown(ctx context.Context, k inbox.InboxKey, request, why string) error {
	if err := checkInbox(k); err != nil {
		return err
	}
	return l.write(ctx, "end shutdown", durable, func(c *sqlite.Conn) error {
		err := move(c, "end shutdown", request, Done, why, func(d Delivery) (stays bool, want string) {
			if d.State != Claimed && d.State != Done || d.Frame != "" {
				return false, "only a request that is claimed, and in no frame, can end so"
			}
			return d.State == Done, ""
		})
		if err != nil || why == "" {
			return err
		}
		_, err = c.Exec("UPDATE sessions SET shut_down=? WHERE inbox_id="+thisInboxID, inboxArgs(k, why)...)
		return err
	})
}

// pruneOwed forgets replies that could not be sent since before a time. It comes first: a reply whose own send is
// forgotten would be sent a second time.
func pruneOwed(c *sqlite.Conn, at int64) (int64, error) {
	return c.Exec("DELETE FROM owed WHERE n IN (SELECT n FROM owed LEFT JOIN frames ON uuid=frame WHERE coalesce(at, 0)<? LIMIT ?+0)", at, pruneRows)
}
