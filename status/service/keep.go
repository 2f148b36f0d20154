package service

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/relay"
	conversation "teambridge/relay/claude/session"
	"teambridge/relay/pane"
	"teambridge/relay/wire"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/transcript"
)

// keeper records the events of the interactive agents of some teams, from their transcripts. It skips headless
// agents, since their relays record them.
type keeper struct {
	*shared
	panes *pane.Panes

	kept map[inbox.InboxKey]*keeping
	wait sync.WaitGroup
}

// keeping is a followed transcript.
type keeping struct {
	path  string
	stop  context.CancelFunc
	done  chan struct{} // closed when following has ended
	ended bool          // the session had ended at the last look
}

// overlap is how far before the last recorded envelope a transcript is read again, since its lines can be written
// late.
const overlap = 5 * time.Minute

// run follows the transcripts of the teams until ctx ends.
func (k *keeper) run(ctx context.Context) error {
	news, done := k.news.Subscribe()
	defer done()
	defer k.wait.Wait()
	k.kept = map[inbox.InboxKey]*keeping{}
	var last time.Time
	now := make(chan struct{}, 1)
	signals.Send(now)
	return signals.Loop(ctx, news, now, k.opts.Tick, func() {
		if time.Since(last) < k.opts.Tick/2 { // signals come often
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

// look starts following new transcripts of a team's members, and stops following transcripts of ended sessions.
func (k *keeper) look(ctx context.Context, name string) error {
	t, err := k.opts.Root.Team(name)
	if errors.As(err, new(*teams.NotFoundError)) && name == pane.SessionTeam {
		return k.lookAtSessions(ctx)
	}
	if err != nil {
		return err
	}
	defer t.Close()
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	for _, m := range c.Members {
		_, relayed, err := k.ledger.Sessions.Session(ctx, inbox.KeyOf(t, c, m.Name))
		if err != nil {
			return err
		}
		if paths := t.Agent(c, m.Name).Transcripts(); !relayed && len(paths) > 0 { // older transcripts are of earlier sessions
			k.keep(ctx, inbox.Key(k.opts.Root.Path(), c.Instance(), m.Name), paths[0])
		}
	}
	return nil
}

// lookAtSessions does the work of look for the sessions of Claude Code in no team.
func (k *keeper) lookAtSessions(ctx context.Context) error {
	list, err := k.panes.Sessions.List(ctx)
	if err != nil {
		return err
	}
	live := map[inbox.InboxKey]bool{}
	for _, s := range list {
		key := s.InboxKey
		if path, ok := transcript.Session(s.Root, s.Cwd, s.Ref.ID); ok && s.Profile == pane.Session && !live[key] {
			live[key] = true
			k.keep(ctx, key, path)
		}
	}
	for key, was := range k.kept {
		if key.Team != pane.SessionTeam || live[key] {
			was.ended = false
		} else if was.ended { // it ended before the last look, so everything is written
			was.stop()
			delete(k.kept, key)
		} else {
			was.ended = true
		}
	}
	return nil
}

// keep follows the transcript of a member unless it is followed.
func (k *keeper) keep(ctx context.Context, key inbox.InboxKey, path string) {
	if was := k.kept[key]; was != nil {
		select {
		case <-was.done: // it failed
		default:
			if was.path == path {
				return
			}
			was.stop()
		}
	}
	following, stop := context.WithCancel(ctx)
	now := &keeping{path: path, stop: stop, done: make(chan struct{})}
	k.kept[key] = now
	k.wait.Go(func() {
		defer close(now.done)
		defer stop()
		if err := k.follow(following, key, path); err != nil && following.Err() == nil {
			k.log.Warn("a transcript is not recorded for now", "member", key.Inbox, "team", key.Team, "err", view.Describe(err))
		}
	})
}

// together limits the envelopes that are recorded in one transaction.
const together = 256

// follow records a transcript as it grows.
func (k *keeper) follow(ctx context.Context, key inbox.InboxKey, path string) error {
	id := transcript.SessionOf(path)
	from, err := k.journal.Envelopes.Last(ctx, key, id)
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
		if _, err := k.journal.Envelopes.Record(ctx, list...); err != nil {
			return err
		}
		k.news.Tell()
	}
	return context.Cause(ctx)
}
