// Package reply writes for agents that have no tool to write to the members of their team, such as
// SendMessage of Claude Code. It sends their answers to the members, and shuts the agents down on request.
//
// [New] makes a relay, and [Relay.Run] runs it. All else works as in package relay.
//
// # Answers
//
// When a frame has ended, each member with a message in it gets the agent's answer as a row in its inbox. If
// there is no answer, because the turn failed, was interrupted or produced no text, the lead gets an
// idle_notification in Claude Code's form, and the others get nothing. So the lead gets exactly one row for
// each frame with messages of the lead.
//
// A person's prompts get no such row, nor do senders whose names are not members: the history has the agent's
// answer. Nudges belong to the frame that they continue. An idle_notification gets no answer either: two
// agents would thank each other for ever.
//
// Each answer is sent exactly once. The commit that ends a frame also records that its senders must get an
// answer ([ledger.Replies.Owed]). The id of the row is derived from the frame and the recipient, so a second
// send after a crash has no effect.
//
// One case is left to a person: the relay was killed within the milliseconds in which a row is written, other
// rows were written since, and the recipient is an agent that empties its own inbox. It is then unknown
// whether the row was written. The row is not sent again, and Warn gets an error.
//
// # Shutdown
//
// The model does not get a shutdown_request. Once all rows that were claimed before it are done, its sender
// gets a shutdown_approved, the agent is ended, and Run returns [ErrShutDown]. Later rows wait. The ledger
// records that the agent was shut down, until a person's command runs a relay for it again. A request counts
// if it comes from a member or a person.
package reply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/agent"
	"teambridge/relay/mode"
	"teambridge/relay/pipe"
	"teambridge/teams"
)

// ErrShutDown means that the agent was asked to shut down, and has ended for good.
var ErrShutDown = errors.New("shut down")

// lastTries is how long the relay still sends answers after the request to end. The next relay sends the
// rest.
const lastTries = 10 * time.Second

// Relay is a relay that sends its agent's answers.
type Relay struct {
	*relay.Relay
	opts relay.Options
	wake chan struct{} // holds one signal: answers may be due

	mu    sync.Mutex
	began bool // this relay has started an agent, so it alone serves the inbox

	at func(moment) // tests kill the process here
}

// moment is a point in the work of the sender.
type moment string

// The moments between two steps, at which tests intervene.
const (
	found    moment = "found"    // the due answers are known
	sent     moment = "sent"     // a row is in the recipient's inbox; nothing else is recorded
	replied  moment = "replied"  // all answers to the frame are recorded as sent
	approved moment = "approved" // shutdown_approved is in the inbox; the agent runs
	ended    moment = "ended"    // the agent was ended for good; not yet recorded
)

// New returns a relay. It starts nothing. If the runtime's agents can write to members, the relay works as
// one of [relay.New].
func New(ctx context.Context, opts relay.Options) (*Relay, error) {
	r := &Relay{wake: make(chan struct{}, 1), at: func(moment) {}}
	recorded := opts.Recorded
	if recorded == nil {
		recorded = func() {}
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	r.opts = opts
	r.opts.Recorded = recorded
	opts.Runtime = runtime{opts.Runtime, r}
	opts.Recorded = func() {
		recorded()
		pipe.Poke(r.wake)
	}
	var err error
	r.Relay, err = relay.New(ctx, opts)
	return r, err
}

// runtime notices the start of an agent.
type runtime struct {
	agent.Runtime
	r *Relay
}

func (t runtime) Start(ctx context.Context, session string, mode mode.Mode) (agent.Agent, error) {
	// Record this before the agent starts: for every turn that ends from now on, answers are due.
	if err := t.r.opts.Ledger.Sessions.SetAnswers(ctx, t.r.Key(), !t.SendsMessages()); err != nil {
		return nil, err
	}
	t.r.mu.Lock()
	t.r.began = true
	t.r.mu.Unlock()
	pipe.Poke(t.r.wake)
	return t.Runtime.Start(ctx, session, mode)
}

// Run is [relay.Relay.Run], and also sends answers. It can also return [ErrShutDown].
func (r *Relay) Run(ctx context.Context) error {
	if r.opts.Runtime.SendsMessages() {
		return r.Relay.Run(ctx)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	s := &sender{Relay: r}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.run(running, stop)
	}()
	err := r.Relay.Run(running)
	stop()
	<-done
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTries)
	defer cancel()
	if r.started() {
		if _, serr := s.sendOwed(last); serr != nil {
			r.opts.Warn(fmt.Errorf("relay: answers of %s are not sent yet: %w", r.Key().Inbox, serr))
		}
	}
	if s.shutdown == nil || err != nil {
		return err
	}
	r.at(ended)
	if err := r.opts.Ledger.Replies.EndShutdown(last, r.Key(), s.shutdown.request, s.shutdown.why); err != nil {
		return err
	}
	r.opts.Recorded()
	return fmt.Errorf("relay: %s: %w: %s", r.Key().Inbox, ErrShutDown, s.shutdown.why)
}

func (r *Relay) started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.began
}

// sender sends the answers that are due. Only one goroutine uses it at a time.
type sender struct {
	*Relay
	warned   string
	shutdown *shutdown // nil before a shutdown was approved
}

type shutdown struct{ request, why string }

