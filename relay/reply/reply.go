// Package reply speaks for agents that cannot write to the members of their team, as the
// agents of Claude Code do with SendMessage. It sends what they answer, and shuts them down
// when they are asked to.
//
// [New] makes a relay, and [Relay.Run] runs it. Everything else works as in package relay.
//
// # Answers
//
// When a frame has ended, each member that wrote a message in it gets the agent's answer as a
// row in its inbox. If there is no answer, because the turn failed, was interrupted or said
// nothing, the lead gets an idle_notification as Claude Code writes it, and others get nothing.
// So a frame with messages of the lead gives the lead exactly one row.
//
// A person's prompts are not answered so, nor are rows of names that are no members: what the
// agent says is in the history. Nudges are part of the frame that they are about. An
// idle_notification is not answered either: two agents would thank each other for ever.
//
// Each answer is sent exactly once. The commit that ends a frame also records that its
// senders have not heard of it ([ledger.Replies.Owed]), and the id of the row is derived from
// the frame and the recipient, so that sending it again after a crash does nothing.
//
// One case is left to a person. If the relay was killed within the milliseconds in which a row
// is written, other rows were written since, and the recipient is an agent that empties its
// inbox by itself, it is not known whether the row was there. It is not sent again, and Warn
// tells.
//
// # Shutdown
//
// The model does not get a shutdown_request. When everything that was claimed before it is
// done, the one who asked gets a shutdown_approved, the agent is ended, and Run returns
// [ErrShutDown]. What comes after the request waits. The ledger keeps that the agent was shut
// down until a relay is run for it again, by a person's command. A request counts if it is
// from a member, or from a person.
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

// lastTries is how long answers are still sent after the relay was told to end. The next
// relay sends the rest.
const lastTries = 10 * time.Second

// Relay is a relay that sends what its agent answers.
type Relay struct {
	*relay.Relay
	opts relay.Options
	wake chan struct{} // holds one signal; something may be owed

	mu    sync.Mutex
	began bool // an agent was started by this relay, which alone serves the inbox then

	at func(moment) // tests of kills
}

// moment is an instant of the sender.
type moment string

// The moments between two steps that tests know.
const (
	found    moment = "found"    // it is known what is owed
	sent     moment = "sent"     // a row is in the recipient's inbox; nothing else is recorded
	replied  moment = "replied"  // nothing is owed for the frame
	approved moment = "approved" // shutdown_approved is in the inbox; the agent runs
	ended    moment = "ended"    // the agent was ended for good; the ledger does not say so
)

// New returns a relay. It starts nothing. If the agents of the runtime write to the members
// by themselves, it is as [relay.New] makes it.
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

// runtime notices when an agent is started.
type runtime struct {
	agent.Runtime
	r *Relay
}

func (t runtime) Start(ctx context.Context, session string, mode mode.Mode) (agent.Agent, error) {
	// Before anything can end: what ends from here on is owed.
	if err := t.r.opts.Ledger.Sessions.SetAnswers(ctx, t.r.Key(), !t.SendsMessages()); err != nil {
		return nil, err
	}
	t.r.mu.Lock()
	t.r.began = true
	t.r.mu.Unlock()
	pipe.Poke(t.r.wake)
	return t.Runtime.Start(ctx, session, mode)
}

// Run is [relay.Relay.Run], and sends answers meanwhile. It also returns [ErrShutDown].
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

// sender sends what is owed. One goroutine has it at a time.
type sender struct {
	*Relay
	warned   string
	shutdown *shutdown // once it was approved
}

type shutdown struct{ request, why string }

// run sends what is owed until ctx ends. After a shutdown was approved it calls stop.
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

// sendOwed sends what is owed, to each recipient in order. It returns whether something is
// left to send.
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

// recipients returns the members that are to hear of the end of a frame.
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
		return lead.Name, true // whatever its name is
	}
	name, err := m.Config().Resolve(sender, nil)
	return name, err == nil
}

// reply sends the end of a frame to a member.
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
	// Two agents that answer each other for ever are noticed by that.
	return s.opts.Ledger.Holds.Answered(ctx, s.Key(), to)
}

// put sends a message once. wrote is false if it was sent before, or can never be sent.
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

// neverSent finds out whether a message is in no inbox because it never was. The rows of a
// headless agent are taken by its relay, which records them, and no program takes those of a
// person. Of other agents it is not known: [inbox.ErrUnknown].
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
