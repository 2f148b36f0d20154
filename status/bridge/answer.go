package bridge

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay/link"
	"teambridge/status/api"
	"teambridge/status/view"
)

// answerWithin is how long the answer to a question of another machine is waited for.
const answerWithin = 24 * time.Hour

// answer waits for the answers to questions of other machines, until ctx ends. What an agent writes
// to the one who asked goes there anyway; what it says at the end of its turn is sent here, once.
func (r *links) answer(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	waiting := map[int64]bool{}
	signal(r.asked)
	return loop(ctx, nil, r.asked, 10*time.Second, func() {
		list, err := r.ledger.Asking(ctx, time.Now().Add(-answerWithin))
		if err != nil && ctx.Err() == nil {
			r.log.Warn("questions of other machines are not known", "err", view.Describe(err))
		}
		for _, in := range list {
			if waiting[in.N] || len(waiting) > maxAsked {
				continue
			}
			waiting[in.N] = true
			all.Go(func() {
				if err := r.answerOne(ctx, in); err != nil && ctx.Err() == nil {
					r.log.Warn("the answer to a question is not sent", "machine", in.Machine, "err", view.Describe(err))
				}
			})
		}
	})
}

// maxAsked is how many questions of other machines are waited for in one run of the service.
const maxAsked = 1000

func (r *links) answerOne(ctx context.Context, in ledger.Incoming) error {
	m, err := link.MessageOf(in)
	if err != nil {
		return err
	}
	asking := WithAgent(ctx)
	from := ""
	err = r.admitted(asking, m, func() error {
		to, err := r.In(asking, m.Team, m.Member)
		if err != nil {
			return err
		}
		from, err = r.sentBy(asking, &to, m)
		_ = to.Close() // nothing was written through it
		return err
	})
	if err != nil && refusal(err) { // the team is gone, or not shared any more
		return errors.Join(err, r.ledger.GotAnswer(ctx, in))
	}
	if err != nil {
		return err
	}
	a, err := r.Ask(asking, m.Team, m.Member, idHere(in), api.NewQuestion{NewMessage: api.NewMessage{Text: m.Text, Summary: m.Summary, From: from}})
	if ctx.Err() != nil {
		return nil // the next service asks again, under the same id
	}
	if err != nil || a.Via != api.ViaResult {
		return errors.Join(err, r.ledger.GotAnswer(ctx, in))
	}
	member, team, err := r.recipient(ctx, m.From)
	if err != nil {
		return err
	}
	out := ledger.Outgoing{Machine: m.Machine, There: member, At: team, Delivery: ledger.Delivery{
		UUID: uuid.NewSHA1(linked, []byte("answer to "+idHere(in))).String(), From: a.Reply.Inbox + "@" + m.Team, Kind: journal.KindAnswer, Raw: []byte(a.Text), Person: true, Isolated: true, At: time.Now(),
		InboxKey: ledger.InboxKey{Root: r.opts.Root.Path(), Team: team + "@" + m.Machine, CreatedAt: ledger.MachineTeamCreated, Inbox: member},
	}}
	out.ID = out.UUID
	if _, _, err := r.ledger.AddOutgoing(ctx, out, sha256.Sum256(out.Raw)); err != nil {
		return err
	}
	r.poke()
	return r.ledger.GotAnswer(ctx, in)
}
