package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay/claude/session"
	"teambridge/relay/wire"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

type askOptions struct {
	sendOptions
	timeout time.Duration
}

func newAsk(a *app) *cobra.Command {
	o := askOptions{timeout: 5 * time.Minute}
	cmd := &cobra.Command{
		Use:   "ask MEMBER[@TEAM] TEXT|-",
		Short: "Send a message and print the answer",
		Long: `Send a message to an agent, wait for its answer, and print the answer.

The answer is what the agent says after it took your message: a message to you,
or the result of its turn, which newer agents report when the turn ends. Agents
take messages between two turns, so what was said before belongs to another
task. If a result may be from before, it counts when nothing follows it for
10 s; "certain" is false then.

Of an agent in a pane, it is the last text of the turn that your message was
given in, from its transcript or its Stop hook.

Unless you have joined the team, you join it as "operator" first, because some
agents can only write to members. "teambridge leave" undoes it.

Exit status: 0 an answer; 3 no such team or member, or the team has ended; 4 no
answer within --timeout; 8 the agent's turn with the message ended without an
answer, failed or was interrupted. With 4 and 8 the message stays sent. Others
are as for "teambridge send".`,
		Example: `  teambridge ask worker "is the build green?"
  teambridge ask worker - --timeout 20m < question.txt`,
		Args:              exactly(2),
		ValidArgsFunction: a.completeMembers(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.ask(cmd.Context(), args[0], args[1], o) },
	}
	sendFlags(cmd, &o.sendOptions)
	o.paneOptions.flags(cmd, false)
	durationFlag(cmd, &o.timeout, "timeout", o.timeout, "how long to wait for the answer; 0 is forever")
	return cmd
}

// answered is the answer of ask.
type answered struct {
	Sent    api.Sent    `json:"sent"`
	Reply   api.Message `json:"reply"`
	Text    string      `json:"text"` // the answer, even if the reply is a structured text
	Via     string      `json:"via"`  // message, or result (of the agent's turn)
	Certain bool        `json:"certain"`
}

func (a *app) ask(ctx context.Context, address, text string, o askOptions) (err error) {
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	to, err := a.target(ctx, address)
	if err != nil {
		return err
	}
	if err := o.suits(to); err != nil {
		return err
	}
	if to.Way() == api.WayPane {
		return a.askPane(ctx, to, body, o)
	}
	t := to.Team
	member, err := t.Resolve(ctx, to.Member())
	if err != nil {
		return err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	const anyway = "teambridge send puts it into the inbox anyway"
	if err := a.canAnswer(ctx, nil, t, c, member, anyway); err != nil {
		return err
	}
	if o.from != "" {
		o.from = t.Root().MemberName(ctx, t.Name(), o.from) // the reply comes to this inbox
	}
	// Before joining: a message that is not sent must not change the team.
	draft := inbox.Message{From: cmp.Or(o.from, api.Guest), Text: body, Summary: o.summary, Color: o.color, Protocol: o.protocol}
	if err := cmp.Or(draft.Check(), draft.CheckProtocol(c)); err != nil {
		return err
	}
	rec, err := a.startRecorder(ctx, t.Name())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close()) }()
	if err := a.canAnswer(ctx, rec.Ledger(ctx), t, c, member, anyway); err != nil {
		return err
	}
	all, err := rec.statuses(ctx, t)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == member && s.State == api.StateTerminated }) {
		return notFound(anyway, "%s has shut down: nobody can answer", member)
	}
	if o.from == "" {
		if o.from, err = a.askingAs(ctx, t, c); err != nil {
			return err
		}
	}
	s, w, err := a.local().Put(ctx, t, member, o.from, mail.Message{Text: body, Summary: o.summary, Color: o.color, Protocol: o.protocol})
	if err != nil {
		return err
	}
	if !a.json && w.Reach == teams.NoTeammate {
		a.reachNote(view.Sent(w))
	}
	q := &question{
		Delivered: w, app: a, sender: s, from: s.From(), summary: o.summary, text: body, rec: rec, since: w.Start,
		conversation: t.Agent(s.Config(), member).Conversation(w.Start.Truncate(time.Millisecond)),
	}
	if agent := t.Agent(s.Config(), member); agent.Version().Has(teams.IdleResult) == teams.Yes {
		q.transcripts = agent.Transcripts
	}
	q.clock = clocked(w.Inbox.Path(), w.Start, time.Now())
	wait, cancel := within(ctx, o.timeout, fmt.Sprintf("no answer from %s; the message %s stays sent", member, w.ID))
	defer cancel()
	a.debug("waiting for an answer to %s", w.ID)
	done := a.working("waiting for an answer from %s", member)
	reply, err := q.await(wait)
	done()
	if err != nil {
		return ended(wait, err)
	}
	if a.json {
		return a.printJSON(answered{view.Sent(q.Delivered), view.Recorded(reply.m), reply.text, reply.via, reply.certain})
	}
	if !reply.certain {
		a.note("this answer may belong to another task of %s", member)
	}
	return a.printf("%s\n", escape(reply.text, true))
}

