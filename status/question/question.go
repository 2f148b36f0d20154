// Package question finds out what an agent answers to a message, by what was recorded of it: which of the things that it says is the
// answer, and whether that is certain.
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
	recordLag = 2 * time.Second        // how late an agent may write down its conversation
	lookAgain = 100 * time.Millisecond // how often it is read meanwhile

	// An agent's turn with its model takes at least this long. If its transcript does not show
	// when the turn with a message began, a report without an idle reason that comes sooner
	// after the message was taken counts as one of the previous turn.
	startup = 500 * time.Millisecond

	// How long a message is waited for that an agent says in its report to have written.
	quiet = 10 * time.Second

	// How much earlier than the clock the time of a file can be: a file has that of the last tick.
	fileTime = 10 * time.Millisecond

	recheck = time.Second // how often it is looked whether somebody can answer
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
	From    string // the answer is sent to this name
	Summary string
	Text    string

	Conversation *teams.Conversation // of the member
	Transcripts  func() []string     // of the member

	// Changes waits for what is recorded of the team, as [teambridge/status/history.Recorder.Changes] does.
	Changes func(ctx context.Context, wait time.Duration) ([]journal.Change, error)
	// Prompt returns how far a prompt has come; nil: it is a row.
	Prompt func(context.Context) (ledger.Delivery, error)
	// Nobody returns an error if nobody can answer any more.
	Nobody func(context.Context, *teams.Config) error
	// Alone says that nothing else follows the message, so that its inbox is looked at often until it is taken.
	Alone bool

	over        bool      // the prompt had ended when it was looked at last
	transcribed time.Time // when transcripts were last read for the answer

	since, taken time.Time        // the message was taken between these; taken is zero until then
	said         []journal.Record // by the member; not yet weighed

	begun time.Time // when its model was given the message; zero: not known
	other bool      // another message may have come to it since
}

// Again says that the question was asked before, what is known of when the member took it, and what it has said since.
func (q *Question) Again(taken time.Time, said []journal.Record) {
	q.taken, q.said, q.other = taken, said, true
}

// Await waits for the answer. The member's messages and the state of its inbox are in
// different files, so changes can be seen in any order.
func (q *Question) Await(ctx context.Context) (Reply, error) {
	q.since = q.Start
	checked := time.Now() // when somebody could answer
	for {
		wait := recheck
		if q.taken.IsZero() && q.Alone {
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
			if err := q.Nobody(ctx, c); err != nil {
				return Reply{}, err
			}
			checked = time.Now()
		}
	}
}

// of reports whether a change is a message that has appeared in the team.
func (q *Question) of(c journal.Change) bool {
	return c.Kind == journal.Appeared && c.Message.Team == q.Team && c.Message.Root == q.Sender.Team().Root().Path()
}

// lifecycle is what a message says about the life of a member.
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
	info, _ := os.Stat(q.Inbox.Path()) // nil: it was removed
	q.taken, q.State = latest(info, q.since, time.Now()), api.Consumed
	return nil
}

// latest is when a message was taken at the latest, which was seen now in a file and not yet then: not later than the file has changed,
// however late that is seen.
func latest(file os.FileInfo, then, now time.Time) time.Time {
	if file != nil {
		if changed := file.ModTime().Add(fileTime); changed.After(then) && changed.Before(now) {
			return changed
		}
	}
	return now
}

// overPrompt reports whether a prompt has ended, and had when it was looked at before: its
// answer, which is recorded with its end, would be known. r is a message of that turn.
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

// early reports whether a report must wait, because the agent's conversation does not yet
// show when the turn with the message began.
func (q *Question) early(m journal.Record) bool {
	known, given := q.begins()
	return known && given == 0 && time.Since(m.FirstSeen) < recordLag
}

// begins finds out when the turn with the message began. known says that there is a
// conversation, and given how many times the message may be in it.
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

// transcript returns what the agent said last in the turn with the message, by its
// transcript, if that turn has been over for a while. On a busy machine the reader of its
// report can be faster than we are: then the report is gone before it was seen here. A
// message that the agent sent us in that turn comes first; it may not have been seen either. The error
// is that the turn has ended without an answer.
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

// saidIn returns what an agent said last in the turn that began at a time, "" if nothing, and when it was completed: the
// zero time if the turn is not in the conversation, or was not.
func saidIn(conversation iter.Seq2[wire.Envelope, error], begun time.Time) (said string, at time.Time) {
	var turn *string
	for e, err := range conversation {
		if err != nil {
			return "", time.Time{} // what cannot be read says nothing
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

// weigh decides whether something the member said is the answer.
//
// Agents take messages between two turns, so a message that is sent after that is the answer.
// The report of a turn, an idle_notification, is written at about the time when the next message
// is taken:
//
//   - An agent with nothing to do reports an idle reason, and then reads its inbox, 1 ms later
//     and every 500 ms.
//   - An agent that finds a message takes it, and then reports the previous turn without a
//     reason, up to 60 ms later, or 500 ms on a busy machine.
//
// The agent's transcript shows when its model was given the message: after the report of the
// previous turn (3 to 90 ms), and before that of its own, unless the model answers within 90 ms.
// Then the report has a reason. If that is not known, as of a question that was asked twice, a
// report that is dated after the message was taken is of its turn. That is not certain if another
// message came, too.
func (q *Question) weigh(m journal.Record) (r Reply, ok bool, err error) {
	at, known := m.Time()
	if !known {
		at = m.FirstSeen
	}
	if at.Before(q.since.Truncate(time.Millisecond)) { // rows have their time in milliseconds
		return Reply{}, false, nil
	}
	r = Reply{Message: m}
	switch m.Kind() {
	case "message":
		r.Via, r.Text = api.ViaMessage, m.Text
		r.Certain = known && (at.After(q.taken) || q.taken.Sub(q.since) < startup)
		return r, m.Inbox == q.From, nil
	case journal.KindAnswer: // of a headless agent, recorded with the messages that it answers
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
		return Reply{}, false, nil // of the previous turn
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

// errNoWord says that the turn with the message ended with a report without an answer.
var errNoWord = errors.New("no answer in the report")

// unseen returns the message that the member sent us in the turn that has ended. It is in
// another file than the report, and may not have been recorded yet.
func (q *Question) unseen(ctx context.Context) (Reply, error) {
	box, err := inbox.Open(q.Sender.Team(), q.From, nil) // reading takes no lock
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

// What something that a member said means for a question.
type verdict int

const (
	unrelated verdict = iota
	undecided         // it is to be weighed again
	decided           // it ends the question
)

// answer returns the answer, or why there will be none, if something the member said decides it. A
// report that the member wrote to us is weighed again until that message is there.
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

// first returns what the member said first in its turn: a report, or a message to us from before it,
// which is in another file, and may not have been recorded yet.
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

// wrote reports whether a report says that the member sent us a message in its turn. On a busy
// machine, agents were seen to report before the message was in the inbox.
func (q *Question) wrote(report journal.Record) bool {
	l, ok := lifecycle(report)
	return ok && l.Member == q.Member && l.WroteTo == q.From
}

func noAnswer(format string, args ...any) error {
	return api.Decide(api.CodeNoAnswer, "the message stays sent; wait for a later answer with: teambridge wait --for reply", format, args...)
}
