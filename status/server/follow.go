package server

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// follower looks after messages that were sent until it is known what became of
// them, and records that.
type follower struct {
	root    *teams.Root
	journal *journal.Journal
	ledger  *ledger.Ledger // nil where it may not be asked
	locker  *lockedfile.Locker
	limits  limits
	news    *hub
	log     *slog.Logger
	added   chan struct{}

	mu    sync.Mutex
	items []*followed
}

// mostFollowed is the number of messages that are followed at once. The oldest ones
// beyond it are no longer followed and stay verified.
const mostFollowed = 1000

// followed is a message on its way.
type followed struct {
	mail.Delivered
	sender *mail.Sender
	key    inbox.SendKey
	team   *shared
	seen   os.FileInfo // the inbox file, when it was last looked at; nil: it was not there
	looked bool
}

// shared is a team that is closed when the last one lets go of it.
type shared struct {
	*teams.Team
	users atomic.Int64
}

func (s *shared) release() {
	if s.users.Add(-1) == 0 {
		_ = s.Close() // nothing was written through it
	}
}

func newFollower(root *teams.Root, j *journal.Journal, l *ledger.Ledger, locker *lockedfile.Locker, limits limits, news *hub, log *slog.Logger) *follower {
	return &follower{root: root, journal: j, ledger: l, locker: locker, limits: limits, news: news, log: log, added: make(chan struct{}, 1)}
}

// follow adds messages that sender has sent. If it returns true, it has taken over
// the sender's team and closes it.
func (f *follower) follow(sender *mail.Sender, sent []mail.Delivered) bool {
	team := &shared{Team: sender.Team()}
	var items []*followed
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range sent {
		key := sender.Key(d)
		if !slices.ContainsFunc(f.items, func(i *followed) bool { return i.key == key }) { // sent again
			items = append(items, &followed{Delivered: d, sender: sender, key: key, team: team})
		}
	}
	if len(items) == 0 {
		return false
	}
	team.users.Store(int64(len(items)))
	f.items = append(f.items, items...)
	for len(f.items) > mostFollowed {
		f.items[0].team.release()
		f.items = f.items[1:]
	}
	signal(f.added)
	return true
}

// fresh is the age up to which a message is followed again after a restart.
const fresh = 24 * time.Hour

// adopt follows the messages that were sent before, by a service or without one, to
// teams that still exist.
// A message that was lost in the meantime is recognized by the rows in front of it, if
// the journal has seen them there ever since.
func (f *follower) adopt(ctx context.Context) error {
	var open []journal.Receipt
	for r, err := range f.journal.Receipts(ctx, journal.Query{Root: f.root.Path(), Since: time.Now().Add(-fresh)}) {
		if err != nil {
			return err
		}
		if r.State == journal.Verified {
			open = append(open, r)
		}
	}
	open = open[max(0, len(open)-mostFollowed):]
	var errs []error
	for _, r := range open {
		if err := f.adoptOne(ctx, r); err != nil && !errors.Is(err, teams.ErrTeamGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (f *follower) adoptOne(ctx context.Context, r journal.Receipt) error {
	var m journal.Message
	q := journal.Query{Root: r.Root, Team: r.Team, CreatedAt: r.CreatedAt, Inbox: r.Inbox, ID: r.ID, Newest: true, Limit: 1}
	for found, err := range f.journal.Messages(ctx, q) {
		if err != nil {
			return err
		}
		m = found
	}
	if m.Seq == 0 || m.Prompt != "" {
		return nil // what was said to an agent, its relay tells of
	}
	t, err := f.root.Team(r.Team)
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			_ = t.Close()
		}
	}()
	sender, err := mail.New(ctx, mail.Options{
		Team: t, Locker: f.locker, Ledger: f.ledger, From: mail.User,
		Journal: func(context.Context) (*journal.Journal, error) { return f.journal, nil }, Unrecorded: unrecorded(f.log),
	})
	if err != nil {
		return err
	}
	c := sender.Config()
	if c.Instance().CreatedAt != r.CreatedAt {
		return nil // another team of that name
	}
	if !m.ReadAt.IsZero() {
		_, err := f.journal.Consumed(ctx, r.SendKey, time.Now())
		return err
	}
	box, err := inbox.Open(t, r.Inbox, f.locker)
	if err != nil {
		return err
	}
	d := mail.Delivered{
		Team: r.Team, Member: r.Inbox, ID: r.ID, State: mail.Verified, Start: r.VerifiedAt, Inbox: box,
		Tracked: &inbox.Tracked{ID: r.ID, Row: m.Raw},
	}
	seen, err := sender.See(ctx, d)
	if err != nil {
		return err
	}
	gone := !m.GoneAt.IsZero() // of an inbox that cannot be read for now
	if seen != nil {
		there := inbox.Track(seen.Rows, r.ID)
		if gone = there == nil; !gone {
			d.Tracked = there
		}
	}
	if gone {
		if d.Tracked.Ahead, err = f.journal.Ahead(ctx, r.SendKey); err != nil {
			return err
		}
	}
	keep = f.follow(sender, []mail.Delivered{d})
	return nil
}

// run looks when an inbox may have changed.
func (f *follower) run(ctx context.Context) error {
	news, done := f.news.subscribe()
	defer done()
	tick := time.NewTicker(f.limits.tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-news:
		case <-f.added:
		case <-tick.C:
		}
		f.mu.Lock()
		items := slices.Clone(f.items)
		f.mu.Unlock()
		// Those of one inbox together: a thousand that wait there are one look.
		boxes := map[inbox.SendKey][]*followed{}
		for _, i := range items {
			box := i.key
			box.ID = ""
			boxes[box] = append(boxes[box], i)
		}
		for _, items := range boxes {
			f.look(ctx, items)
			if ctx.Err() != nil {
				return nil
			}
		}
	}
}

