// Package question finds an agent's answer to a message in the records: which of the agent's messages and
// reports is the answer, and whether that is certain.
package question

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"os"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/claude/session"
	"teambridge/relay/wire"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/teams"
)

const (
	lookStep  = 10 * time.Millisecond  // how often the inbox is read for the sent message
	recordLag = 2 * time.Second        // how late an agent may write its transcript
	lookAgain = 100 * time.Millisecond // interval for reading the inbox of a question that others follow, too

	// An agent's turn with its model takes at least this long. If the transcript does not show when the turn
	// with a message began, a report without an idle reason that comes sooner after the message was taken
	// counts as the previous turn's.
	startup = 500 * time.Millisecond

	// quiet limits the wait for a message that an agent's report mentions.
	quiet = 10 * time.Second

	// fileTime is how far a file's modification time can be behind the clock: it is the time of the last tick.
	fileTime = 10 * time.Millisecond

	recheck = time.Second // interval for checking whether the member can still answer
)

// Reply is an answer.
type Reply struct {
	Message journal.Record
	Text    string
	Via     string // [api.ViaMessage] or [api.ViaResult]
	Certain bool
}

// Question is a sent message that waits for its answer.
type Question struct {
	mail.Delivered
	Sender  *mail.Sender
	From    string // the name to which the answer goes
	Summary string
	Text    string

	Conversation *teams.Conversation // of the member
	Transcripts  func() []string     // of the member

	// Changes waits for new records of the team, as [teambridge/status/history.Recorder.Changes] does.
	Changes func(ctx context.Context, wait time.Duration) ([]journal.Change, error)
	// Prompt returns the present state of a prompt; nil: the message is a row.
	Prompt func(context.Context) (ledger.Delivery, error)
	// CanAnswer returns an error if no agent can answer any more.
	CanAnswer func(context.Context, *teams.Config) error
	// Unfollowed means that nothing else follows the message, so its inbox is read often until it is taken.
	Unfollowed bool

	over        bool      // the prompt had ended at the last check
	transcribed time.Time // when transcripts were last read for the answer

	since, taken time.Time        // the message was taken between these times; taken is zero before it is known
	said         []journal.Record // by the member; to be judged

	begun time.Time // when the model received the message; zero: unknown
	other bool      // the member may have received another message since
}

// Again continues a question that was asked before: with the time when the member took it, and the member's
// messages since then.
func (q *Question) Again(taken time.Time, said []journal.Record) {
	q.taken, q.said, q.other = taken, said, true
}

// Await waits for the answer. The member's messages and its inbox are in different files, so changes can appear
// in any order.
func (q *Question) Await(ctx context.Context) (Reply, error) {
	q.since = q.Start
	checked := time.Now() // when CanAnswer was last called
	for {
		wait := recheck
		if q.taken.IsZero() && q.Unfollowed {
			wait = lookStep
		} else if q.taken.IsZero() || len(q.said) > 0 {
			wait = lookAgain
		}
		list, err := q.Changes(ctx, wait)
		if err != nil {
			return Reply{}, err
		}
		for _, c := range list {
			m := c.Message
			switch {
			case !q.of(c):
			case m.From == q.Member:
				q.said = append(q.said, m)
			case m.Inbox == q.Member && m.ID() != q.ID:
				q.other = true
			}
		}
		if q.taken.IsZero() {
			if err := q.look(ctx); err != nil {
				return Reply{}, err
			}
		}
		if !q.taken.IsZero() {
			var later []journal.Record
			for _, m := range q.said {
				if m.Kind() == "idle_notification" && (len(later) > 0 || q.early(m)) {
					later = append(later, m)
					continue
				}
				switch r, what, err := q.answer(ctx, m); what {
				case decided:
					return r, err
				case undecided:
					later = append(later, m)
				}
			}
			q.said = later
			if r, ok, err := q.transcript(ctx); ok || err != nil {
				return r, err
			}
		}
		for _, c := range list {
			if l, ok := lifecycle(c.Message); q.of(c) && ok && l.Ends && !l.Hearsay && l.Member == q.Member {
				return Reply{}, api.Decide(api.CodeNotFound, "the message stays sent", "%s has shut down without an answer", q.Member)
			}
		}
		if len(list) == 0 && time.Since(checked) >= recheck {
			if r, over, err := q.overPrompt(ctx); over || err != nil {
				return r, err
			}
			c, err := q.Sender.Team().Config(ctx)
			if err != nil {
				return Reply{}, err
			}
			if err := q.CanAnswer(ctx, c); err != nil {
				return Reply{}, err
			}
			checked = time.Now()
		}
	}
}

