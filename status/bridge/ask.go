package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/claude/session"
	"teambridge/relay/wire"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/history"
	"teambridge/status/view"
	"teambridge/teams"
)

// Ask sends a message to a member and waits for the answer; see [api.Bridge]. If there is an
// error, what is known is returned even then.
func (l *Local) Ask(ctx context.Context, team, member, id string, n api.NewQuestion) (a api.Answered, err error) {
	defer func() {
		if err = overdue(ctx, err); err != nil && a.Joined != "" { // an error is all that comes over HTTP
			f := view.Explain(err)
			hint := fmt.Sprintf("you have joined %s as %s, so that agents can answer; \"teambridge leave\" undoes it", team, a.Joined)
			if f.Hint != "" {
				hint = f.Hint + "; " + hint
			}
			err = &api.Decided{Err: err, Code: f.Code, Hint: hint}
		}
	}()
	var timeout time.Duration
	if n.Timeout != "" {
		if timeout, err = time.ParseDuration(n.Timeout); err != nil || timeout < 0 {
			return a, api.Decide(api.CodeInvalid, seeDocument, "timeout: %q is not a duration such as 5m", n.Timeout)
		}
	}
	if n.DryRun {
		return a, api.Decide(api.CodeInvalid, "nothing was sent; send it with dryRun", "a question has no dry run")
	}
	n.Follow = true
	to, w, err := l.reach(ctx, team, member, n.Via)
	if err != nil {
		return a, err
	}
	defer to.Close() // it is written by path
	if err := l.speaks(ctx, &to, n.From); err != nil {
		return a, err
	}
	a, err = w.ask(ctx, &to, message{n.NewMessage, id}, n.Dir, timeout)
	return a, whileAsked(ctx, w, &to, err)
}

// whileAsked adds to the error that there is no answer in time that the agent waits for its person.
func whileAsked(ctx context.Context, w way, to *Target, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	f := view.Explain(err)
	if f.Code != api.CodeTimeout {
		return err
	}
	list, serr := w.status(ctx, to)
	if serr != nil || len(list) != 1 || list[0].Word != api.WordWaiting {
		return err
	}
	return api.Decide(f.Code, f.Hint, "%w; %s waits for you: %s", err, list[0].Member, cmp.Or(list[0].Why, "it asks something"))
}

func (l inboxWay) ask(ctx context.Context, to *Target, m message, dir string, timeout time.Duration) (a api.Answered, err error) {
	member := to.Member()
	if _, err := promptOptionsOf(m.NewMessage); err != nil {
		return a, err
	}
	if m.PaneOptions != (api.PaneOptions{}) {
		return a, onlyForPanes()
	}
	t := to.Team
	if member, err = t.Resolve(ctx, member); err != nil {
		return a, l.alike(ctx, err, "")
	}
	if !Agent(ctx) {
		if ours, err := l.Ours(ctx, t); err == nil && slices.Contains(ours, member) { // a ledger that cannot be read ends the send
			return a, api.Decide(api.CodeRefused, "nothing was sent; list the agents with: teambridge members", "%s is you, and cannot answer", member)
		}
	}
	c, err := t.Config(ctx)
	if err != nil {
		return a, err
	}
	if err := t.Agent(c, member).Version().Check(member); err != nil {
		return a, err
	}
	const anyway = "teambridge send puts it into the inbox anyway"
	if err := l.canAnswer(ctx, nil, t, c, member, anyway); err != nil && m.id == "" {
		return a, err
	}
	if m.From != "" {
		m.From = t.Root().MemberName(ctx, t.Name(), m.From) // the reply comes to this inbox
	}
	// Before joining: a message that is not sent must not change the team.
	draft := inbox.Message{ID: m.id, From: cmp.Or(m.From, api.Guest), Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
	if err := cmp.Or(draft.Check(), draft.CheckProtocol(c)); err != nil {
		return a, err
	}
	rec, err := l.Record(ctx, t.Name())
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	before, err := rec.Recall(ctx, c.Instance(), member, m.id)
	if err != nil {
		return a, err
	}
	if before == nil { // else it may have been answered
		if err := l.canAnswer(ctx, rec.Ledger(ctx), t, c, member, anyway); err != nil {
			return a, err
		}
		all, err := view.Statuses(ctx, status.Source{Journal: rec.Journal(), Ledger: rec.Ledger(ctx)}, t, nil, nil, time.Now())
		if err != nil {
			return a, err
		}
		if slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == member && s.State == api.StateTerminated }) {
			return a, api.Decide(api.CodeNotFound, anyway, "%s has shut down: nobody can answer", member)
		}
	}
	if m.From == "" {
		if m.From, a.Joined, err = l.askingAs(ctx, t, c, dir); err != nil {
			return a, err
		}
	}
	r, err := l.row(ctx, to, m.From, false, false)
	if err != nil {
		return a, err
	}
	q := &question{l: l, sender: r.sender, from: m.From, summary: m.Summary, text: m.Text, rec: rec}
	if q.Delivered, a.Sent, err = l.sendQuestion(ctx, to, m); err != nil {
		return a, err
	}
	if before != nil {
		q.Start, q.taken, q.said, q.other = before.At, before.Taken, before.Said, true
	}
	q.since = q.Start
	agent := t.Agent(r.sender.Config(), member)
	q.conversation, q.transcripts = agent.Conversation(q.Start.Truncate(time.Millisecond)), agent.Transcripts
	q.delivery = a.Sent.Delivery
	wait, cancel := Within(ctx, timeout, fmt.Sprintf("no answer from %s; the message %s stays sent", member, q.ID))
	defer cancel()
	l.Opts.Debug("waiting for an answer to %s", q.ID)
	reply, err := q.await(wait)
	if err != nil {
		return a, overdue(wait, err)
	}
	a.Sent.State, a.Reply, a.Text, a.Via, a.Certain = api.Consumed, view.Recorded(reply.m), reply.text, reply.via, reply.certain
	return a, nil
}

