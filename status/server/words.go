package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"teambridge/inbox"
	"teambridge/inbox/journal"
	"teambridge/inbox/ledger"
	"teambridge/inbox/mail"
	"teambridge/relay"
	"teambridge/relay/fleet"
	"teambridge/relay/pipe"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// manner is how a person's words are to be worked on, which no row can say.
type manner struct {
	mode     pipe.Mode
	isolated bool
}

func (m manner) plain() bool { return m == manner{} }

func mannerOf(m api.NewMessage) (manner, error) {
	how := manner{isolated: m.Isolated}
	if len(m.Mode) == 0 || string(m.Mode) == "null" {
		return how, nil
	}
	var err error
	if how.mode, err = pipe.ParseMode(json.RawMessage(m.Mode)); err != nil {
		return how, api.Decide(api.CodeInvalid, "see what is taken at /openapi.json", "mode: %v", err)
	}
	return how, nil
}

// notWords says why a message is not given to an agent as a person's own words,
// but put into the inbox as everybody else's.
type notWords struct{ why string }

func (n *notWords) Error() string { return n.why }

// pass brings a message to a member of the sender's team. What is a person's, to a
// member that a relay of this service serves, is said to the agent as it is, and
// nothing else is: a row in an inbox has the authority of whoever can write there.
// d is what is to be followed; nil if the words were said.
func (s *Server) pass(ctx context.Context, t *teams.Team, sender *mail.Sender, member string, m mail.Message, how manner, force bool) (api.Sent, *mail.Delivered, error) {
	answer, err := s.say(ctx, t, sender, member, m, how)
	if err == nil {
		return answer, nil, nil
	}
	not, ok := errors.AsType[*notWords](err)
	if !ok {
		return answer, nil, err
	}
	if !how.plain() {
		return answer, nil, api.Decide(api.CodeInvalid, "leave mode and isolated out: then it is put into the inbox, as a teammate's message",
			"mode and isolated are for a person's words to an agent that this service relays to: %s", not.why)
	}
	d, err := s.put(ctx, sender, member, m, force)
	if err != nil {
		return view.Sent(d), nil, err
	}
	return view.Sent(d), &d, nil
}

// say says a person's words to a member that is relayed here. *[notWords] where
// they are not a person's, or the member is not.
func (s *Server) say(ctx context.Context, t *teams.Team, sender *mail.Sender, member string, m mail.Message, how manner) (api.Sent, error) {
	start := time.Now()
	answer := api.Sent{Team: t.Name(), Member: member, ID: m.ID, State: api.Failed}
	not := func(format string, args ...any) (api.Sent, error) {
		return answer, &notWords{fmt.Sprintf(format, args...)}
	}
	if s.fleet == nil || !Person(ctx) {
		return not("this service relays to nobody")
	}
	ours, err := mail.Ours(ctx, s.ledger, t, sender.Config())
	if err != nil {
		return answer, err
	}
	if !slices.Contains(ours, sender.From()) {
		return not("it is sent from %q, which is no name of yours", sender.From())
	}
	id, serving, err := s.fleet.Serving(ctx, t, member)
	if err != nil {
		return answer, err
	}
	if !serving {
		return not("no relay of this service serves %s", member)
	}
	if err := sender.Validate(m); err != nil {
		return answer, err
	}
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	said, err := s.fleet.Prompt(ctx, id, relay.Input{
		Text: m.Text, Mode: how.mode, Isolated: how.isolated, ID: m.ID, From: sender.From(), DefaultFrom: sender.DefaultFrom(), Summary: m.Summary, Color: m.Color,
		Protocol: m.Protocol,
	})
	switch {
	case errors.Is(err, ledger.ErrWritten):
		return not("it was put into the inbox before") // which knows what became of it
	case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
		return not("%v", err)
	case err != nil:
		return answer, err
	}
	facts, err := relay.Facts(ctx, s.ledger, s.opts.State, t, sender.Config(), member)
	if err != nil {
		s.log.Debug("whether a member is relayed to is not known", "team", t.Name(), "member", member, "err", err) // it is for a hint
	}
	reach := sender.Config().Deliverability(member, facts)
	answer.ID, answer.State, answer.Deduplicated, answer.Delivery = said.ID, api.Verified, said.Again, said.Delivery
	if answer.Reachable = reach == teams.Reachable; !answer.Reachable {
		answer.Reach = string(reach)
	}
	answer.WaitedMs = time.Since(start).Milliseconds()
	return answer, nil
}

// put puts one message into the inbox, and records that it was.
func (s *Server) put(ctx context.Context, sender *mail.Sender, member string, m mail.Message, force bool) (mail.Delivered, error) {
	d, err := sender.Put(ctx, member, m, inbox.AppendOptions{Force: force, Track: true})
	if err != nil {
		return d, err
	}
	if d.Unrecorded != nil {
		s.log.Warn("a message is in the inbox, but was not recorded", "id", d.ID, "err", d.Unrecorded)
	}
	if err := s.recordSent(ctx, sender.Key(d), d); err != nil {
		s.log.Warn("there is no record of a message that was sent", "id", d.ID, "err", view.Describe(err))
	}
	d.Seen = nil // of use no more
	s.news.tell()
	if d.Reachable() && sender.Waiting(ctx, d) {
		d.Reach = teams.Unread
	}
	return d, nil
}

// recordSent records a message with its receipt, in this order: one of the two may be
// missing where the service is killed between them, and a receipt without its message
// tells nothing. The tap can come too late for a message, whose agent may take it
// within milliseconds. That the client has gone away changes nothing in what was sent.
func (s *Server) recordSent(ctx context.Context, key inbox.SendKey, d mail.Delivered) error {
	ctx = context.WithoutCancel(ctx)
	var ahead []string
	if d.Tracked != nil {
		ahead = d.Tracked.Ahead
	}
	if d.Seen != nil {
		// Whether to look again does not matter yet: the follower looks next.
		if _, err := s.journal.Observe(ctx, journal.SnapshotOf(key, d.Seen)); err != nil {
			return err
		}
	}
	_, err := s.journal.Verified(ctx, key, time.Now(), ahead...)
	return err
}
