package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/mail"
	"teambridge/status"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// askOptions are the flags of ask.
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
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), args[0], args[1], o)
		},
	}
	sendFlags(cmd, &o.sendOptions)
	cmd.Flags().DurationVar(&o.timeout, "timeout", o.timeout, "how long to wait for the answer; 0 is forever")
	return cmd
}

// answered is what ask says. The names are those of --json.
type answered struct {
	Sent    api.Sent    `json:"sent"`
	Reply   api.Message `json:"reply"`
	Text    string      `json:"text"` // the answer, also where the reply is a structured text
	Via     string      `json:"via"`  // message, or result (of the agent's turn)
	Certain bool        `json:"certain"`
}

func (a *app) ask(ctx context.Context, address, text string, o askOptions) (err error) {
	body, err := a.text(ctx, text)
	if err != nil {
		return err
	}
	name, teamName := teams.Split(address)
	t, err := a.team(ctx, teamName)
	if err != nil {
		return err
	}
	member, err := t.Resolve(ctx, name)
	if err != nil {
		return err
	}
	c, err := t.Config(ctx)
	if err != nil {
		return err
	}
	if why := silent(c, member, a.facts(ctx, nil, t, c, member)); why != "" {
		return notFound(anyway, "%s", why)
	}
	if o.from != "" {
		o.from = t.Root().MemberName(ctx, t.Name(), o.from) // its inbox is where the reply comes
	}
	// Before we join: a message that is not sent must not change the team.
	draft := inbox.Message{From: cmp.Or(o.from, defaultGuest), Text: body, Summary: o.summary, Color: o.color, Protocol: o.protocol}
	if err := draft.Check(); err != nil {
		return err
	}
	if err := draft.CheckProtocol(c); err != nil {
		return err
	}
	rec, err := a.startRecorder(ctx, t.Root(), t.Name())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.close()) }()
	if why := silent(c, member, a.facts(ctx, rec.sends(ctx), t, c, member)); why != "" {
		return notFound(anyway, "%s", why)
	}
	if over, err := rec.terminated(ctx, t, member); err != nil || over {
		return cmp.Or(err, notFound(anyway, "%s has shut down: nobody can answer", member))
	}
	if o.from == "" {
		if o.from, err = a.askingAs(ctx, t, c); err != nil {
			return err
		}
	}
	s, err := a.sender(ctx, t, o.sendOptions)
	if err != nil {
		return err
	}
	w, err := s.put(ctx, member, o.message(body), true)
	if err != nil {
		return err
	}
	if !a.json && w.Reach == teams.NoTeammate {
		a.reachNote(w)
	}
	q := &question{Delivered: w, sender: s, from: s.From(), text: body, rec: rec, since: w.Start}
	q.clock = clocked(w.Inbox.Path(), w.Start, time.Now())
	wait, cancel := within(ctx, o.timeout, fmt.Sprintf("no answer from %s; the message %s stays sent", member, w.ID))
	defer cancel()
	reply, err := q.await(wait)
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

// anyway is what to do about a member that cannot answer.
const anyway = "teambridge send puts it into the inbox anyway"

// terminated reports whether a member has shut down.
func (t *recorder) terminated(ctx context.Context, team *teams.Team, member string) (bool, error) {
	all, err := t.statuses(ctx, team, time.Now())
	return slices.ContainsFunc(all, func(s api.Status) bool { return s.Member == member && s.State == api.StateTerminated }), err
}

// silent says why nobody can answer for a member, or "".
func silent(c *teams.Config, member string, known teams.Facts) string {
	switch c.Deliverability(member, known) {
	case teams.NotMember:
		return fmt.Sprintf("%s is not a member of %s: nobody can answer", member, c.Team)
	case teams.LeadGone:
		return fmt.Sprintf("the process that led %s has ended: nobody can answer", c.Team)
	case teams.NoRelay:
		return fmt.Sprintf("%s is headless and has no running relay: nobody can answer", member)
	}
	return ""
}

// askingAs returns the name to ask under. It is that of a member, since every agent
// of every version can write to those: somebody who has not joined joins.
func (a *app) askingAs(ctx context.Context, t *teams.Team, c *teams.Config) (string, error) {
	l, err := a.ledger(ctx)
	if err != nil {
		return "", err
	}
	guest, err := mail.Guest(ctx, l, t, c)
	if err != nil || guest != "" {
		return guest, err
	}
	if err := a.joinAs(ctx, t, c, defaultGuest); err != nil {
		return "", err
	}
	a.note("joined %s as %s, so that agents can answer; \"teambridge leave\" undoes it", t.Name(), defaultGuest)
	return defaultGuest, nil
}

// The ways in which an answer comes.
const (
	viaMessage = "message"
	viaResult  = "result"
)

