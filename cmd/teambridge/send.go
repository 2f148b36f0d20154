package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/teams"
	"teambridge/teams/lockedfile"
)

// sendOptions are the flags of send.
type sendOptions struct {
	from    string
	summary string
	id      string
	color   string
	force   bool
	dryRun  bool
	wait    string
	timeout time.Duration
}

func newSend(a *app) *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send MEMBER[@TEAM] TEXT|-",
		Short: "Put one message into a member's inbox",
		Long: `Put one message into a member's inbox, under the lock that Claude Code takes,
and read it back before letting go. TEXT is "-" for standard input.

MEMBER is a name in the team, "lead" for its lead, or NAME@TEAM. The message
comes from --from; else from the name under which you joined the team; else from
"user".

With --id, sending twice is sending once: also when the agent has taken the
message out of its inbox in between. The same id with another text is refused.

Answer: "verified" means that the message was read back from the inbox. That an
agent takes it is for the agent to do; a note says when nobody will. With --wait
consumed the command waits until the agent has taken it; a message that another
program overwrites meanwhile, provably, is put back three times.

Exit status: 0 verified (consumed), or sent before under this --id; 2 the message or a name
is no good; 3 no such team or member, or the team is gone; 5 the id belongs to
another message; 4 not taken within --timeout (it stays sent); 6 the inbox is
corrupt, or its lock could not be had; 7 the message is lost, or it is not known
whether it is there.`,
		Example: `  teambridge send worker "please review task 12"
  git diff | teambridge send lead@session-2de3961d - --summary "the diff"`,
		Args:              exactly(2),
		ValidArgsFunction: a.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.send(cmd.Context(), args[0], args[1], o)
		},
	}
	sendFlags(cmd, &o)
	cmd.Flags().StringVar(&o.id, "id", "", "an id under which sending again is sending once")
	cmd.Flags().BoolVar(&o.force, "force", false, "write to an inbox nobody is known to have; send although it is\nnot known whether this id was sent before")
	cmd.Flags().StringVar(&o.wait, "wait", verified, "for what to wait: verified or consumed")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "how long to wait for consumed; 0: for ever")
	must(cmd.RegisterFlagCompletionFunc("wait", cobra.FixedCompletions([]string{verified, consumed}, cobra.ShellCompDirectiveNoFileComp)))
	cmd.Flags().BoolVarP(&o.dryRun, "dry-run", "n", false, "check everything and write nothing")
	return cmd
}

// sendFlags are those that send and broadcast share.
func sendFlags(cmd *cobra.Command, o *sendOptions) {
	cmd.Flags().StringVar(&o.from, "from", "", "the sender's name")
	cmd.Flags().StringVar(&o.summary, "summary", "", "one line shown beside the sender")
	cmd.Flags().StringVar(&o.color, "color", "", "the sender's colour")
	must(cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(inbox.Colors(), cobra.ShellCompDirectiveNoFileComp)))
}

// How far a message has come.
const (
	verified = "verified" // it was read back from the inbox
	consumed = "consumed" // its agent took it
)

// sent is what send says about one message. The names are those of --json.
type sent struct {
	Team         string      `json:"team"`
	Member       string      `json:"member"`
	ID           string      `json:"id"`
	State        string      `json:"state"` // verified, consumed; dry-run; of broadcast also failed
	Deduplicated bool        `json:"deduplicated"`
	Reachable    bool        `json:"reachable"`
	Reach        teams.Reach `json:"-"` // why not; told to a person
	WaitedMs     int64       `json:"waitedMs"`
	Error        *errorJSON  `json:"error,omitempty"` // of broadcast, for this member
}

func (a *app) send(ctx context.Context, address, text string, o sendOptions) error {
	if o.wait != verified && o.wait != consumed {
		return usage("there is "+verified+" and "+consumed, "--wait %q: no such state", o.wait)
	}
	body, err := a.text(text)
	if err != nil {
		return err
	}
	name, teamName := teams.Split(address)
	t, err := a.team(ctx, teamName)
	if err != nil {
		return err
	}
	defer closeAll(t)
	// Not closed: the process ends with this command, and closing the ledger
	// would make it wait for the disk three times more. See [ledger.Ledger.Close].
	s, err := a.sender(ctx, t, o)
	if err != nil {
		return err
	}
	if err := s.message(body).Check(); err != nil {
		return err
	}
	member, err := s.resolve(name)
	if err != nil {
		return err
	}
	answer, err := s.send(ctx, member, body)
	if err != nil {
		if answer.ID != "" && o.id == "" && !o.dryRun {
			a.note("the message's id was %s", answer.ID)
		}
		return err
	}
	if a.json {
		err = a.printJSON(answer)
	} else {
		err = a.printf("%s\n", a.sentLine(answer))
		a.reachNote(answer)
		s.deafNote()
	}
	if err != nil && !o.dryRun {
		return fmt.Errorf("the message %s is in the inbox of %s, and the answer could not be given: %w", answer.ID, answer.Member, err)
	}
	return err
}