// of reports whether a change is a new message in the team.
func (q *Question) of(c journal.Change) bool {
	return c.Kind == journal.Appeared && c.Message.Team == q.Team && c.Message.Root == q.Sender.Team().Root().Path()
}

// lifecycle returns a message's information about the life of a member.
func lifecycle(m journal.Record) (status.Lifecycle, bool) {
	e := m.Entry()
	return status.LifecycleOf(&e)
}

// look checks whether the message was taken.
func (q *Question) look(ctx context.Context) error {
	now := time.Now()
	if q.Prompt != nil {
		d, err := q.Prompt(ctx)
		if err != nil {
			return err
		}
		switch d.State {
		case ledger.Claimed, ledger.FrameWritten:
			q.since = now
		case ledger.Accepted:
			q.since, q.taken = d.At, d.At
		default:
			q.taken = d.At
		}
		return nil
	}
	fate, err := q.Sender.Follow(ctx, q.Delivered)
	if err != nil {
		return err
	}
	if fate != inbox.Consumed {
		q.since = now
		return nil
	}
	info, _ := os.Stat(q.Inbox.Path()) // nil: the file was removed
	q.taken, q.State = latest(info, q.since, time.Now()), api.Consumed
	return nil
}

// latest returns the latest time at which a message can have been taken that is gone now, and was not at the
// time then. That is the modification time of the file, or else now.
func latest(file os.FileInfo, then, now time.Time) time.Time {
	if file != nil {
		if changed := file.ModTime().Add(fileTime); changed.After(then) && changed.Before(now) {
			return changed
		}
	}
	return now
}

// overPrompt reports whether a prompt has ended, and had ended at the last check. Its answer, which is recorded
// with its end, would be known by now. r is a message of that turn.
func (q *Question) overPrompt(ctx context.Context) (r Reply, over bool, err error) {
	if q.Prompt == nil {
		return r, false, nil
	}
	d, err := q.Prompt(ctx)
	if err != nil || !d.State.Ended() || !q.over {
		q.over = d.State.Ended()
		return r, false, err
	}
	if d.State == ledger.Done {
		r, err = q.unseen(ctx)
		return r, true, err
	}
	return r, true, noAnswer("the prompt to %s is %s: %s", q.Member, d.State, cmp.Or(d.Reason, "-"))
}

// early reports whether a report must wait, because the agent's conversation does not yet show when the turn
// with the message began.
func (q *Question) early(m journal.Record) bool {
	known, given := q.begins()
	return known && given == 0 && time.Since(m.FirstSeen) < recordLag
}

// begins finds the begin of the turn with the message. known reports whether there is a conversation, and given
// is the number of places where the message may be in it.
func (q *Question) begins() (known bool, given int) {
	if !q.begun.IsZero() {
		return true, 1
	}
	_, known = q.Conversation.Read()
	list := q.Conversation.Given(q.From, q.Summary, q.Text)
	if len(list) == 1 {
		q.begun = list[0]
	}
	return known, len(list)
}

