package service

import (
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/status/signals"
	"teambridge/status/view"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// follower tracks sent messages, and records what became of each and when its agent's model got it.
type follower struct {
	*shared
	added         chan struct{}
	conversations teams.Conversations

	mu    sync.Mutex
	items []*sentRow
	most  int   // maxFollowed, but in tests
	left  int64 // receipts below this number are not followed for lack of room; 0: none

	read time.Time // when transcripts were last read
}

// maxFollowed limits the messages that are followed at once. Beyond it, the oldest are given up; messages that were
// taken are given up first. Those that were not taken are followed again once there is room.
const maxFollowed = 1000

// seenWithin is how long the follower looks in the agent's transcript for a message that was taken. An agent takes
// messages when it is idle, and gives them to its model at once.
const seenWithin = time.Hour

// foundWithin replaces seenWithin if the agent's transcript cannot be found.
const foundWithin = 10 * time.Second

// sentRow is a followed message.
type sentRow struct {
	mail.Delivered
	sender *mail.Sender
	key    inbox.SendKey
	info   os.FileInfo // the inbox file at the last look; nil if there was none
	looked bool

	taken time.Time // when it was found taken; zero if it was not
	seen  bool      // by the agent's model
	news  int       // the version of the conversation at the last look; -1: never read
}

// follow adds messages of sender. If it returns true, the follower will close the sender's team.
func (f *follower) follow(sender *mail.Sender, sent []mail.Delivered) bool {
	var list []*sentRow
	for _, d := range sent {
		list = append(list, &sentRow{Delivered: d, sender: sender, key: sender.Key(d), news: -1})
	}
	return f.add(list...)
}

// add adds messages of one sender, and reports whether it keeps the sender, as follow does.
func (f *follower) add(list ...*sentRow) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	added := false
	for _, n := range list {
		was := slices.IndexFunc(f.items, func(i *sentRow) bool { return i.key == n.key })
		if was >= 0 && (f.items[was].taken.IsZero() || n.Tracked == nil) {
			continue // it is followed already
		}
		f.items, added = append(f.items, n), true
		if was >= 0 {
			f.remove(f.items[was])
		}
	}
	if !added {
		return false
	}
	for len(f.items) > f.most {
		taken := slices.IndexFunc(f.items, func(i *sentRow) bool { return !i.taken.IsZero() })
		if taken < 0 {
			f.left = math.MaxInt64
		}
		f.remove(f.items[max(0, taken)])
	}
	signals.Send(f.added)
	return true
}

// busy reports whether there are messages to follow.
func (f *follower) busy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.items) > 0
}

// remove drops i, and closes its team after its last message. The caller holds f.mu.
func (f *follower) remove(i *sentRow) {
	n := slices.Index(f.items, i)
	if n < 0 {
		return
	}
	f.items = slices.Delete(f.items, n, n+1)
	f.release(i.sender)
}

// share makes all taken messages of a team use the sender of i, so that they keep one directory open, not one each.
func (f *follower) share(i *sentRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.items {
		if o.sender == i.sender || o.taken.IsZero() || o.key.Team != i.key.Team || o.key.CreatedAt != i.key.CreatedAt {
			continue
		}
		was := o.sender
		o.sender = i.sender
		f.release(was)
	}
}

// release closes the team of a sender that no message uses. f.mu is held.
func (f *follower) release(s *mail.Sender) {
	if !slices.ContainsFunc(f.items, func(o *sentRow) bool { return o.sender == s }) {
		_ = s.Team().Close() // it was only read
	}
}

// adoptAge is the age up to which a message is followed again after a restart.
const adoptAge = 24 * time.Hour