// resolve says whose inbox is meant by name.
func (s *sender) resolve(name string) (string, error) {
	names, err := s.team.Inboxes()
	if err != nil {
		return "", err
	}
	member, err := s.config.Resolve(name, names)
	if nf, ok := errors.AsType[*teams.NotFoundError](err); !ok || nf.Kind != "member" {
		return member, err
	}
	// Agents of the first generation can write to "user" at any time, and so
	// can anybody else.
	if s.opts.force || name == "user" && s.config.Generation() == teams.G1 {
		return name, teams.CheckName("member", name)
	}
	return "", &verdict{err, fault{
		code: "not_found", exit: exitNotFound,
		hint: "see who is there with: teambridge members; --force makes an inbox that nobody is known to read",
	}}
}

// message is what is sent with text.
func (s *sender) message(text string) *inbox.Message {
	return &inbox.Message{ID: s.opts.id, From: s.from, Text: text, Summary: s.opts.summary, Color: s.opts.color}
}

// sentLine is an answer for a person.
func (a *app) sentLine(s sent) string {
	state := a.paint(green, s.State)
	if s.Deduplicated {
		state += ", was sent before"
	}
	return fmt.Sprintf("%s  %s@%s  %s  %s", state, escape(s.Member, false), escape(s.Team, false), a.paint(dim, dash(escape(s.ID, false))), a.paint(dim, fmt.Sprintf("%d ms", s.WaitedMs)))
}

// reachNote says when nobody will read a message.
func (a *app) reachNote(s sent) {
	switch s.Reach {
	case teams.NotMember:
		a.note("%s is not a member of %s, or not any more: nobody may read this", s.Member, s.Team)
	case teams.LeadGone:
		a.note("the process that led %s has ended: nobody reads this until its session is resumed", s.Team)
	case teams.NoRelay:
		a.note("%s is headless and no relay runs for it: it gets this when \"teambridge run\" runs it again", s.Member)
	case teams.Unread:
		a.note("older messages to %s have not been read for minutes", s.Member)
	}
}

// text returns the message: the argument itself, or standard input.
func (a *app) text(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	const lineEnd = len("\r\n")
	b, err := io.ReadAll(io.LimitReader(a.stdin, inbox.MaxText+int64(lineEnd)+1))
	if err != nil {
		return "", fmt.Errorf("read the message from standard input: %w", err)
	}
	// The one line end that a shell's echo or an editor adds is not meant.
	s, ended := strings.CutSuffix(string(b), "\n")
	if ended {
		s = strings.TrimSuffix(s, "\r")
	}
	if len(s) > inbox.MaxText {
		// Cut off, it may also end within a character; that is not the fault.
		return "", &inbox.InvalidError{Field: "text", Reason: fmt.Sprintf("on standard input has more than the %d bytes that are allowed", inbox.MaxText)}
	}
	return s, nil
}

// sender sends to the members of one team.
type sender struct {
	app    *app
	team   *teams.Team
	config *teams.Config
	ledger *ledger.Ledger // nil where it could not be opened
	from   string
	deaf   bool // agents cannot answer to from
	opts   sendOptions
}

// deafNote says that nobody will answer, and what to do about it.
func (s *sender) deafNote() {
	if s.deaf {
		s.app.note("agents of this team cannot answer \"user\"; \"teambridge join\" gives you a name that they can")
	}
}

func (a *app) sender(ctx context.Context, t *teams.Team, o sendOptions) (*sender, error) {
	config, err := t.Config(ctx)
	if err != nil {
		return nil, err
	}
	s := &sender{app: a, team: t, config: config, from: o.from, opts: o}
	if o.dryRun {
		// Opening the ledger could write. Which name we joined under is not
		// known without it, and changes nothing in what is checked.
		if s.from == "" {
			s.from = "user"
		}
		return s, nil
	}
	if s.ledger, err = a.ledger(ctx); err != nil {
		if o.id != "" && !o.force {
			return nil, fmt.Errorf("%w: %w", inbox.ErrNoMemory, err)
		}
		a.warn("%v; the message is sent without being recorded", err)
	}
	if s.from != "" {
		return s, nil
	}
	s.from = "user"
	if s.ledger == nil {
		return s, nil
	}
	guest, err := a.guest(ctx, s.ledger, t, config)
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	if guest != "" {
		s.from = guest
	} else {
		s.deaf = config.Generation() == teams.G2
	}
	return s, nil
}