// canAnswer returns an error with the hint if nobody can answer for a member. l may be nil.
func (a *app) canAnswer(ctx context.Context, l *ledger.Ledger, t *teams.Team, c *teams.Config, member, hint string) error {
	switch c.Deliverability(member, a.facts(ctx, l, t, c, member)) {
	case teams.NotMember:
		return notFound(hint, "%s is not a member of %s: nobody can answer", member, c.Team)
	case teams.LeadGone:
		return notFound(hint, "the lead of %s is not running: nobody can answer", c.Team)
	case teams.NoRelay:
		return notFound(hint, "%s is headless and has no running relay: nobody can answer", member)
	case teams.AtTerminal:
		return notFound("teambridge switch "+member+" --to remote", "the session of %s is at a person's terminal: messages wait until it moves", member)
	}
	return nil
}

// askingAs returns the name to ask under. It joins the team if nobody has, since agents
// of every version can write to members.
func (a *app) askingAs(ctx context.Context, t *teams.Team, c *teams.Config) (string, error) {
	l, err := a.ledger(ctx)
	if err != nil {
		return "", err
	}
	guest, err := mail.Guest(ctx, l, t, c)
	if err != nil || guest != "" {
		return guest, err
	}
	dir, err := a.cwd()
	if err != nil {
		return "", err
	}
	if _, err := a.local().Join(ctx, t.Name(), api.NewJoin{As: api.Guest, Dir: dir}); err != nil {
		return "", err
	}
	a.note("joined %s as %s, so that agents can answer; \"teambridge leave\" undoes it", t.Name(), api.Guest)
	return api.Guest, nil
}

// The ways in which an answer comes.
const (
	viaMessage = "message"
	viaResult  = "result"
)

const (
	lookStep  = 10 * time.Millisecond  // how often the inbox is read for the sent message
	recordLag = 2 * time.Second        // how late an agent may write down its conversation
	lookAgain = 100 * time.Millisecond // how often it is read meanwhile

	// An agent's turn with its model takes at least this long. A report without an
	// idle reason that comes sooner after a message was taken is of the previous turn.
	startup = 500 * time.Millisecond

	// A report that may be of the previous turn counts if nothing follows for this long.
	quiet = 10 * time.Second

	// The kernel dates files by its last tick, of which there are at least 100 a second.
	tick = 10 * time.Millisecond
)

type askReply struct {
	m       journal.Message
	text    string
	via     string
	certain bool
}

// question is a sent message that waits for its answer.
type question struct {
	mail.Delivered
	app     *app
	sender  *mail.Sender
	from    string // the answer is sent to this name
	summary string
	text    string
	rec     *recorder
	clock   bool // the inbox file is dated by our clock

	conversation *teams.Conversation // of the member
	transcripts  func() []string     // of the member; nil if it reports no results
	transcribed  time.Time           // when they were last read for the answer

	since, taken time.Time         // the message was taken between these; taken is zero until then
	said         []journal.Message // by the member; not yet weighed

	begun  time.Time // when its model was given the message; zero: not known
	before time.Time // when the previous turn was reported: the next report is of ours
	held   *askReply // may be of the previous turn
	heldAt time.Time
	other  time.Time // when the first message after ours was seen
}

