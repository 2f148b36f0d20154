package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"teambridge/inbox/journal"
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
		Long: `Send a message to an agent, wait for its answer, and print that.

An answer is what the agent says after it took your message: a message to you, or
the result of its turn, which newer agents report when the turn ends. Agents take
messages between two turns, so what was said before belongs to another task. Where
a result does not say when it came, "certain" is false.

With agents that can only write to members (2.1.329), you join the team first, as
"operator", unless you have joined it already.

Exit status: 0 an answer; 3 no such team or member, or the team ended; 4 no answer
within --timeout (the message stays sent); others as of "teambridge send".`,
		Example: `  teambridge ask worker "is the build green?"
  teambridge ask worker - --timeout 20m < question.txt`,
		Args:              exactly(2),
		ValidArgsFunction: a.completeMembers(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.ask(cmd.Context(), args[0], args[1], o)
		},
	}
	sendFlags(cmd, &o.sendOptions)
	cmd.Flags().DurationVar(&o.timeout, "timeout", o.timeout, "how long to wait for the answer; 0: for ever")
	return cmd
}

// answered is what ask says. The names are those of --json.
type answered struct {
	Sent    sent    `json:"sent"`
	Reply   message `json:"reply"`
	Via     string  `json:"via"` // message, or result (of the agent's turn)
	Certain bool    `json:"certain"`
}

func (a *app) ask(ctx context.Context, address, text string, o askOptions) (err error) {
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
	member, err := t.Resolve(ctx, name)
	if err != nil {
		return err
	}
	if o.from == "" {
		if o.from, err = a.askingAs(ctx, t); err != nil {
			return err
		}
	}
	s, err := a.sender(ctx, t, o.sendOptions)
	if err != nil {
		return err
	}
	defer s.close()
	tap, err := a.tap(ctx, t.Root(), t.Name())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tap.close()) }()
	q := &question{tap: tap, team: t, member: member, from: s.from}
	answer, err := s.send(ctx, member, body)
	if err != nil {
		return err
	}
	q.id = answer.ID
	a.reachNote(answer)
	wait, cancel := within(ctx, o.timeout, fmt.Sprintf("the message %s was sent, and %s did not answer", answer.ID, member))
	defer cancel()
	reply, err := q.await(wait)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(answered{answer, asRecorded(reply.m), reply.via, reply.certain})
	}
	if !reply.certain {
		a.note("this may be the result of the task that %s had before", member)
	}
	text = reply.m.Text
	if reply.via == viaResult {
		text = result(reply.m)
	}
	return a.printf("%s\n", escape(text, true))
}

// askingAs returns the name to ask under: one that the agents can write to.
func (a *app) askingAs(ctx context.Context, t *teams.Team) (string, error) {
	c, err := t.Config(ctx)
	if err != nil {
		return "", err
	}
	if c.Generation() == teams.G1 {
		return "user", nil
	}
	l, err := a.ledger(ctx)
	if err != nil {
		return "", err
	}
	defer l.Close()
	guest, err := a.guest(ctx, l, t, c)
	if err != nil || guest != "" {
		return guest, err
	}
	if err := a.joinAs(ctx, t, c, l, defaultGuest); err != nil {
		return "", err
	}
	a.note("joined %s as %s, so that %s can be answered; \"teambridge leave\" undoes it", t.Name(), defaultGuest, "you")
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
	via     string
	certain bool
}

// question is a message that was asked, on its way to an answer.
type question struct {
	tap    *tapped
	team   *teams.Team
	member string // who is asked
	from   string // who asks
	id     string // of the message

	taken  time.Time // when the member took the message; zero: not yet
	before []journal.Message
	held   *journal.Message // a result of which it is not known when it came
	heldAt time.Time
}

// quiet is how long nothing may follow a result that may be of the task before,
// for that result to count.
const quiet = 10 * time.Second

// await waits for the answer.
func (q *question) await(ctx context.Context) (reply, error) {
	for {
		step, cancel := ctx, context.CancelFunc(func() {})
		if q.held != nil {
			step, cancel = context.WithDeadline(ctx, q.heldAt.Add(quiet))
		}
		list, err := q.tap.changes(step)
		cancel()
		switch {
		case ctx.Err() != nil:
			return reply{}, context.Cause(ctx)
		case q.held != nil && errors.Is(err, context.DeadlineExceeded):
			return reply{*q.held, viaResult, false}, nil
		case err != nil:
			return reply{}, err
		}
		for _, c := range list {
			if c.Message.Team.Team != q.team.Name() {
				continue
			}
			if r, ok := q.consider(c); ok {
				return r, nil
			}
		}
		if err := q.team.Exists(); err != nil {
			return reply{}, err
		}
	}
}

// consider looks at one change. What the member says and that it took the
// message stand in different files, so they can be seen in any order: what it
// said before that is looked at again then.
func (q *question) consider(c journal.Change) (reply, bool) {
	m := c.Message
	switch {
	case m.Inbox == q.member && m.ID() == q.id && (c.Kind == journal.Read || c.Kind == journal.Gone):
		if !q.taken.IsZero() {
			return reply{}, false
		}
		q.taken = m.GoneAt
		if !m.ReadAt.IsZero() {
			q.taken = m.ReadAt
		}
		for _, m := range q.before {
			if r, ok := q.weigh(m); ok {
				return r, true
			}
		}
	case c.Kind != journal.Appeared || m.From != q.member:
	case q.taken.IsZero():
		q.before = append(q.before, m)
	default:
		return q.weigh(m)
	}
	return reply{}, false
}

// weigh decides whether something the member said is the answer.
//
// Agents take messages between two turns, after they have said what came of the
// last one (measured on both generations, with tools running, too). So what was
// said before the message was taken belongs to the task before, and what was
// said after it answers the message, whatever the agent was doing when it was
// sent. Where a row has no time, a message counts if it was seen after that; a
// result only if no other follows it.
func (q *question) weigh(m journal.Message) (reply, bool) {
	via := viaMessage
	switch {
	case m.Inbox == q.from && m.Kind() == "message":
	case m.Kind() == "idle_notification" && result(m) != "":
		via = viaResult
	default:
		return reply{}, false
	}
	at, ok := m.Time()
	switch {
	case ok:
		// Rows have their time in milliseconds.
		return reply{m, via, true}, !at.Before(q.taken.Truncate(time.Millisecond))
	case via == viaMessage:
		return reply{m, via, true}, !m.FirstSeen.Before(q.taken)
	case q.held != nil:
		return reply{m, via, true}, true
	}
	q.held, q.heldAt = &m, time.Now()
	return reply{}, false
}

// result is what an agent says came of its turn.
func result(m journal.Message) string {
	var idle struct {
		Result string `json:"result"`
	}
	if json.Unmarshal([]byte(m.Text), &idle) != nil {
		return ""
	}
	return idle.Result
}