// reply is an answer.
type reply struct {
	m       journal.Message
	text    string
	via     string
	certain bool
}

// question is a message that was asked, on its way to an answer.
type question struct {
	mail.Delivered
	sender *sender
	from   string // that the answer is to
	text   string
	rec    *recorder
	clock  bool // files there are dated by our clock

	// The message was taken between these times: it was still there, and was
	// not any more.
	since, taken time.Time // taken is zero: not yet
	said         []journal.Message

	begun  time.Time // when its model was given the message; zero: not known
	before time.Time // when the turn before was reported: what is said next is of ours
	held   *reply    // may be of the turn before
	heldAt time.Time
	other  time.Time // when the first message that came after ours was seen
}

// await waits for the answer. What the member says and that it took the message
// stand in different files, so they can be seen in any order.
func (q *question) await(ctx context.Context) (reply, error) {
	seen := time.Now() // that somebody is there
	for {
		wait := lookStep
		switch {
		case q.taken.IsZero():
		case len(q.said) > 0:
			wait = lookAgain
		default:
			wait = recheck
		}
		list, err := q.rec.changes(ctx, wait)
		if err != nil {
			return reply{}, err
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
				return reply{}, err
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
		}
		for _, c := range list {
			if m := c.Message; c.Kind == journal.Appeared && m.Team.Team == q.Team && q.saysThatItEnded(m) {
				return reply{}, notFound("the message stays sent", "%s has shut down without an answer", q.Member)
			}
		}
		if q.held != nil && time.Since(q.heldAt) >= quiet {
			return *q.held, nil
		}
		if len(list) == 0 && time.Since(seen) >= recheck {
			if err := q.alive(ctx); err != nil {
				return reply{}, err
			}
			seen = time.Now()
		}
	}
}

// lifecycle is what a message says about the life of a member.
func lifecycle(m journal.Message) (status.Lifecycle, bool) {
	e := m.Entry()
	return status.LifecycleOf(&e)
}

// saysThatItEnded reports whether the member, or Claude Code, says in m that the member
// has shut down.
func (q *question) saysThatItEnded(m journal.Message) bool {
	l, ok := lifecycle(m)
	return ok && l.Ends && !l.Hearsay && l.Member == q.Member
}

// look sees whether the message was taken.
func (q *question) look(ctx context.Context) error {
	now := time.Now()
	fate, err := q.sender.Follow(ctx, q.Delivered)
	switch {
	case err != nil:
		return err
	case fate == inbox.Consumed:
		if q.taken, q.State = time.Now(), api.Consumed; q.clock {
			q.taken = takenBy(q.Inbox.Path(), q.since, q.taken)
		}
	default:
		q.since = now
	}
	return nil
}

// alive reports whether somebody is still there who could answer.
func (q *question) alive(ctx context.Context) error {
	c, err := q.sender.Team().Config(ctx)
	if err != nil {
		return err
	}
	// A relay that is just being started again is no reason to give up.
	if why := silent(c, q.Member, q.sender.app.facts(ctx, nil, q.sender.Team(), c, q.Member)); why != "" {
		return notFound("the message stays sent", "%s", why)
	}
	return nil
}

// The records of a conversation are written up to some tenths of a second late. So
// long a report waits for the one that says when the turn with the message began,
// which is looked for that often.
const (
	recordLag = 2 * time.Second
	lookAgain = 100 * time.Millisecond
)

// early reports whether a report comes too soon: the agent writes down its conversation,
// and it is not there yet when the turn with the message began.
func (q *question) early(m journal.Message) bool {
	if !q.begun.IsZero() {
		return false
	}
	first, times, known := q.sender.Team().Agent(q.sender.Config(), q.Member).Given(q.from, q.text, q.Start.Truncate(time.Millisecond))
	if times == 1 {
		q.begun = first
		return false
	}
	return known && times == 0 && time.Since(m.FirstSeen) < recordLag
}

// tick is how far behind the clock the time of a file can be: the kernel dates
// files by its last tick, of which there are 100 a second at least.
const tick = 10 * time.Millisecond

// clocked reports whether the inbox, into which a message was put since start, is
// dated by our clock, and not by that of a server that has the files.
func clocked(path string, start, now time.Time) bool {
	info, err := os.Stat(path)
	if err != nil || info.ModTime().Nanosecond() == 0 { // to the second
		return false
	}
	return info.ModTime().After(start.Add(-tick)) && !info.ModTime().After(now)
}

// takenBy returns by when the message was taken at the latest that was in the
// inbox at path at since, and is not now. Where we look late, because the machine
// has much to do, the inbox tells it better: the agent wrote it last, or somebody
// did after it.
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

// lookStep is how often a message that was asked is looked for in its inbox.
const lookStep = 10 * time.Millisecond