// sendQuestion sends a message through a team of its own, since who follows the message may
// close that before the answer comes.
func (l inboxWay) sendQuestion(ctx context.Context, asked *Target, m message) (d mail.Delivered, sent api.Sent, err error) {
	to, err := l.In(ctx, asked.Name(), asked.Member())
	if err != nil {
		return d, sent, err
	}
	defer to.Close() // it is written by path
	d.Start = time.Now()
	sent, row, err := l.send(ctx, &to, m)
	if err != nil {
		return d, sent, err
	}
	if row == nil { // a prompt
		d.Team, d.Member, d.ID = sent.Team, sent.Member, sent.ID
		return d, sent, nil
	}
	d, sent = *row, view.Sent(*row)
	d.Inbox, err = inbox.Open(asked.Team, d.Member, l.Opts.Locker)
	return d, sent, err
}

// canAnswer returns an error with the hint if nobody can answer for a member. lg may be nil.
func (l inboxWay) canAnswer(ctx context.Context, lg *ledger.Ledger, t *teams.Team, c *teams.Config, member, hint string) error {
	facts, err := relay.Facts(ctx, lg, l.Opts.State, t, c, member)
	if err != nil { // it is for a hint
		l.Opts.Debug("whether %s is relayed to is not known: %v", member, err)
	}
	switch c.Deliverability(member, facts) {
	case teams.NotMember:
		return api.Decide(api.CodeNotFound, hint, "%s is not a member of %s: nobody can answer", member, c.Team)
	case teams.LeadGone:
		return api.Decide(api.CodeNotFound, hint, "the lead of %s is not running: nobody can answer", c.Team)
	case teams.AgentGone:
		return api.Decide(api.CodeNotFound, hint, "the process of %s has ended: nobody can answer", member)
	case teams.NoRelay:
		return api.Decide(api.CodeNotFound, hint, "%s is headless and has no running relay: nobody can answer", member)
	case teams.AtTerminal:
		if l.carrying == nil { // else a prompt moves it
			return api.Decide(api.CodeNotFound, "teambridge switch "+member+" --to remote", "the session of %s is at a person's terminal: messages wait until it moves", member)
		}
	}
	return nil
}

// askingAs returns the name to ask under. It joins the team if nobody has, since agents can
// write to members alone, and returns the name as joined then, too.
func (l inboxWay) askingAs(ctx context.Context, t *teams.Team, c *teams.Config, dir string) (name, joined string, err error) {
	lg, err := l.Opts.Ledger(ctx)
	if err != nil {
		return "", "", err
	}
	if name, err = mail.Guest(ctx, lg, t, c); err != nil || name != "" {
		return name, "", err
	}
	_, err = l.Join(ctx, t.Name(), api.NewJoin{As: api.Guest, Dir: dir})
	return api.Guest, api.Guest, err
}

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
)

type askReply struct {
	m       journal.Record
	text    string
	via     string
	certain bool
}

// question is a sent message that waits for its answer.
type question struct {
	mail.Delivered
	l        inboxWay
	sender   *mail.Sender
	from     string // the answer is sent to this name
	summary  string
	text     string
	rec      *history.Recorder
	delivery string // of a prompt; "" for a row
	over     bool   // the prompt had ended when it was looked at last

	conversation *teams.Conversation // of the member
	transcripts  func() []string     // of the member
	transcribed  time.Time           // when they were last read for the answer

	since, taken time.Time        // the message was taken between these; taken is zero until then
	said         []journal.Record // by the member; not yet weighed

	begun time.Time // when its model was given the message; zero: not known
	other bool      // another message may have come to it since
}