// transcript returns the agent's last text in the turn with the message, from its transcript, if that turn has
// been over for a while. On a busy machine, the recipient of the report can remove it before it is seen here. A
// message that the agent sent us in that turn takes precedence, since it may also have been missed. The error
// says that the turn ended without an answer.
func (q *Question) transcript(ctx context.Context) (r Reply, ok bool, err error) {
	if time.Since(q.transcribed) < recordLag {
		return Reply{}, false, nil
	}
	q.transcribed = time.Now()
	if q.begins(); q.begun.IsZero() {
		return Reply{}, false, nil
	}
	for _, path := range q.Transcripts() {
		said, at := saidIn(session.Read(ctx, path, session.Options{Since: q.begun}), q.begun)
		if at.IsZero() || time.Since(at) < recordLag {
			continue
		}
		if r, err := q.unseen(ctx); err == nil || said == "" {
			return r, err == nil, err
		}
		m := journal.Record{InboxKey: inbox.InboxKey{Team: q.Team, Inbox: q.From}, FirstSeen: time.Now().UTC(), Answer: q.ID}
		m.From, m.Text, m.Timestamp = q.Member, said, at.UTC().Format(inbox.TimestampLayout)
		return Reply{Message: m, Text: said, Via: api.ViaResult, Certain: true}, true, nil
	}
	return Reply{}, false, nil
}

// saidIn returns an agent's last text in the turn that began at a time, or "", and when the turn ended. The
// time is zero if the turn is not in the conversation, or has not ended.
func saidIn(conversation iter.Seq2[wire.Envelope, error], begun time.Time) (said string, at time.Time) {
	var turn *string
	for e, err := range conversation {
		if err != nil {
			return "", time.Time{} // an unreadable conversation has no text
		}
		switch event := e.Event.(type) {
		case *wire.TurnStart:
			if turn == nil && int64(e.Time) == begun.UnixMilli() {
				turn = e.Turn
			}
		case *wire.Text:
			if turn != nil && e.Turn != nil && *e.Turn == *turn && e.Role == wire.RoleAgent && e.Subagent == nil && event.Thinking == nil {
				said = event.Text
			}
		case *wire.TurnEnd:
			if turn != nil && e.Turn != nil && *e.Turn == *turn {
				if event.Status != wire.TurnCompleted {
					return "", time.Time{}
				}
				return said, time.UnixMilli(int64(e.Time))
			}
		}
	}
	return "", time.Time{}
}

// weigh decides whether a message or report of the member is the answer.
//
// Agents take messages between two turns, so a message that is sent later is the answer. The report of a turn,
// an idle_notification, is written at about the time when the next message is taken:
//
//   - An agent with nothing to do reports an idle reason, and then reads its inbox, 1 ms later
//     and every 500 ms.
//   - An agent that finds a message takes it, and then reports the previous turn without a
//     reason, up to 60 ms later, or 500 ms on a busy machine.
//
// The agent's transcript shows when its model received the message: after the report of the previous turn (3 to
// 90 ms), and before the report of its own turn, unless the model answers within 90 ms. Such a report has a
// reason. If the time is unknown, as for a question that was asked twice, a report that is dated after the
// message was taken belongs to its turn. This is not certain if another message came, too.
func (q *Question) weigh(m journal.Record) (r Reply, ok bool, err error) {
	at, known := m.Time()
	if !known {
		at = m.FirstSeen
	}
	if at.Before(q.since.Truncate(time.Millisecond)) { // rows have times in milliseconds
		return Reply{}, false, nil
	}
	r = Reply{Message: m}
	switch m.Kind() {
	case "message":
		r.Via, r.Text = api.ViaMessage, m.Text
		r.Certain = known && (at.After(q.taken) || q.taken.Sub(q.since) < startup)
		return r, m.Inbox == q.From, nil
	case journal.KindAnswer: // a headless agent's, recorded with the messages that it answers
		r.Via, r.Text, r.Certain = api.ViaResult, m.Text, true
		return r, slices.Contains(m.InReplyTo(), q.ID), nil
	case "idle_notification":
	default:
		return Reply{}, false, nil
	}
	idle, ok := lifecycle(m)
	if !ok || idle.Member != q.Member {
		return Reply{}, false, nil
	}
	told, after := known && !q.begun.IsZero(), at.After(q.taken)
	r.Via, r.Text, r.Certain = api.ViaResult, idle.Result, told || known && after && !q.other
	switch {
	case told && at.Before(q.begun) && (idle.IdleReason == "" || !after),
		!told && (idle.IdleReason == "" && !at.After(q.taken.Add(startup)) || idle.Result == "" && !after):
		return Reply{}, false, nil // it is the previous turn's
	}
	switch {
	case idle.IdleReason == "failed":
		return Reply{}, false, noAnswer("%s took the message, and its turn failed: %s", q.Member, cmp.Or(idle.FailureReason, "-"))
	case idle.IdleReason == "interrupted":
		return Reply{}, false, noAnswer("%s took the message, and was interrupted", q.Member)
	case idle.Result != "":
		return r, true, nil
	case r.Certain:
		return Reply{}, false, errNoWord
	}
	return Reply{}, false, nil
}

