// Package mail sends messages to the members of a team: it knows who is meant by
// a name, under which name the person sends, what the ledger remembers, whether
// anybody will read a message, and what became of it.
//
//	sender, err := mail.New(ctx, mail.Options{Team: team, Locker: locker, Ledger: ledger})
//	member, err := sender.Resolve("lead", false)
//	d, err := sender.Put(ctx, member, mail.Message{Text: "hello"}, inbox.AppendOptions{})
//
// What [inbox.Inbox.Append] promises holds for [Sender.Put].
package mail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// User is the name of a person who has joined no team, and the inbox that older
// agents write to for one.
const User = "user"

// How far a message has come.
const (
	Verified = "verified" // it was read back from the inbox
	Consumed = "consumed" // its agent took it
	Failed   = "failed"   // it was not sent
)

// Options says who sends to whom. Team and Locker are needed.
type Options struct {
	Team   *teams.Team
	Locker *lockedfile.Locker

	// Config is that of the team, if it was read already; else New reads it.
	Config *teams.Config

	// Ledger remembers what was sent. Without it, nil, no id can be sent under
	// twice, and the name the person joined under is not known.
	Ledger *ledger.Ledger

	// From is the sender's name. That of a member can be any that
	// [teams.Config.Resolve] understands. Empty: the name under which the team was
	// joined, else "user".
	From string

	// Journal, if not nil, returns what recorded the messages of the team. It is
	// asked what became of one that was sent before and is not in its inbox. The
	// sender does not close it.
	Journal func(ctx context.Context) (*journal.Journal, error)

	// Unrecorded, if not nil, learns why the journal could not be opened or written
	// for [Sender.Record], which takes at most RecordWithin; 0 is without a limit.
	Unrecorded   func(error)
	RecordWithin time.Duration

	// Facts, if not nil, says what config.json does not about a member: whether
	// it is headless, and whether a relay runs for it.
	Facts func(member string) teams.Facts
}

// Sender sends to the members of one team, as config.json had them when it was
// made. It may be used by several goroutines.
type Sender struct {
	opts   Options
	config *teams.Config
	from   string
	asUser bool // from is "user", because nobody chose another name or joined
}

// New returns a sender. It asks the ledger under which name the team was joined. The
// errors are those of [teams.Team.Config] and of the ledger.
func New(ctx context.Context, opts Options) (*Sender, error) {
	config := opts.Config
	if config == nil {
		var err error
		if config, err = opts.Team.Config(ctx); err != nil {
			return nil, err
		}
	}
	s := &Sender{opts: opts, config: config, from: opts.From}
	if s.from != "" {
		if name, err := config.Resolve(s.from, nil); err == nil {
			s.from = name // one member, one name
		}
		return s, nil
	}
	s.from = User
	if opts.Ledger == nil {
		s.asUser = true
		return s, nil
	}
	guest, err := Guest(ctx, opts.Ledger, opts.Team, config)
	if err != nil {
		return nil, err
	}
	if guest != "" {
		s.from = guest
	} else {
		s.asUser = true
	}
	return s, nil
}

// From returns the name that messages are sent under.
func (s *Sender) From() string { return s.from }

// DefaultFrom reports whether nobody chose that name; see [inbox.Message].
func (s *Sender) DefaultFrom() bool { return s.opts.From == "" }

// Answerable says whether a member can write to that name. A name that was chosen or
// joined under counts as one that it can write to.
func (s *Sender) Answerable(member string) teams.Answer {
	if !s.asUser {
		return teams.Yes
	}
	if m, ok := s.config.Member(member); !ok || m.Guest() {
		return teams.Unsure
	}
	return s.opts.Team.Agent(s.config, member).ReachesUser()
}

// AllAnswerable reports whether no member is known to be unable to write to that name.
func (s *Sender) AllAnswerable() bool {
	return !slices.ContainsFunc(s.config.Members, func(m teams.Member) bool { return s.Answerable(m.Name) == teams.No })
}

// Team returns the team that is sent to.
func (s *Sender) Team() *teams.Team { return s.opts.Team }

// Config returns the members and the rest of config.json, as of [New].
func (s *Sender) Config() *teams.Config { return s.config }

// Resolve says whose inbox is meant by name, as [teams.Config.Resolve] does. With
// force it may be anybody's, also of one that nobody is known to read.
func (s *Sender) Resolve(name string, force bool) (string, error) {
	names, err := s.opts.Team.Inboxes()
	if err != nil {
		return "", err
	}
	member, err := s.config.Resolve(name, names)
	if nf, ok := errors.AsType[*teams.NotFoundError](err); !ok || nf.Kind != "member" {
		return member, err
	}
	// Where agents can write to "user", so can anybody else.
	if force || name == User && s.config.ReachesUser() == teams.Yes {
		return name, teams.CheckName("member", name)
	}
	return "", err
}

// Audience returns the agents that a message to all goes to: not to people who
// joined, nor to the sender itself, nor to those that are left out, which may be
// named in any way that [teams.Config.Resolve] understands; and to the lead only
// if that is wanted.
func (s *Sender) Audience(except []string, lead bool) ([]string, error) {
	var out []string
	for _, name := range except {
		member, err := s.config.Resolve(name, nil)
		if err != nil {
			return nil, err
		}
		out = append(out, member)
	}
	leader, _ := s.config.Lead()
	var to []string
	for _, m := range s.config.Members {
		switch {
		case m.Guest(), m.Name == s.from, slices.Contains(out, m.Name), m.Name == leader.Name && !lead:
		default:
			to = append(to, m.Name)
		}
	}
	return to, nil
}