// await waits for the answer. The member's messages and the state of its inbox are in
// different files, so changes can be seen in any order.
func (q *question) await(ctx context.Context) (askReply, error) {
	checked := time.Now() // when somebody could answer
	for {
		wait := history.Recheck
		if q.taken.IsZero() && q.l.carrying == nil {
			wait = lookStep
		} else if q.taken.IsZero() || len(q.said) > 0 {
			wait = lookAgain
		}
		list, err := q.rec.Changes(ctx, wait)
		if err != nil {
			return askReply{}, err
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
				return askReply{}, err
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
				return askReply{}, api.Decide(api.CodeNotFound, "the message stays sent", "%s has shut down without an answer", q.Member)
			}
		}
		if len(list) == 0 && time.Since(checked) >= history.Recheck {
			if r, over, err := q.overPrompt(ctx); over || err != nil {
				return r, err
			}
			c, err := q.sender.Team().Config(ctx)
			if err != nil {
				return askReply{}, err
			}
			// Without the ledger: a relay that is being restarted is no reason to give up.
			if err := q.l.canAnswer(ctx, nil, q.sender.Team(), c, q.Member, "the message stays sent"); err != nil {
				return askReply{}, err
			}
			checked = time.Now()
		}
	}
}

// of reports whether a change is a message that has appeared in the team.
func (q *question) of(c journal.Change) bool {
	return c.Kind == journal.Appeared && c.Message.Team.Team == q.Team && c.Message.Root == q.sender.Team().Root().Path()
}

// lifecycle is what a message says about the life of a member.
func lifecycle(m journal.Record) (status.Lifecycle, bool) {
	e := m.Entry()
	return status.LifecycleOf(&e)
}

