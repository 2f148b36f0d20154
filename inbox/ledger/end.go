package ledger

import (
	"context"
	"time"

	"teambridge/inbox/sqlite"
)

// End ends deliveries that are in no frame, durably, all or none. state must be final ([DeliveryState.Ended]). A
// second call has no effect. End fails with *[StateError] if a delivery is in a frame or has ended in another state,
// with [ErrUnknown] and with *[ValueError].
func (l Deliveries) End(ctx context.Context, state DeliveryState, reason string, uuids ...string) error {
	if !state.Ended() {
		return invalid("state", "is "+string(state)+", which is no end")
	}
	return l.write(ctx, "end", durable, func(c *sqlite.Conn) error {
		for _, uuid := range uuids {
			err := move(c, "end", uuid, state, reason, func(d Delivery) (stays bool, want string) {
				switch {
				case d.State == state && d.Frame == "":
					return true, ""
				case d.Frame != "":
					return false, "what is in a frame ends with the frame"
				case d.State != Claimed:
					return false, "only what is claimed can be ended"
				}
				return false, ""
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Retry makes a failed delivery [Claimed] again, in no frame, durably. The delivery keeps its Seq, so it precedes
// younger ones. Its next frame must have a new uuid. A delivery whose row was never marked is delivered too, although
// the agent may have read the row itself. Retry fails with *[StateError] for a delivery in any other state, and with
// [ErrUnknown].
func (l Deliveries) Retry(ctx context.Context, uuid string) error {
	return l.write(ctx, "retry", durable, func(c *sqlite.Conn) error {
		err := move(c, "retry", uuid, Claimed, "", func(d Delivery) (bool, string) {
			if d.State != Failed {
				return false, "only what has failed can be tried again"
			}
			return false, ""
		})
		if err != nil {
			return err
		}
		if _, err := c.Exec("UPDATE deliveries SET marked=1 WHERE uuid=?", uuid); err != nil {
			return err
		}
		return retryPane(c, uuid)
	})
}

// Drop ends a delivery that is claimed and in no frame, or has failed. The delivery is then [Dropped], durably, and
// is never delivered. Drop fails with *[StateError] for a delivery that is in flight or has ended in another state,
// and with [ErrUnknown].
func (l Deliveries) Drop(ctx context.Context, uuid string) error {
	return l.write(ctx, "drop", durable, func(c *sqlite.Conn) error {
		return move(c, "drop", uuid, Dropped, "", func(d Delivery) (bool, string) {
			switch {
			case d.State == Claimed, d.State == Failed:
				return false, ""
			case d.State.Ended():
				return false, "there is nothing to drop"
			}
			return false, "it is in flight: interrupt it"
		})
	})
}

// move brings a delivery to another state. It does nothing if may returns stays, and refuses if may returns the state
// that the step would need (want).
func move(c *sqlite.Conn, op, uuid string, state DeliveryState, reason string, may func(Delivery) (stays bool, want string)) error {
	d, found, err := delivery(c, uuid)
	if err != nil {
		return err
	}
	if !found {
		return unknown(op, uuid)
	}
	stays, want := may(d)
	if want != "" {
		return &StateError{Op: op, UUID: uuid, State: d.State, Frame: d.Frame, Want: want}
	}
	if stays {
		return nil
	}
	frame := d.Frame
	if state == Claimed {
		frame = ""
	}
	_, err = c.Exec("UPDATE deliveries SET state=?, reason=?, frame=?, at=? WHERE uuid=?", string(state), reason, frame, micros(time.Time{}), uuid)
	return err
}
