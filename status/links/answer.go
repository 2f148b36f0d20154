package links

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/status/api"
	"teambridge/status/signals"
	"teambridge/status/view"
)

// answerWithin limits the wait for an answer to a question of another machine.
const answerWithin = 24 * time.Hour

// answer waits for the answers to questions of other machines, until ctx ends. If an agent writes to the sender of
// the question, that message goes there anyway. If it only ends its turn with an answer, answer sends that, once.
func (r *Carrier) answer(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	var mu sync.Mutex
	waiting := map[int64]bool{}
	signals.Send(r.asked)
	return signals.Loop(ctx, nil, r.asked, 10*time.Second, func() {
		list, err := r.opts.Ledger.Arrivals.Asking(ctx, time.Now().Add(-answerWithin))
		if err != nil && ctx.Err() == nil {
			r.opts.Log.Warn("questions of other machines are not known", "err", view.Describe(err))
		}
		mu.Lock()
		defer mu.Unlock()
		for _, in := range list {
			if waiting[in.N] || len(waiting) >= maxAsked {
				continue
			}
			waiting[in.N] = true
			all.Go(func() {
				if err := r.answerOne(ctx, in); err != nil && ctx.Err() == nil {
					r.opts.Log.Warn("the answer to a question is not sent", "machine", in.Machine, "err", view.Describe(err))
				}
				mu.Lock() // if it still waits, it is asked again
				defer mu.Unlock()
				delete(waiting, in.N)
			})
		}
	})
}

// maxAsked limits the number of questions of other machines that are waited for at a time.
const maxAsked = 1000

// answerOne waits for the answer to a question, and sends it unless the agent has. If the service ends
// meanwhile, the next service asks again under the same id, and finds an answer since then in the journal, the
// ledger or the transcript.
func (r *Carrier) answerOne(ctx context.Context, in ledger.Incoming) error {
	m, err := link.MessageOf(in)
	if err != nil {
		return err
	}
	id := uuid.NewSHA1(IDs, []byte("answer to "+idHere(in))).String()
	if _, sent, err := r.opts.Ledger.Outbox.Outgoing(ctx, id); err != nil || sent {
		return cmp.Or(err, r.opts.Ledger.Arrivals.GotAnswer(ctx, in))
	}
	a, err := r.askAgain(ctx, m)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil && (permanent(err) || errors.Is(err, api.CodeNoAnswer) || errors.Is(err, api.CodeUnknown)), err == nil && a.Via != api.ViaResult:
		return errors.Join(err, r.opts.Ledger.Arrivals.GotAnswer(ctx, in))
	case err != nil: // a full disk, for example
		return err
	}
	member, team, err := recipient(ctx, r.opts.Ledger, m.From)
	if err != nil {
		return err
	}
	out := ledger.Outgoing{Machine: m.Machine, There: member, At: team, Delivery: ledger.Delivery{
		UUID: id, ID: id, From: a.Sent.Member + "@" + m.Team, Kind: journal.KindAnswer, Raw: []byte(a.Text), Person: true, Isolated: true, At: time.Now(),
		InboxKey: inbox.InboxKey{Root: r.opts.Root.Path(), Team: team + "@" + m.Machine, CreatedAt: ledger.MachineTeamCreated, Inbox: member},
	}}
	if _, _, err := r.opts.Ledger.Outbox.Add(ctx, out, sha256.Sum256(out.Raw)); err != nil {
		return err
	}
	if err := r.at("answered"); err != nil {
		return err
	}
	r.Poke()
	return r.opts.Ledger.Arrivals.GotAnswer(ctx, in)
}

// askAgain asks a question that was delivered already.
func (r *Carrier) askAgain(ctx context.Context, m link.Message) (a api.Answered, err error) {
	from := ""
	err = r.admitted(ctx, m, func() error {
		from, err = r.sender(ctx, m)
		return err
	})
	if err != nil { // the team may be gone, or not shared any more
		return a, err
	}
	return r.here.Ask(ctx, m.Team, m.Member, idHere(m.Incoming), api.NewQuestion{NewMessage: api.NewMessage{Text: m.Text, Summary: m.Summary, From: from}})
}