// run sends due answers until ctx ends. Once a shutdown is approved, it calls stop and returns.
func (s *sender) run(ctx context.Context, stop func()) {
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-retry:
		}
		if retry = nil; !s.started() {
			continue
		}
		owed, err := s.sendOwed(ctx)
		if err == nil && !owed {
			err = s.shutDown(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case s.shutdown != nil:
			stop()
			return
		case err != nil:
			if err.Error() != s.warned {
				s.opts.Warn(fmt.Errorf("relay: an answer of %s waits: %w", s.Key().Inbox, err))
			}
			s.warned = err.Error()
			retry = time.After(cmp.Or(s.opts.Timing.Retry, 2*time.Second))
		default:
			s.warned = ""
		}
	}
}

// sendOwed sends the due answers, to each recipient in order. left reports whether any remain.
func (s *sender) sendOwed(ctx context.Context) (left bool, err error) {
	owed, err := s.opts.Ledger.Replies.Owed(ctx, s.Key())
	if err != nil || len(owed) == 0 {
		return false, err
	}
	s.at(found)
	m, err := s.mail(ctx)
	if err != nil {
		return true, err
	}
	failed := map[string]error{} // by recipient
	for _, reply := range owed {
		whole := true
		for _, to := range recipients(m, reply) {
			if failed[to] == nil {
				failed[to] = s.reply(ctx, m, to, reply)
			}
			whole = whole && failed[to] == nil
		}
		if !whole {
			left = true
			continue
		}
		if err := s.opts.Ledger.Replies.Replied(ctx, reply.Frame); err != nil {
			return true, err
		}
		s.at(replied)
	}
	s.opts.Recorded()
	for _, ferr := range failed {
		err = errors.Join(err, ferr)
	}
	return left, err
}

func (s *sender) mail(ctx context.Context) (*mail.Sender, error) {
	return mail.New(ctx, mail.Options{Team: s.opts.Team, Locker: s.opts.Locker, Ledger: s.opts.Ledger, From: s.Key().Inbox})
}

// recipients returns the members that must learn of the end of a frame.
func recipients(m *mail.Sender, reply ledger.Reply) (names []string) {
	seen := map[string]bool{m.From(): true}
	for _, d := range reply.Senders {
		if d.Person || d.Kind == idleKind {
			continue
		}
		if name, ok := member(m, d.Name); ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// member returns the member that a sender's name means.
func member(m *mail.Sender, sender string) (name string, ok bool) {
	if lead, ok := m.Config().Lead(); ok && sender == teams.LeadName("lead") {
		return lead.Name, true // the lead's name in config.json may differ
	}
	name, err := m.Config().Resolve(sender, nil)
	return name, err == nil
}

// reply sends the result of a frame to a member.
func (s *sender) reply(ctx context.Context, m *mail.Sender, to string, reply ledger.Reply) error {
	message := mail.Message{ID: ledger.DeriveID(ledger.ReplyIDs, reply.Frame, to), Own: true}
	answered := strings.TrimSpace(reply.Text) != ""
	lead, _ := m.Config().Lead()
	switch {
	case answered:
		message.Text = fit(reply.Text)
	case to == lead.Name:
		text, err := idle(m.From(), reply)
		if err != nil {
			return err
		}
		message.Text = string(text)
	default:
		return nil
	}
	wrote, err := s.put(ctx, m, to, message)
	if err != nil || !wrote || !answered {
		return err
	}
	// The count of answers reveals two agents that answer each other for ever.
	return s.opts.Ledger.Holds.Answered(ctx, s.Key(), to)
}

// put sends a message once. wrote is false if the message was sent before, or can never be sent.
func (s *sender) put(ctx context.Context, m *mail.Sender, to string, message mail.Message) (wrote bool, err error) {
	d, err := m.Put(ctx, to, message, inbox.AppendOptions{})
	if errors.Is(err, inbox.ErrUnknown) {
		never := false
		switch never, err = s.neverSent(ctx, m, to, message.ID); {
		case never:
			d, err = m.Put(ctx, to, message, inbox.AppendOptions{Force: true})
		case err == nil:
			return false, nil
		}
	}
	_, invalid := errors.AsType[*inbox.InvalidError](err)
	if invalid || errors.Is(err, inbox.ErrUnknown) || errors.Is(err, inbox.ErrIDTaken) {
		s.opts.Warn(fmt.Errorf("relay: a message of %s is given up: %w", m.From(), err))
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.at(sent)
	return !d.Deduplicated, nil
}

// neverSent reports whether a message that no inbox has was never sent. The relay of a headless agent records
// the rows that it takes, and no program takes the rows of a person. For other agents the error is
// [inbox.ErrUnknown].
func (s *sender) neverSent(ctx context.Context, m *mail.Sender, to, id string) (bool, error) {
	config := m.Config()
	if there, ok := config.Member(to); !ok || there.Guest() {
		return true, nil
	}
	facts, err := relay.Facts(ctx, s.opts.Ledger, s.opts.State, s.opts.Team, config, to)
	if err != nil {
		return false, err
	}
	if !facts.Headless {
		return false, fmt.Errorf("message %s to %s: %w", id, to, inbox.ErrUnknown)
	}
	key := s.Key()
	key.Inbox = to
	taken, err := s.opts.Ledger.Deliveries.WithID(ctx, key, id)
	return len(taken) == 0, err
}