// await waits for the answer. The member's messages and the state of its inbox are in
// different files, so changes can be seen in any order.
func (q *question) await(ctx context.Context) (askReply, error) {
	checked := time.Now() // when somebody could answer
	for {
		wait := recheck
		if q.taken.IsZero() {
			wait = lookStep
		} else if len(q.said) > 0 {
			wait = lookAgain
		}
		list, err := q.rec.Changes(ctx, wait)
		if err != nil {
			return askReply{}, err
		}
		for _, c := range list {
			m := c.Message
			switch {
			case c.Kind != journal.Appeared || m.Team.Team != q.Team:
			case m.From == q.Member:
				q.said = append(q.said, m)
			case m.Inbox == q.Member && m.ID() != q.ID && q.other.IsZero():
				q.other = m.FirstSeen
			}
		}
		if q.taken.IsZero() {
			if err := q.look(ctx); err != nil {
				return askReply{}, err
			}
		}
		if !q.taken.IsZero() {
			var later []journal.Message
			for _, m := range q.said {
				if m.Kind() == "idle_notification" && (len(later) > 0 || q.early(m)) {
					later = append(later, m)
					continue
				}
				r, ok, err := q.weigh(m)
				if errors.Is(err, errNoWord) {
					return q.unseen(ctx)
				}
				if ok || err != nil {
					return r, err
				}
			}
			q.said = later
			if r, ok := q.transcript(ctx); ok {
				return r, nil
			}
		}
		for _, c := range list {
			if c.Kind != journal.Appeared || c.Message.Team.Team != q.Team {
				continue
			}
			if l, ok := lifecycle(c.Message); ok && l.Ends && !l.Hearsay && l.Member == q.Member {
				return askReply{}, notFound("the message stays sent", "%s has shut down without an answer", q.Member)
			}
		}
		if q.held != nil && time.Since(q.heldAt) >= quiet {
			return *q.held, nil
		}
		if len(list) == 0 && time.Since(checked) >= recheck {
			c, err := q.sender.Team().Config(ctx)
			if err != nil {
				return askReply{}, err
			}
			// Without the ledger: a relay that is being restarted is no reason to give up.
			if err := q.app.canAnswer(ctx, nil, q.sender.Team(), c, q.Member, "the message stays sent"); err != nil {
				return askReply{}, err
			}
			checked = time.Now()
		}
	}
}

// lifecycle is what a message says about the life of a member.
func lifecycle(m journal.Message) (status.Lifecycle, bool) {
	e := m.Entry()
	return status.LifecycleOf(&e)
}

// look checks whether the message was taken.
func (q *question) look(ctx context.Context) error {
	now := time.Now()
	fate, err := q.sender.Follow(ctx, q.Delivered)
	if err != nil {
		return err
	}
	if fate != inbox.Consumed {
		q.since = now
		return nil
	}
	if q.taken, q.State = time.Now(), api.Consumed; q.clock {
		q.taken = takenBy(q.Inbox.Path(), q.since, q.taken)
	}
	return nil
}

// early reports whether a report must wait, because the agent's conversation does not yet
// show when the turn with the message began.
func (q *question) early(m journal.Message) bool {
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
	list := slices.DeleteFunc(q.conversation.Given(q.from, q.summary, q.text), func(g teams.Given) bool { return !g.Sure && !g.Alone })
	if len(list) == 1 {
		q.begun = list[0].At
	}
	return known, len(list)
}

// transcript returns what the agent said last in the turn with the message, by its
// transcript, if that turn has been over for a while. On a busy machine the reader of its
// report can be faster than we are: then the report is gone before it was seen here. A
// message that the agent sent us in that turn comes first; it may not have been seen either.
func (q *question) transcript(ctx context.Context) (askReply, bool) {
	if q.transcripts == nil || time.Since(q.transcribed) < recordLag {
		return askReply{}, false
	}
	q.transcribed = time.Now()
	if q.begins(); q.begun.IsZero() {
		return askReply{}, false
	}
	for _, path := range q.transcripts() {
		said, at := saidIn(session.Read(ctx, path, session.Options{Since: q.begun}), q.begun)
		if said == "" || time.Since(at) < recordLag {
			continue
		}
		if r, err := q.unseen(ctx); err == nil {
			return r, true
		}
		m := journal.Message{Inbox: q.from, FirstSeen: time.Now().UTC(), Answer: q.ID}
		m.Team, m.From, m.Text, m.Timestamp = teams.Instance{Team: q.Team}, q.Member, said, at.UTC().Format(inbox.TimestampLayout)
		return askReply{m: m, text: said, via: viaResult, certain: true}, true
	}
	return askReply{}, false
}

