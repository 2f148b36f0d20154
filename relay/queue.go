package relay

import (
	"context"
	"slices"

	"teambridge/inbox/ledger"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
)

// queue gives out what waits as batches of one mode, each of which can become one frame.
// It lives as long as the loop. The ledger decides what waits, since other processes drop
// deliveries and put them back.
type queue struct {
	*pipe.Queue[ledger.Delivery]
	ids      []string                 // of what is in it
	mode     mode.Mode                // in which the last of it is to be sent
	verified func(sender string) bool // tells which senders are members; see verifies
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

// feed makes the queue hold what waits in the ledger: usually what it holds, with more at
// the end. Otherwise it is filled again. kept is the mode of the last frame; what asks for
// no other mode is sent in that of the delivery before it.
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
		// A user prompt is a frame of its own, and so is each message of a frame that was
		// split.
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

// take removes the first batch, which has become a frame.
func (q *queue) take(ctx context.Context) error {
	batch, err := q.Next(ctx)
	q.ids = slices.Delete(q.ids, 0, len(batch.Items))
	return err
}