// adopt follows messages that were sent before the service started or, if it is called again, those for which there was
// no room. Whether one was lost since then is decided by the rows before it in the inbox, if the journal has observed
// them all the time.
func (f *follower) adopt(ctx context.Context, again bool) error {
	f.mu.Lock()
	room, q := f.most, journal.Query{Root: f.opts.Root.Path(), Since: time.Now().Add(-adoptAge), Before: f.left}
	followed := map[inbox.SendKey]bool{}
	for _, i := range f.items {
		if followed[i.key] = true; i.taken.IsZero() {
			room--
		}
	}
	if again && (f.left == 0 || room < f.most/2) {
		f.mu.Unlock()
		return nil
	}
	f.left = 0
	f.mu.Unlock()
	var open []journal.Receipt
	for r, err := range f.journal.Receipts.All(ctx, q) {
		if err != nil {
			return err
		}
		waits := r.State == inbox.Unconsumed || !again && r.State == inbox.Consumed && r.SeenAt.IsZero() && time.Since(r.ConsumedAt) < seenWithin
		if waits && !followed[r.SendKey] {
			open = append(open, r)
		}
	}
	if over := len(open) - room; over > 0 {
		open = open[over:]
		f.mu.Lock()
		f.left = max(f.left, open[0].Seq)
		f.mu.Unlock()
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
	t, err := f.opts.Root.Team(r.Team)
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
		Team: t, Locker: f.locker, Ledger: f.ledger, From: mail.User, Conversations: &f.conversations,
		Journal: func(context.Context) (*journal.Journal, error) { return f.journal, nil }, Unrecorded: f.warn("what was seen of an inbox is not recorded"),
	})
	if err != nil {
		return err
	}
	c := sender.Config()
	if c.Instance().CreatedAt != r.CreatedAt {
		return nil // another team with the same name
	}
	m, err := sender.Latest(ctx, r.SendKey)
	if err != nil || m.Seq == 0 || m.Prompt != "" {
		return err // the relay reports the fate of a prompt
	}
	taken := r.ConsumedAt
	if taken.IsZero() && !m.ReadAt.IsZero() {
		taken = time.Now()
		if _, err := f.journal.Receipts.Consumed(ctx, r.SendKey, taken); err != nil {
			return err
		}
	}
	box, err := inbox.Open(t, r.Inbox, f.locker)
	if err != nil {
		return err
	}
	d := mail.Delivered{
		Team: r.Team, Member: r.Inbox, ID: r.ID, State: mail.Verified, Start: r.VerifiedAt, Inbox: box,
		Tracked: &inbox.Tracked{ID: r.ID, Row: m.Raw},
	}
	item := &sentRow{Delivered: d, sender: sender, key: r.SendKey, taken: taken, seen: !r.SeenAt.IsZero(), news: -1}
	if !taken.IsZero() {
		keep = !item.seen && f.add(item)
		return nil
	}
	seen, err := sender.See(ctx, d)
	if err != nil {
		return err
	}
	gone := !m.GoneAt.IsZero() // if the inbox cannot be read for now
	if seen != nil {
		there := item.Tracked.Again(seen)
		if gone = there == nil; !gone {
			item.Tracked = there
		}
	}
	if gone {
		if item.Tracked.Ahead, err = f.journal.Receipts.Ahead(ctx, r.SendKey); err != nil {
			return err
		}
	}
	keep = f.add(item)
	return nil
}

// run examines the inboxes and transcripts of followed messages as they change, until ctx ends.
func (f *follower) run(ctx context.Context) error {
	news, done := f.news.Subscribe()
	defer done()
	// There is no signal for a transcript that has grown, so transcripts are polled.
	every := f.opts.Tick / 8
	return signals.LoopWhile(ctx, news, f.added, every, f.busy, func() {
		read := time.Since(f.read) >= every/2 // not at every signal
		if read {
			f.read = time.Now()
		}
		// Group the messages by inbox, so that a thousand of them need one look.
		inboxes := map[inbox.SendKey][]*sentRow{}
		f.mu.Lock()
		for _, i := range f.items {
			key := i.key
			key.ID = ""
			inboxes[key] = append(inboxes[key], i)
		}
		f.mu.Unlock()
		for _, items := range inboxes {
			if ctx.Err() == nil {
				f.look(ctx, slices.DeleteFunc(slices.Clone(items), func(i *sentRow) bool { return !i.taken.IsZero() }))
				if read {
					f.show(ctx, items)
				}
			}
		}
		if err := f.adopt(ctx, true); err != nil && ctx.Err() == nil {
			f.warn("earlier messages are not followed")(err)
		}
	})
}

func (f *follower) drop(i *sentRow) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remove(i)
}

func (f *follower) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.items) > 0 {
		f.remove(f.items[0])
	}
}

