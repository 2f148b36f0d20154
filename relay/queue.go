package relay

import (
	"context"
	"slices"

	"teambridge/inbox/ledger"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
)

// queue groups waiting deliveries into batches of one mode, each of which can become one frame. It lives as
// long as the loop. The ledger decides what waits, since other processes may drop deliveries or requeue them.
type queue struct {
	*pipe.Queue[ledger.Delivery]
	ids      []string                 // of the queued deliveries
	mode     mode.Mode                // the mode of the last queued delivery
	verified func(sender string) bool // reports whether a sender is a member; see verifies
}

func newQueue() (*queue, error) {
	q := &queue{}
	var err error
	q.Queue, err = pipe.NewQueue(pipe.Options[ledger.Delivery]{
		MaxBatch: MaxRows, MaxBytes: MaxBytes,
		Size: func(d ledger.Delivery) int { return len(text(q.verified, d)) },
	})
	return q, err
}

// feed updates the queue from the deliveries that wait in the ledger: usually they only add to its end,
// otherwise it is refilled. kept is the mode of the last frame. A delivery that asks for no mode is sent in
// the mode of the one before it.
func (q *queue) feed(verified func(string) bool, waiting []ledger.Delivery, kept mode.Mode) error {
	q.verified = verified
	known := len(q.ids)
	if known > len(waiting) || !slices.EqualFunc(q.ids, waiting[:known], func(id string, d ledger.Delivery) bool { return id == d.UUID }) {
		q.Reset()
		q.ids = nil
	}
	if len(q.ids) == 0 {
		q.mode = kept
	}
	for _, d := range waiting[len(q.ids):] {
		if len(d.Mode) > 0 {
			change, err := mode.Parse(d.Mode)
			if err != nil {
				return err
			}
			q.mode = q.mode.Merge(change)
		}
		// A user prompt is a frame of its own, and so is each message of a split frame.
		push := q.Push
		if d.Person || d.Isolated {
			push = q.PushIsolated
		}
		if err := push(d, q.mode); err != nil {
			return err
		}
		q.ids = append(q.ids, d.UUID)
	}
	return nil
}

// take removes the first batch, which is now in a frame.
func (q *queue) take(ctx context.Context) error {
	batch, err := q.Next(ctx)
	q.ids = slices.Delete(q.ids, 0, len(batch.Items))
	return err
}