// Message is what is to be sent. Only Text is needed; who it is from, the sender
// knows.
type Message struct {
	ID      string // under which sending again is sending once; empty: a new one
	Text    string
	Summary string
	Color   string

	// Protocol says that Text may be an object of Claude Code's own protocol: see
	// [inbox.Message.CheckProtocol].
	Protocol bool
}

// draft returns a message as it will be written.
func (s *Sender) draft(m Message) *inbox.Message {
	return &inbox.Message{
		ID: m.ID, From: s.from, DefaultFrom: s.DefaultFrom(), Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol,
	}
}

// Validate reports what is wrong with a message, whoever it is for, as an
// [*inbox.InvalidError] or an [*inbox.ProtocolError].
func (s *Sender) Validate(m Message) error {
	draft := s.draft(m)
	if err := draft.Check(); err != nil {
		return err
	}
	return draft.CheckProtocol(s.config)
}

// Delivered says what is known of a message that was sent, or was to be.
type Delivered struct {
	Team         string
	Member       string
	ID           string
	State        string               // verified, consumed or failed
	Deduplicated bool                 // it was sent before, and was not written again
	Reach        teams.Deliverability // who will read it
	Waited       time.Duration

	// Unrecorded is why the ledger could not be told that the message was
	// written; nil where it was told, or there is none.
	Unrecorded error

	Start   time.Time
	Inbox   *inbox.Inbox
	Tracked *inbox.Tracked // for [Sender.Look]; nil if it was sent before and is not there, or was not asked for
	Seen    *inbox.Seen    // the inbox with the message in it, for a journal; nil as Tracked. It is large
}

// Reachable reports whether somebody will read the message.
func (d *Delivered) Reachable() bool { return d.Reach == teams.Reachable }

// Key is what the message is remembered by.
func (s *Sender) Key(d Delivered) inbox.SendKey {
	i := s.config.Instance()
	return inbox.SendKey{Root: s.opts.Team.Root().Path(), Team: i.Team, CreatedAt: i.CreatedAt, Inbox: d.Member, ID: d.ID}
}

// Put puts a message into the inbox of member. opts.Memory is the sender's own
// and is not looked at. The errors are those of [inbox.Inbox.Append]; what is
// known is returned even then.
func (s *Sender) Put(ctx context.Context, member string, m Message, opts inbox.AppendOptions) (Delivered, error) {
	d := s.begin(member, m)
	var err error
	if d.Inbox, err = inbox.Open(s.opts.Team, member, s.opts.Locker); err != nil {
		return d, err
	}
	opts.Memory = nil
	if s.opts.Ledger != nil {
		opts.Memory = s.opts.Ledger
	}
	receipt, err := d.Inbox.Append(ctx, *s.draft(m), opts)
	d.Waited = time.Since(d.Start)
	d.ID, d.Deduplicated, d.Tracked, d.Unrecorded = receipt.ID, receipt.Deduplicated, receipt.Tracked, receipt.Unrecorded
	d.Seen = receipt.Seen
	if err != nil {
		return d, err
	}
	d.State = Verified
	return d, nil
}

// begin is what is known of a message before it is sent.
func (s *Sender) begin(member string, m Message) Delivered {
	var facts teams.Facts
	if s.opts.Facts != nil {
		facts = s.opts.Facts(member)
	}
	return Delivered{
		Team: s.opts.Team.Name(), Member: member, ID: m.ID, State: Failed, Start: time.Now(),
		Reach: s.config.Deliverability(member, facts),
	}
}

// Check is [Sender.Put] without writing: it reports what would keep a message
// out of the inbox of member, as far as that shows.
func (s *Sender) Check(ctx context.Context, member string, m Message) (Delivered, error) {
	d := s.begin(member, m)
	var err error
	if d.Inbox, err = inbox.Open(s.opts.Team, member, s.opts.Locker); err != nil {
		return d, err
	}
	if _, err := d.Inbox.Read(ctx); err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return d, err
	}
	lock := lockedfile.LockName(d.Inbox.Path())
	if info, err := os.Lstat(lock); err == nil && !info.IsDir() {
		return d, fmt.Errorf("%w: a file stands at %s", lockedfile.ErrForeignLock, lock)
	}
	return d, nil
}

// quickRead is the largest inbox that is looked through for old messages, in
// bytes: it takes about as long as the sending itself.
const quickRead = 256 << 10

// StillUnread is how long the oldest message may wait before a sender is told.
const StillUnread = 2 * time.Minute

// Waiting reports whether the inbox of a message holds others that nobody has
// read for minutes. A guest's inbox, which a person reads, does not count, nor
// does one that takes long to read.
func (s *Sender) Waiting(ctx context.Context, d Delivered) bool {
	if m, ok := s.config.Member(d.Member); !ok || m.Guest() {
		return false
	}
	if info, err := os.Stat(d.Inbox.Path()); err != nil || info.Size() > quickRead {
		return false
	}
	rows, err := d.Inbox.Read(ctx)
	if err != nil {
		return false // it was read back a moment ago: others are writing now
	}
	for _, r := range rows {
		if at, ok := r.Time(); !r.Read && ok && time.Since(at) > StillUnread {
			return true
		}
	}
	return false
}

// See looks at the inbox of a message that was put, for [Sender.Look]. It returns nil
// for one that is being written, or that another tool has spoilt for now: it tells
// nothing.
func (s *Sender) See(ctx context.Context, d Delivered) (*inbox.Seen, error) {
	seen, err := d.Inbox.See(ctx)
	return seen, passing(ctx, err)
}

// passing is err, unless it says of an inbox that it cannot be read for now.
func passing(ctx context.Context, err error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, inbox.ErrBusy), errors.As(err, new(*inbox.CorruptError)):
		return nil
	}
	return err
}