func (f *follower) drop(i *followed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := slices.Index(f.items, i); n >= 0 {
		f.items = slices.Delete(f.items, n, n+1)
		i.team.release()
	}
}

func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range f.items {
		i.team.release()
	}
	f.items = nil
}

// look looks at the messages to one inbox.
func (f *follower) look(ctx context.Context, items []*followed) {
	info, err := os.Stat(items[0].Inbox.Path())
	if err != nil {
		info = nil
	}
	items = slices.DeleteFunc(items, func(i *followed) bool { return i.looked && unchanged(i.seen, info) })
	if len(items) == 0 {
		return
	}
	first := items[0]
	at, err := first.sender.Sight(ctx, first.Delivered)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, teams.ErrTeamGone):
		// What became of them is not known, but that they are no longer there.
		f.news.tell()
		for _, i := range items {
			f.drop(i)
		}
		return
	case err != nil:
		f.unfollowed(first, err)
		return
	}
	for _, i := range items {
		if f.judge(ctx, i, at, info) {
			f.drop(i)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// judge finds out what became of one message, and reports whether that is final. info is
// of the inbox file, before at.
func (f *follower) judge(ctx context.Context, i *followed, at *mail.Sight, info os.FileInfo) (over bool) {
	fate, err := i.sender.Judge(ctx, i.Delivered, at)
	switch {
	case ctx.Err() != nil:
		return false
	case fate == inbox.Unconsumed && err != nil:
		f.unfollowed(i, err)
		return false
	case fate == inbox.Unconsumed && at.Again:
		i.looked = false
		signal(f.added)
		return false
	case fate == inbox.Unconsumed:
		if at.Seen != nil {
			i.seen, i.looked = info, true
		}
		return false
	}
	now := time.Now()
	var rerr error
	switch fate {
	case inbox.Lost:
		f.log.Warn("a message was lost", "id", i.ID, "inbox", i.Inbox.Path(), "err", view.Describe(err))
		_, rerr = f.journal.Lost(ctx, i.key, now, view.Describe(err))
	case inbox.Unknown:
		f.log.Warn("it is not known what became of a message", "id", i.ID, "inbox", i.Inbox.Path(), "err", view.Describe(err))
		_, rerr = f.journal.Unknown(ctx, i.key, now, view.Describe(err))
	default:
		_, rerr = f.journal.Consumed(ctx, i.key, now)
	}
	if rerr != nil && ctx.Err() == nil {
		f.log.Warn("what became of a message is not recorded", "id", i.ID, "err", view.Describe(rerr))
	}
	f.news.tell()
	return true
}

func (f *follower) unfollowed(i *followed, err error) {
	f.log.Warn("a message that was sent cannot be followed for now", "id", i.ID, "err", view.Describe(err))
}

// unrecorded logs that what was seen of an inbox is not in the journal.
func unrecorded(log *slog.Logger) func(error) {
	return func(err error) { log.Warn("what was seen of an inbox is not recorded", "err", view.Describe(err)) }
}

// unchanged reports whether a file is the one it was.
func unchanged(was, is os.FileInfo) bool {
	if was == nil || is == nil {
		return was == nil && is == nil
	}
	return os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size()
}