// startup is how long the turn of an agent takes at least, its model included.
// What an agent reports within so short a time of taking a message, going on with
// something, is of the turn before: it goes on with that message.
const startup = 500 * time.Millisecond

// quiet is how long nothing may follow on a report that may be of the turn before,
// for it to count all the same.
const quiet = 10 * time.Second

// weigh decides whether something the member said is the answer.
//
// Agents take messages between two turns (measured on 2.1.80 and 2.1.329, with
// tools running too), so what they say after it answers the message. A message
// that an agent sends lies within its turn, with a call of its model before the
// end. How a turn came out is in an idle_notification, and there it is close.
// Measured on both, around the ends of turns of a model that answers at once:
//
//   - An agent that finds nothing to go on with reports that, with a reason for
//     being idle, and looks into its inbox again when the report is written: 1 ms
//     later, and then every 500 ms. So such a report of the turn before is dated
//     before the message was taken (2 ms at least), and one that is dated after it
//     is of a turn with the message (12 ms at least).
//   - A newer agent that finds a message takes it and reports then, up to 60 ms
//     later (more than 500 ms on a machine that is much too busy) and without a
//     reason, as it goes on. An older one reports first, and then looks.
//
// The conversation of a newer agent tells more: it writes down that its model is given
// the message after the report of the turn before (3 to 90 ms), and before that of its
// own, unless its model answers within these 90 ms: then that report is known by its
// reason. The rest is for agents of which there is no transcript, and for a message that
// was given together with others.
func (q *question) weigh(m journal.Message) (r reply, ok bool, err error) {
	at, known := m.Time()
	if !known {
		at = m.FirstSeen
	}
	// Rows have their time in milliseconds.
	if at.Before(q.since.Truncate(time.Millisecond)) {
		return reply{}, false, nil
	}
	r = reply{m: m}
	switch m.Kind() {
	case "message":
		r.via, r.text = viaMessage, m.Text
		r.certain = known && (at.After(q.taken) || q.taken.Sub(q.since) < startup)
		return r, m.Inbox == q.from, nil
	case "idle_notification":
	default:
		return reply{}, false, nil
	}
	idle, ok := lifecycle(m)
	if !ok || idle.Member != q.Member {
		return reply{}, false, nil
	}
	r.via, r.text = viaResult, idle.Result
	told := known && !q.begun.IsZero()
	r.certain = told || known && !q.doubtful()
	switch {
	case told && at.Before(q.begun) && (idle.IdleReason == "" || !at.After(q.taken)):
		return reply{}, false, nil // of the turn before
	case told:
	case idle.IdleReason == "" && !at.After(q.taken.Add(startup)):
		q.before = at
		return reply{}, false, nil
	case idle.IdleReason != "" && !at.After(q.taken) && q.before.IsZero():
		if held := r; held.text != "" {
			held.certain = false
			q.held, q.heldAt = &held, time.Now()
		}
		return reply{}, false, nil
	}
	switch {
	case idle.IdleReason == "failed":
		return reply{}, false, noAnswer("%s took the message, and its turn failed: %s", q.Member, dash(idle.FailureReason))
	case idle.IdleReason == "interrupted":
		return reply{}, false, noAnswer("%s took the message, and was interrupted", q.Member)
	case idle.Result != "":
		return r, true, nil
	case r.certain:
		return reply{}, false, errNoWord
	}
	return reply{}, false, nil
}

// doubtful reports whether the next report may be of a turn after the one with the
// message: if that was reported already, by what counts as the report of the turn
// before. It takes another message for the agent to go on with.
func (q *question) doubtful() bool {
	if q.other.IsZero() {
		return false
	}
	return q.held != nil || !q.before.IsZero() && q.other.Before(q.before.Add(startup))
}

// errNoWord says that the turn with the message has ended, and that its report
// holds no answer.
var errNoWord = errors.New("no answer in the report")

// unseen returns the message that the member has sent us in the turn that has
// ended: what it wrote into another file may not have been seen yet.
func (q *question) unseen(ctx context.Context) (reply, error) {
	box, err := inbox.Open(q.sender.Team(), q.from, nil) // reading takes no lock
	if err != nil {
		return reply{}, err
	}
	rows, err := box.Read(ctx)
	if err != nil && !errors.Is(err, inbox.ErrMissing) && !errors.Is(err, inbox.ErrEmpty) {
		return reply{}, err
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
	return reply{}, noAnswer("%s took the message, and ended its turn without an answer", q.Member)
}

// noAnswer says that there will be no answer.
func noAnswer(format string, args ...any) error {
	return api.Decide(api.CodeNoAnswer, "the message stays sent; wait for a later answer with: teambridge wait --for reply", format, args...)
}
