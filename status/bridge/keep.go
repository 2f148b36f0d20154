package bridge

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/relay"
	conversation "teambridge/relay/claude/session"
	"teambridge/relay/wire"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// keeper records what the agents of some teams say and do, from their transcripts. It leaves
// out agents that a relay runs, which records it itself.
type keeper struct {
	*Service

	kept map[journal.InboxKey]*keeping
	wait sync.WaitGroup
}

// keeping is one transcript that is followed.
type keeping struct {
	path string
	stop context.CancelFunc
	done chan struct{} // closed when it is not followed any more
}

// overlap is how much of what is recorded is read again: records can be written late.
const overlap = 5 * time.Minute

// run follows the transcripts of the teams until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	news, done := k.news.subscribe()
	defer done()
	defer k.wait.Wait()
	k.kept = map[journal.InboxKey]*keeping{}
	var last time.Time
	now := make(chan struct{}, 1)
	signal(now)
	return loop(ctx, news, now, k.opts.Tick, func() {
		if time.Since(last) < k.opts.Tick/2 { // there is much news
			return
		}
		last = time.Now()
		for _, team := range k.opts.KeepTranscripts {
			if err := k.look(ctx, team); err != nil && ctx.Err() == nil && !errors.Is(err, teams.ErrTeamGone) && !errors.Is(err, os.ErrNotExist) {
				k.log.Warn("the transcripts of a team cannot be found for now", "team", team, "err", view.Describe(err))
			}
		}
	})
}

// look follows the transcripts of a team's members that are not followed yet.
func (k *keeper) look(ctx context.Context, name string) error {
	t, err := k.opts.Root.Team(name)
	if err != nil {
		return err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	for _, m := range c.Members {
		key := journal.InboxKey{Root: k.opts.Root.Path(), Team: c.Instance(), Inbox: m.Name}
		_, relayed, err := k.ledger.Session(ctx, ledger.KeyOf(t, c, m.Name))
		if err != nil {
			return err
		}
		paths := t.Agent(c, m.Name).Transcripts()
		if relayed || len(paths) == 0 {
			continue
		}
		path := paths[0] // older ones are of earlier sessions, or copied into it
		if was := k.kept[key]; was != nil {
			select {
			case <-was.done: // it failed
			default:
				if was.path == path {
					continue
				}
				was.stop()
			}
		}
		following, stop := context.WithCancel(ctx)
		now := &keeping{path, stop, make(chan struct{})}
		k.kept[key] = now
		k.wait.Go(func() {
			defer close(now.done)
			defer stop()
			if err := k.follow(following, key, path); err != nil && following.Err() == nil {
				k.log.Warn("a transcript is not recorded for now", "member", m.Name, "team", name, "err", view.Describe(err))
			}
		})
	}
	return nil
}

// together is how many envelopes are recorded at once.
const together = 256

// follow records a transcript as it grows.
func (k *keeper) follow(ctx context.Context, key journal.InboxKey, path string) error {
	id := transcript.SessionOf(path)
	from, err := k.journal.LastEnvelope(ctx, key, id)
	if err != nil {
		return err
	}
	if !from.IsZero() {
		from = from.Add(-overlap)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	told := make(chan wire.Envelope, together)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer stop(nil)
	parts.Go(func() {
		defer close(told)
		for e, err := range conversation.Follow(ctx, path, from, k.opts.Tick/8, nil) {
			if err != nil {
				stop(err)
				return
			}
			select {
			case told <- e:
			case <-ctx.Done():
				return
			}
		}
	})
	for e := range told {
		var list []journal.Envelope
		for ok := true; ok; {
			entry, err := relay.Entry(key, id, e)
			if err != nil {
				return err
			}
			if list = append(list, entry); len(list) == together {
				break
			}
			select {
			case e, ok = <-told:
			default:
				ok = false
			}
		}
		if _, err := k.journal.RecordEnvelopes(ctx, list...); err != nil {
			return err
		}
		k.news.tell()
	}
	return context.Cause(ctx)
}