// saidIn returns what an agent said last in the turn that began at a time, and when it
// ended; "" if the turn is not in the conversation, or has not come to its end.
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
					said = ""
				}
				return said, time.UnixMilli(int64(e.Time))
			}
		}
	}
	return "", time.Time{}
}

// clocked reports whether an inbox that was written after start is dated by our clock,
// and not by that of a file server.
func clocked(path string, start, now time.Time) bool {
	info, err := os.Stat(path)
	if err != nil || info.ModTime().Nanosecond() == 0 { // to the second
		return false
	}
	return info.ModTime().After(start.Add(-tick)) && !info.ModTime().After(now)
}

// takenBy returns the latest time at which a message can have been taken that was in the
// inbox at since and is not now. The file's time is more precise than now on a busy
// machine: the agent, or somebody after it, wrote the file.
func takenBy(path string, since, now time.Time) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return now
	}
	if by := info.ModTime().Add(tick); by.After(since) && by.Before(now) {
		return by
	}
	return now
}

// weigh decides whether something the member said is the answer.
//
// Agents take messages between two turns (measured on 2.1.80 and 2.1.329), so a message
// that is sent after that is the answer. The report of a turn, an idle_notification,
// needs care, because it is written at about the time when the next message is taken:
//
//   - An agent with nothing to do reports an idle reason, and then reads its inbox, 1 ms
//     later and every 500 ms. Such a report is of the previous turn if it is dated before
//     the message was taken (by 2 ms or more), else of the turn with the message.
//   - A newer agent that finds a message takes it, and then reports the previous turn
//     without a reason, up to 60 ms later, or 500 ms on a busy machine. An older one
//     reports first.
//
// The conversation of a newer agent shows when its model was given the message: after the
// report of the previous turn (3 to 90 ms), and before that of its own, unless the model
// answers within 90 ms. Then the report has a reason. Without a conversation, or if the
// message was given together with others, only the rules above apply.
func (q *question) weigh(m journal.Message) (r askReply, ok bool, err error) {
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
		r.via, r.text = viaMessage, m.Text
		r.certain = known && (at.After(q.taken) || q.taken.Sub(q.since) < startup)
		return r, m.Inbox == q.from, nil
	case journal.KindAnswer: // of a headless agent, recorded with the messages that it answers
		r.via, r.text, r.certain = viaResult, m.Text, true
		return r, slices.Contains(m.InReplyTo(), q.ID), nil
	case "idle_notification":
	default:
		return askReply{}, false, nil
	}
	idle, ok := lifecycle(m)
	if !ok || idle.Member != q.Member {
		return askReply{}, false, nil
	}
	r.via, r.text = viaResult, idle.Result
	told := known && !q.begun.IsZero()
	r.certain = told || known && !q.doubtful()
	switch {
	case told && at.Before(q.begun) && (idle.IdleReason == "" || !at.After(q.taken)):
		return askReply{}, false, nil // of the previous turn
	case told:
	case idle.IdleReason == "" && !at.After(q.taken.Add(startup)):
		q.before = at
		return askReply{}, false, nil
	case idle.IdleReason != "" && !at.After(q.taken) && q.before.IsZero():
		if held := r; held.text != "" {
			held.certain = false
			q.held, q.heldAt = &held, time.Now()
		}
		return askReply{}, false, nil
	}
	switch {
	case idle.IdleReason == "failed":
		return askReply{}, false, noAnswer("%s took the message, and its turn failed: %s", q.Member, dash(idle.FailureReason))
	case idle.IdleReason == "interrupted":
		return askReply{}, false, noAnswer("%s took the message, and was interrupted", q.Member)
	case idle.Result != "":
		return r, true, nil
	case r.certain:
		return askReply{}, false, errNoWord
	}
	return askReply{}, false, nil
}

// doubtful reports whether the next report may be of a later turn, with another message.
// Then what counts as the report of the previous turn was that of the turn with ours.
func (q *question) doubtful() bool {
	return !q.other.IsZero() && (q.held != nil || !q.before.IsZero() && q.other.Before(q.before.Add(startup)))
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
		m := journal.Message{Row: row, Inbox: q.from, FirstSeen: time.Now()}
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

func noAnswer(format string, args ...any) error {
	return api.Decide(api.CodeNoAnswer, "the message stays sent; wait for a later answer with: teambridge wait --for reply", format, args...)
}