// errNoWord means that the report of the turn with the message has no answer.
var errNoWord = errors.New("no answer in the report")

// unseen returns the member's message to us from the turn that has ended. It is in another file than the
// report, and may not have been recorded yet.
func (q *Question) unseen(ctx context.Context) (Reply, error) {
	box, err := inbox.Open(q.Sender.Team(), q.From, nil) // nil: reading takes no lock
	if err != nil {
		return Reply{}, err
	}
	rows, err := box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return Reply{}, err
	}
	for _, row := range rows {
		m := journal.Record{Row: row, InboxKey: inbox.InboxKey{Team: q.Team, Inbox: q.From}, FirstSeen: time.Now()}
		if m.From != q.Member || m.Kind() != "message" {
			continue
		}
		if r, ok, err := q.weigh(m); ok || err != nil {
			return r, err
		}
	}
	return Reply{}, noAnswer("%s took the message, and ended its turn without an answer", q.Member)
}

// verdict is the meaning of a member's message or report for a question.
type verdict int

const (
	unrelated verdict = iota
	undecided         // judge it again later
	decided           // it ends the question
)

// answer returns the answer, or the reason why there will be none, if m decides it. A report that mentions a
// message to us is judged again until that message has arrived.
func (q *Question) answer(ctx context.Context, m journal.Record) (Reply, verdict, error) {
	r, ok, err := q.weigh(m)
	switch {
	case errors.Is(err, errNoWord):
		r, err = q.unseen(ctx)
	case ok && err == nil:
		r = q.first(ctx, r)
	case err == nil:
		return Reply{}, unrelated, nil
	}
	if q.wrote(m) && r.Via != api.ViaMessage && time.Since(m.FirstSeen) < quiet {
		return Reply{}, undecided, nil
	}
	return r, decided, err
}

// first returns the first answer of a turn: the report, or an earlier message to us. The message is in another
// file, and may not have been recorded yet.
func (q *Question) first(ctx context.Context, report Reply) Reply {
	if report.Message.Kind() != "idle_notification" {
		return report
	}
	if r, err := q.unseen(ctx); err == nil {
		said, known := r.Message.Time()
		reported, sure := report.Message.Time()
		if q.wrote(report.Message) || known && sure && !said.After(reported) {
			return r
		}
	}
	return report
}

// wrote reports whether a report mentions a message to us in its turn. On a busy machine, agents were seen to
// report before the message was in the inbox.
func (q *Question) wrote(report journal.Record) bool {
	l, ok := lifecycle(report)
	return ok && l.Member == q.Member && l.WroteTo == q.From
}

func noAnswer(format string, args ...any) error {
	return api.Decide(api.CodeNoAnswer, "the message stays sent; wait for a later answer with: teambridge wait --for reply", format, args...)
}