// look reads one inbox, and judges the given messages to it.
func (f *follower) look(ctx context.Context, items []*sentRow) {
	if len(items) == 0 {
		return
	}
	info, _ := os.Stat(items[0].Inbox.Path()) // nil if there is none
	items = slices.DeleteFunc(items, func(i *sentRow) bool { return i.looked && lockedfile.SameFile(i.info, info) })
	if len(items) == 0 {
		return
	}
	first := items[0]
	at, err := first.sender.Sight(ctx, first.Delivered)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, teams.ErrTeamGone):
		// The transcripts are complete now.
		f.show(ctx, items)
		for _, i := range items {
			f.judge(ctx, i, at, info)
			f.drop(i)
		}
		f.news.Tell()
		return
	case err != nil:
		f.unfollowed(first, err)
		return
	}
	for _, i := range items {
		if f.judge(ctx, i, at, info) && (i.taken.IsZero() || i.seen) {
			f.drop(i)
		}
	}
}

// judge decides what happened to a message, records it, and reports whether that is final. info describes the inbox
// file before it was read for at.
func (f *follower) judge(ctx context.Context, i *sentRow, at *mail.Sight, info os.FileInfo) (over bool) {
	fate, err := i.sender.Judge(ctx, i.Delivered, at)
	if ctx.Err() != nil {
		return false
	}
	if fate == inbox.Unconsumed {
		switch {
		case err != nil:
			f.unfollowed(i, err)
		case at.Again:
			i.looked = false
			signals.Send(f.added)
		case at.Seen != nil && (i.Tracked == nil && !i.Deduplicated || i.Tracked != nil && i.Tracked.In(at.Seen)): // else what decides about it is not in the file
			i.info, i.looked = info, true
		}
		return false
	}
	now := time.Now()
	var rerr error
	switch fate {
	case inbox.Lost:
		f.log.Warn("a message was lost", "id", i.ID, "inbox", i.Inbox.Path(), "err", view.Describe(err))
		_, rerr = f.journal.Receipts.Lost(ctx, i.key, now, view.Describe(err))
	case inbox.Unknown:
		f.log.Warn("it is not known what happened to a message", "id", i.ID, "inbox", i.Inbox.Path(), "err", view.Describe(err))
		_, rerr = f.journal.Receipts.Unknown(ctx, i.key, now, view.Describe(err))
	default:
		i.taken = now
		f.share(i)
		_, rerr = f.journal.Receipts.Consumed(ctx, i.key, now)
	}
	if rerr != nil && ctx.Err() == nil {
		f.log.Warn("what happened to a message was not recorded", "id", i.ID, "err", view.Describe(rerr))
	}
	f.news.Tell()
	return true
}

// show records which of the messages to one inbox the agent's model has received, from its transcript.
func (f *follower) show(ctx context.Context, items []*sentRow) {
	open := slices.DeleteFunc(slices.Clone(items), func(i *sentRow) bool { return i.seen })
	if len(open) == 0 {
		return
	}
	sender := open[len(open)-1].sender // the newest one has the latest list of members
	news, found := sender.Conversation(open[0].Delivered).Read()
	open = slices.DeleteFunc(open, func(i *sentRow) bool { return i.news == news })
	if len(open) > 0 {
		var list []mail.Delivered
		for _, i := range open {
			list = append(list, i.Delivered)
		}
		at, err := sender.Seen(ctx, list...)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, journal.ErrBusy) && !errors.Is(err, ledger.ErrBusy) {
				f.unfollowed(open[0], err)
			}
			return
		}
		for n, i := range open {
			i.news = news
			if !at[n].IsZero() {
				f.record(ctx, i, at[n])
			}
		}
	}
	within := seenWithin
	if !found {
		within = foundWithin
	}
	for _, i := range items {
		if !i.taken.IsZero() && (i.seen || time.Since(i.taken) > within) {
			f.drop(i)
		}
	}
}

// record records when an agent's model received a message.
func (f *follower) record(ctx context.Context, i *sentRow, at time.Time) {
	if _, err := f.journal.Receipts.Seen(ctx, i.key, at); err != nil {
		if ctx.Err() == nil {
			f.unfollowed(i, err)
		}
		i.news = -1 // try again
		return
	}
	i.seen = true
	f.news.Tell()
}

func (f *follower) unfollowed(i *sentRow, err error) {
	f.log.Warn("a sent message cannot be followed for now", "id", i.ID, "err", view.Describe(err))
}