// look checks whether the message was taken.
func (q *question) look(ctx context.Context) error {
	now := time.Now()
	if q.delivery != "" {
		d, err := q.prompt(ctx)
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
	fate, err := q.sender.Follow(ctx, q.Delivered)
	if err != nil {
		return err
	}
	if fate != inbox.Consumed {
		q.since = now
		return nil
	}
	q.taken, q.State = time.Now(), api.Consumed
	return nil
}

// prompt returns the delivery of a question that was sent as a prompt.
func (q *question) prompt(ctx context.Context) (d ledger.Delivery, err error) {
	lg, err := q.l.Opts.Ledger(ctx)
	if err != nil {
		return d, err
	}
	list, err := lg.Deliveries(ctx, ledger.DeliveryQuery{UUID: q.delivery})
	if err == nil && len(list) == 0 {
		err = api.Decide(api.CodeUnknown, "the message stays sent", "the delivery %s is not recorded any more", q.delivery)
	}
	if err == nil {
		d = list[0]
	}
	return d, err
}

// overPrompt reports whether a prompt has ended, and had when it was looked at before: its
// answer, which is recorded with its end, would be known. r is a message of that turn.
func (q *question) overPrompt(ctx context.Context) (r askReply, over bool, err error) {
	if q.delivery == "" {
		return r, false, nil
	}
	d, err := q.prompt(ctx)
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
func (q *question) early(m journal.Record) bool {
	known, given := q.begins()
	return known && given == 0 && time.Since(m.FirstSeen) < recordLag
}

// begins finds out when the turn with the message began. known says that there is a
// conversation, and given how many times the message may be in it.
func (q *question) begins() (known bool, given int) {
	if !q.begun.IsZero() {
		return true, 1
	}
	_, known = q.conversation.Read()
	list := q.conversation.Given(q.from, q.summary, q.text)
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
func (q *question) transcript(ctx context.Context) (r askReply, ok bool, err error) {
	if time.Since(q.transcribed) < recordLag {
		return askReply{}, false, nil
	}
	q.transcribed = time.Now()
	if q.begins(); q.begun.IsZero() {
		return askReply{}, false, nil
	}
	for _, path := range q.transcripts() {
		said, at := saidIn(session.Read(ctx, path, session.Options{Since: q.begun}), q.begun)
		if at.IsZero() || time.Since(at) < recordLag {
			continue
		}
		if r, err := q.unseen(ctx); err == nil || said == "" {
			return r, err == nil, err
		}
		m := journal.Record{Inbox: q.from, FirstSeen: time.Now().UTC(), Answer: q.ID}
		m.Team, m.From, m.Text, m.Timestamp = teams.Instance{Team: q.Team}, q.Member, said, at.UTC().Format(inbox.TimestampLayout)
		return askReply{m: m, text: said, via: api.ViaResult, certain: true}, true, nil
	}
	return askReply{}, false, nil
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
func (q *question) weigh(m journal.Record) (r askReply, ok bool, err error) {
	at, known := m.Time()
	if !known {
		at = m.FirstSeen
	}
	if at.Before(q.since.Truncate(time.Millisecond)) { // rows have their time in milliseconds
		return askReply{}, false, nil
	}
	r = askReply{m: m}
	switch m.Kind() {
	case "message":
		r.via, r.text = api.ViaMessage, m.Text
		r.certain = known && (at.After(q.taken) || q.taken.Sub(q.since) < startup)
		return r, m.Inbox == q.from, nil
	case journal.KindAnswer: // of a headless agent, recorded with the messages that it answers
		r.via, r.text, r.certain = api.ViaResult, m.Text, true
		return r, slices.Contains(m.InReplyTo(), q.ID), nil
	case "idle_notification":
	default:
		return askReply{}, false, nil
	}
	idle, ok := lifecycle(m)
	if !ok || idle.Member != q.Member {
		return askReply{}, false, nil
	}
	told, after := known && !q.begun.IsZero(), at.After(q.taken)
	r.via, r.text, r.certain = api.ViaResult, idle.Result, told || known && after && !q.other
	switch {
	case told && at.Before(q.begun) && (idle.IdleReason == "" || !after),
		!told && (idle.IdleReason == "" && !at.After(q.taken.Add(startup)) || idle.Result == "" && !after):
		return askReply{}, false, nil // of the previous turn
	}
	switch {
	case idle.IdleReason == "failed":
		return askReply{}, false, noAnswer("%s took the message, and its turn failed: %s", q.Member, cmp.Or(idle.FailureReason, "-"))
	case idle.IdleReason == "interrupted":
		return askReply{}, false, noAnswer("%s took the message, and was interrupted", q.Member)
	case idle.Result != "":
		return r, true, nil
	case r.certain:
		return askReply{}, false, errNoWord
	}
	return askReply{}, false, nil
}

// errNoWord says that the turn with the message ended with a report without an answer.
var errNoWord = errors.New("no answer in the report")

// unseen returns the message that the member sent us in the turn that has ended. It is in
// another file than the report, and may not have been recorded yet.
func (q *question) unseen(ctx context.Context) (askReply, error) {
	box, err := inbox.Open(q.sender.Team(), q.from, nil) // reading takes no lock
	if err != nil {
		return askReply{}, err
	}
	rows, err := box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return askReply{}, err
	}
	for _, row := range rows {
		m := journal.Record{Row: row, Inbox: q.from, FirstSeen: time.Now()}
		m.Team.Team = q.Team
		if m.From != q.Member || m.Kind() != "message" {
			continue
		}
		if r, ok, err := q.weigh(m); ok || err != nil {
			return r, err
		}
	}
	return askReply{}, noAnswer("%s took the message, and ended its turn without an answer", q.Member)
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
func (q *question) answer(ctx context.Context, m journal.Record) (askReply, verdict, error) {
	r, ok, err := q.weigh(m)
	switch {
	case errors.Is(err, errNoWord):
		r, err = q.unseen(ctx)
	case ok && err == nil:
		r = q.first(ctx, r)
	case err == nil:
		return askReply{}, unrelated, nil
	}
	if q.wrote(m) && r.via != api.ViaMessage && time.Since(m.FirstSeen) < quiet {
		return askReply{}, undecided, nil
	}
	return r, decided, err
}

// first returns what the member said first in its turn: a report, or a message to us from before it,
// which is in another file, and may not have been recorded yet.
func (q *question) first(ctx context.Context, report askReply) askReply {
	if report.m.Kind() != "idle_notification" {
		return report
	}
	if r, err := q.unseen(ctx); err == nil {
		said, known := r.m.Time()
		reported, sure := report.m.Time()
		if q.wrote(report.m) || known && sure && !said.After(reported) {
			return r
		}
	}
	return report
}

// wrote reports whether a report says that the member sent us a message in its turn. On a busy
// machine, agents were seen to report before the message was in the inbox.
func (q *question) wrote(report journal.Record) bool {
	l, ok := lifecycle(report)
	return ok && l.Member == q.Member && l.WroteTo == q.from
}

func noAnswer(format string, args ...any) error {
	return api.Decide(api.CodeNoAnswer, "the message stays sent; wait for a later answer with: teambridge wait --for reply", format, args...)
}