func (s *sender) close() error {
	if s.ledger == nil {
		return nil
	}
	return s.ledger.Close()
}

// stillUnread is how long the oldest message may wait before a sender is told.
const stillUnread = 2 * time.Minute

// written is a message that was put into an inbox.
type written struct {
	sent
	box     *inbox.Inbox
	tracked *inbox.Tracked // nil if it was sent before, and taken
	start   time.Time
}

// put puts text into the inbox of member. What is known is in the answer also
// where there is an error.
func (s *sender) put(ctx context.Context, member, text string, track bool) (written, error) {
	w := written{sent: sent{Team: s.team.Name(), Member: member, ID: s.opts.id, State: "failed"}, start: time.Now()}
	w.Reach = s.config.Reach(member, s.app.facts(ctx, s.ledger, s.team, s.config, member))
	w.Reachable = w.Reach == teams.Reachable
	var err error
	if w.box, err = s.app.inbox(s.team, member); err != nil {
		return w, err
	}
	opts := inbox.AppendOptions{Force: s.opts.force, Track: track}
	if s.ledger != nil {
		opts.Memory = s.ledger
	}
	receipt, err := w.box.Append(ctx, *s.message(text), opts)
	w.WaitedMs = time.Since(w.start).Milliseconds()
	w.ID, w.Deduplicated, w.tracked = receipt.ID, receipt.Deduplicated, receipt.Tracked
	if err != nil {
		return w, err
	}
	if receipt.Unrecorded != nil {
		s.app.warn("the message is in the inbox, but was not recorded: %v", receipt.Unrecorded)
	}
	w.State = verified
	return w, nil
}

// send puts text into the inbox of member and waits for what is to be waited
// for. What is known is in the answer also where there is an error.
func (s *sender) send(ctx context.Context, member, text string) (sent, error) {
	if s.opts.dryRun {
		return s.check(ctx, member)
	}
	w, err := s.put(ctx, member, text, s.opts.wait == consumed)
	if err != nil {
		return w.sent, err
	}
	if s.opts.wait == consumed {
		return s.consumed(ctx, w)
	}
	if w.Reachable && s.waiting(ctx, w.box) {
		w.Reach, w.Reachable = teams.Unread, false
	}
	return w.sent, nil
}

// check is send without sending.
func (s *sender) check(ctx context.Context, member string) (sent, error) {
	answer := sent{Team: s.team.Name(), Member: member, ID: s.opts.id, State: "failed"}
	answer.Reach = s.config.Reach(member, s.app.facts(ctx, s.ledger, s.team, s.config, member))
	answer.Reachable = answer.Reach == teams.Reachable
	box, err := s.app.inbox(s.team, member)
	if err != nil {
		return answer, err
	}
	if err := writable(ctx, box); err != nil {
		return answer, err
	}
	answer.State = "dry-run"
	return answer, nil
}

// writable reports what would keep a message out of an inbox, as far as that
// shows without writing.
func writable(ctx context.Context, box *inbox.Inbox) error {
	_, err := box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return err
	}
	lock := lockedfile.LockName(box.Path())
	if info, err := os.Lstat(lock); err == nil && !info.IsDir() {
		return fmt.Errorf("%w: a file stands at %s", lockedfile.ErrForeignLock, lock)
	}
	return nil
}

// consumed waits until a message was taken.
func (s *sender) consumed(ctx context.Context, w written) (sent, error) {
	wait, cancel := within(ctx, s.opts.timeout, notTaken(w.Member))
	defer cancel()
	var err error
	if w.tracked != nil {
		err = ended(wait, s.await(wait, w.box, w.tracked))
	}
	w.WaitedMs = time.Since(w.start).Milliseconds()
	if err == nil {
		w.State = consumed
	}
	return w.sent, err
}

// quickRead is the largest inbox that is looked through for old messages, in
// bytes: it takes about as long as the sending itself.
const quickRead = 256 << 10

// waiting reports whether the inbox holds messages that nobody has read for
// minutes. A guest's inbox, which a person reads, does not count.
func (s *sender) waiting(ctx context.Context, box *inbox.Inbox) bool {
	if m, ok := s.config.Member(box.Name()); !ok || m.Guest() {
		return false
	}
	if info, err := os.Stat(box.Path()); err != nil || info.Size() > quickRead {
		return false
	}
	rows, err := box.Read(ctx)
	if err != nil {
		return false // it was read back a moment ago: others are writing now
	}
	for _, r := range rows {
		if at, ok := r.Time(); !r.Read && ok && time.Since(at) > stillUnread {
			return true
		}
	}
	return false
}
