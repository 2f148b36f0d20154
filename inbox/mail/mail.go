// Package mail sends messages to the members of a team. It resolves names, chooses the sender's name,
// consults the ledger, predicts whether a message will be read, and follows its fate.
//
//	sender, err := mail.New(ctx, mail.Options{Team: team, Locker: locker, Ledger: ledger})
//	member, err := sender.Resolve("lead", false)
//	d, err := sender.Put(ctx, member, mail.Message{Text: "hello"}, inbox.AppendOptions{})
//
// What [inbox.Inbox.Append] promises holds for [Sender.Put].
package mail

import (
	"cmp"
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

// User is the name of a person who has not joined a team, and of that person's inbox.
const User = "user"

// The results of sending a message.
const (
	Verified = "verified" // it was read back from the inbox
	Failed   = "failed"   // it was not sent
)

// Options configure a sender. Team and Locker are required.
type Options struct {
	Team   *teams.Team
	Locker *lockedfile.Locker

	Config *teams.Config // if nil, New reads it

	// Ledger remembers sent messages. If it is nil, only forced messages are sent, ids are not idempotent,
	// and the name under which the person joined is unknown.
	Ledger *ledger.Ledger

	// From is the sender's name. [teams.Config.Resolve] resolves the name of a member. If empty, it is the name under
	// which the team was joined, or else "user".
	From string

	// Journal, if not nil, returns the journal, which knows messages that have left their inboxes. The sender
	// does not close it.
	Journal func(ctx context.Context) (*journal.Journal, error)

	// Unrecorded, if not nil, gets the errors of [Sender.Record], which takes at most RecordWithin; 0 means no limit.
	Unrecorded   func(error)
	RecordWithin time.Duration

	// Conversations, if not nil, is shared with other senders.
	Conversations *teams.Conversations

	// Facts, if not nil, returns whether a member is headless, and whether its relay runs.
	Facts func(member string) teams.Facts
}

// Sender sends to the members that a team had when New was called. It may be used by
// several goroutines.
type Sender struct {
	opts   Options
	config *teams.Config
	from   string
	asUser bool // from is "user", because no name was chosen and the team was not joined
}

// New returns a sender. It asks the ledger under which name the team was joined. The
// errors are those of [teams.Team.Config] and of the ledger.
func New(ctx context.Context, opts Options) (_ *Sender, err error) {
	s := &Sender{opts: opts, config: opts.Config, from: opts.From}
	if s.opts.Conversations == nil {
		s.opts.Conversations = &teams.Conversations{}
	}
	if s.config == nil {
		if s.config, err = opts.Team.Config(ctx); err != nil {
			return nil, err
		}
	}
	if s.from != "" {
		if name, err := s.config.Resolve(s.from, nil); err == nil {
			s.from = name // one member, one name
		}
		return s, nil
	}
	if opts.Ledger != nil {
		if s.from, err = Guest(ctx, opts.Ledger, opts.Team, s.config); err != nil {
			return nil, err
		}
	}
	s.asUser = s.from == ""
	s.from = cmp.Or(s.from, User)
	return s, nil
}

// From returns the name that messages are sent under.
func (s *Sender) From() string { return s.from }

// DefaultFrom reports whether the sender's name is a default; see [inbox.Message].
func (s *Sender) DefaultFrom() bool { return s.opts.From == "" }

// Answerable reports whether a member can write to the sender's name. Agents can write to a name that was chosen, or
// under which the team was joined, but not to "user".
func (s *Sender) Answerable(member string) bool {
	m, ok := s.config.Member(member)
	return !s.asUser || !ok || m.Guest()
}

// AllAnswerable reports whether all members can write to the sender's name.
func (s *Sender) AllAnswerable() bool {
	return !slices.ContainsFunc(s.config.Members, func(m teams.Member) bool { return !s.Answerable(m.Name) })
}

// Team returns the team of the recipients.
func (s *Sender) Team() *teams.Team { return s.opts.Team }

// Config returns the members and the rest of config.json, as of [New].
func (s *Sender) Config() *teams.Config { return s.config }

// Resolve returns the inbox for a name, as [teams.Config.Resolve] does. With force, the inbox may have no known
// reader.
func (s *Sender) Resolve(name string, force bool) (string, error) {
	names, err := s.opts.Team.Inboxes()
	if err != nil {
		return "", err
	}
	member, err := s.config.Resolve(name, names)
	if nf, ok := errors.AsType[*teams.NotFoundError](err); !ok || nf.Kind != "member" {
		return member, err
	}
	if force {
		return name, teams.CheckName("member", name)
	}
	return "", err
}

// Audience returns the recipients of a broadcast: all agents but the sender and those in
// except, which [teams.Config.Resolve] resolves; the lead only if lead is true.
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

// Message is a message to send. Only Text is required.
type Message struct {
	ID       string // two sends with one id send one message; if empty, a new id is chosen
	Text     string
	Summary  string
	Color    string
	Protocol bool // Text may be an object of Claude Code's protocol; see [inbox.Message.CheckProtocol]
	Own      bool // this process speaks for the sender, an agent; see [inbox.Message]
}

func (s *Sender) draft(m Message) *inbox.Message {
	return &inbox.Message{
		ID: m.ID, From: s.from, DefaultFrom: s.DefaultFrom(), Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol, Own: m.Own,
	}
}

// Validate reports a fault of a message, whatever its recipient: an [*inbox.InvalidError] or an
// [*inbox.ProtocolError].
func (s *Sender) Validate(m Message) error {
	draft := s.draft(m)
	return cmp.Or(draft.Check(), draft.CheckProtocol(s.config))
}

// Delivered is the result of sending a message, or of failing to.
type Delivered struct {
	Team         string
	Member       string
	ID           string
	State        string               // Verified or Failed
	Deduplicated bool                 // it was sent before, and was not written again
	Recorded     bool                 // the ledger has recorded the write
	Reach        teams.Deliverability // whether anybody will read it
	Version      teams.Version        // of the member; zero if unknown, or a person
	Waited       time.Duration

	// Unrecorded is why the ledger could not record that the message was written.
	Unrecorded error

	Start   time.Time
	Inbox   *inbox.Inbox
	Tracked *inbox.Tracked // for [Sender.Look]; nil without AppendOptions.Track, or if sent before and gone
	Seen    *inbox.Seen    // the inbox with the message, for a journal; nil if Tracked is nil. It is large
}

// Reachable reports whether somebody will read the message.
func (d *Delivered) Reachable() bool { return d.Reach == teams.Reachable }

// Key identifies the message in the ledger and the journal.
func (s *Sender) Key(d Delivered) inbox.SendKey {
	return inbox.SendKey{InboxKey: inbox.KeyOf(s.opts.Team, s.config, d.Member), ID: d.ID}
}

// Put puts a message into the inbox of member. opts.Memory is ignored. Without a ledger and without
// opts.Force, the error is [inbox.ErrNoMemory]: the message would be in no history. The other errors are
// those of [inbox.Inbox.Append]. The result is as complete as possible even with an error.
func (s *Sender) Put(ctx context.Context, member string, m Message, opts inbox.AppendOptions) (Delivered, error) {
	d := s.begin(member, m)
	var err error
	if d.Inbox, err = inbox.Open(s.opts.Team, member, s.opts.Locker); err != nil {
		return d, err
	}
	opts.Memory = nil
	if s.opts.Ledger != nil {
		opts.Memory = s.opts.Ledger.Sends
	} else if !opts.Force {
		return d, fmt.Errorf("send to %s: %w", member, inbox.ErrNoMemory)
	}
	if err := s.settle(ctx, d, m); err != nil {
		return d, err
	}
	receipt, err := d.Inbox.Append(ctx, *s.draft(m), opts)
	d.Waited = time.Since(d.Start)
	d.ID, d.Deduplicated, d.Tracked, d.Unrecorded = receipt.ID, receipt.Deduplicated, receipt.Tracked, receipt.Unrecorded
	d.Seen = receipt.Seen
	if err != nil {
		return d, err
	}
	d.State, d.Recorded = Verified, s.opts.Ledger != nil && d.Unrecorded == nil
	return d, nil
}

// begin returns the Delivered of a message that is not yet sent.
func (s *Sender) begin(member string, m Message) Delivered {
	d := Delivered{
		Team: s.opts.Team.Name(), Member: member, ID: m.ID, State: Failed, Start: time.Now(),
		Reach: s.Reach(member), Version: s.opts.Team.Agent(s.config, member).Version(),
	}
	if d.Reachable() && d.Version.Outdated() {
		d.Reach = teams.Outdated
	}
	return d
}

// Reach reports whether anybody will read a message to a member.
func (s *Sender) Reach(member string) teams.Deliverability {
	var facts teams.Facts
	if s.opts.Facts != nil {
		facts = s.opts.Facts(member)
	}
	return s.config.Deliverability(member, facts)
}

// Check reports known obstacles to [Sender.Put], without writing.
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

// quickRead is the largest inbox, in bytes, that is searched for old messages; the search takes about as long
// as sending.
const quickRead = 256 << 10

// StillUnread is how long the oldest message may wait before senders get a warning.
const StillUnread = 2 * time.Minute

// Waiting reports whether the recipient has not read older messages for minutes. It is
// false for guests, who are people, and for large inboxes.
func (s *Sender) Waiting(ctx context.Context, d Delivered) bool {
	if m, ok := s.config.Member(d.Member); !ok || m.Guest() {
		return false
	}
	if info, err := os.Stat(d.Inbox.Path()); err != nil || info.Size() > quickRead {
		return false
	}
	rows, err := d.Inbox.Read(ctx) // fails if another program is writing now
	return err == nil && slices.ContainsFunc(rows, func(r inbox.Row) bool {
		at, ok := r.Time()
		return !r.Read && ok && time.Since(at) > StillUnread
	})
}

// See reads the inbox of a message, for [Sender.Look]. It returns nil while the inbox is being written.
func (s *Sender) See(ctx context.Context, d Delivered) (*inbox.Seen, error) {
	seen, err := d.Inbox.See(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, inbox.ErrBusy):
		err = nil
	}
	return seen, err
}
