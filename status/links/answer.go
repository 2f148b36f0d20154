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

// answerWithin is how long the answer to a question of another machine is waited for.
const answerWithin = 24 * time.Hour

// answer waits for the answers to questions of other machines, until ctx ends. What an agent writes
// to the one who asked goes there anyway; what it says at the end of its turn is sent here, once.
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
				mu.Lock() // it is asked again if it still waits
				defer mu.Unlock()
				delete(waiting, in.N)
			})
		}
	})
}

// maxAsked is how many questions of other machines are waited for at a time.
const maxAsked = 1000

// answerOne waits for the answer to a question, and sends it if the agent has not. If the service ends
// meanwhile, the next one asks again under the same id, and finds in the journal, the ledger or the
// transcript what the agent has said since.
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
	case err != nil: // such as a full disk
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

// askAgain asks a question that was put where it belongs already.
func (r *Carrier) askAgain(ctx context.Context, m link.Message) (a api.Answered, err error) {
	from := ""
	err = r.admitted(ctx, m, func() error {
		from, err = r.sender(ctx, m)
		return err
	})
	if err != nil { // the team may be gone, or shared no longer
		return a, err
	}
	return r.here.Ask(ctx, m.Team, m.Member, idHere(m.Incoming), api.NewQuestion{NewMessage: api.NewMessage{Text: m.Text, Summary: m.Summary, From: from}})
}
