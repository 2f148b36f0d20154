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
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// follower looks after messages that were sent until their agents have taken
// them, puts back what another program has overwritten, and records both.
type follower struct {
	root    *teams.Root
	journal *journal.Journal
	locker  *lockedfile.Locker
	limits  limits
	news    *hub
	log     *slog.Logger
	added   chan struct{}

	mu    sync.Mutex
	items []*followed
}

// mostFollowed is how many messages are followed at once; of more, the oldest are
// let go. They stay verified.
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

func newFollower(root *teams.Root, j *journal.Journal, locker *lockedfile.Locker, limits limits, news *hub, log *slog.Logger) *follower {
	return &follower{root: root, journal: j, locker: locker, limits: limits, news: news, log: log, added: make(chan struct{}, 1)}
}

// follow looks after messages that sender has sent. If it returns true it has
// taken over the sender's team, and closes it.
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

// fresh is how old a message is at most that is followed again after a restart.
const fresh = 24 * time.Hour

// adopt follows what an earlier service had sent, of teams that are still there.
// What stood in front of such a message is not known any more, so that it is lost
// can be proved of older agents alone, which remove nothing; and of those, what is
// gone already stays as it is known.
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
	if m.Seq == 0 || m.Said != "" {
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
	sender, err := mail.New(ctx, mail.Options{Team: t, Locker: f.locker, From: mail.User})
	if err != nil {
		return err
	}
	c := sender.Config()
	if c.Instance().CreatedAt != r.CreatedAt {
		return nil // another team of that name
	}
	switch {
	case !m.ReadAt.IsZero(), !m.GoneAt.IsZero() && c.Generation() == teams.G2:
		_, err := f.journal.Consumed(ctx, r.SendKey, time.Now())
		return err
	case !m.GoneAt.IsZero():
		return nil
	}
	box, err := inbox.Open(t, r.Inbox, f.locker)
	if err != nil {
		return err
	}
	d := mail.Delivered{
		Team: r.Team, Member: r.Inbox, ID: r.ID, State: mail.Verified, Start: r.VerifiedAt, Inbox: box,
		Tracked: &inbox.Tracked{ID: r.ID, Row: m.Raw, PutBack: r.PutBacks},
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
		for _, i := range items {
			if f.look(ctx, i) {
				f.drop(i)
			}
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

// look looks at one message, and says whether there is nothing more to see.
func (f *follower) look(ctx context.Context, i *followed) (over bool) {
	info, err := os.Stat(i.Inbox.Path())
	if err != nil {
		info = nil
	}
	if i.looked && unchanged(i.seen, info) {
		return false
	}
	fate, err := i.sender.Look(ctx, i.Delivered)
	now := time.Now()
	record := func(_ journal.Receipt, err error) {
		if err != nil && ctx.Err() == nil {
			f.log.Warn("what became of a message is not recorded", "id", i.ID, "err", api.Describe(err))
		}
		f.news.tell()
	}
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, inbox.ErrLost):
		record(f.journal.Lost(ctx, i.key, now, api.Describe(err)))
		return true
	case errors.Is(err, teams.ErrTeamGone):
		return true // and nothing tells what became of it
	case err != nil:
		f.log.Warn("a message that was sent cannot be followed for now", "id", i.ID, "err", api.Describe(err))
		return false
	case fate == inbox.Consumed:
		record(f.journal.Consumed(ctx, i.key, now))
		return true
	case fate == inbox.PutBack:
		f.log.Warn("another program overwrote an inbox; the message was put back", "id", i.ID, "inbox", i.Inbox.Path())
		record(f.journal.PutBack(ctx, i.key, now))
		return false
	}
	i.seen, i.looked = info, true
	return false
}

// unchanged reports whether a file is the one it was.
func unchanged(was, is os.FileInfo) bool {
	if was == nil || is == nil {
		return was == nil && is == nil
	}
	return os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) && was.Size() == is.Size()
}
