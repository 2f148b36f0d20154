package server

import (
	"context"
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
	"teambridge/relay/mode"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// promptOptions say how an agent works on a user prompt. No row of an inbox can say that.
type promptOptions struct {
	mode     mode.Mode
	isolated bool
}

func promptOptionsOf(m api.NewMessage) (opts promptOptions, err error) {
	opts.isolated = m.Isolated
	if len(m.Mode) > 0 && string(m.Mode) != "null" {
		if opts.mode, err = mode.Parse(m.Mode); err != nil {
			err = api.Decide(api.CodeInvalid, seeDocument, "mode: %v", err)
		}
	}
	return opts, err
}

// deliver brings a message to a member: as a user prompt, if a person sends it and the
// member takes prompts (see promptable), and otherwise as a row of the inbox. A row
// never becomes a prompt, because everybody can write rows.
func (s *Server) deliver(ctx context.Context, sender *sending, member string, m mail.Message, opts promptOptions, force bool) (api.Sent, error) {
	answer, reason, err := s.prompt(ctx, sender.Sender, member, m, opts)
	if err != nil || reason == "" {
		return answer, err
	}
	if opts != (promptOptions{}) {
		return answer, api.Decide(api.CodeInvalid, "without mode and isolated, it is put into the inbox as a teammate's message",
			"mode and isolated are only for prompts to an agent that this service relays to: %s", reason)
	}
	d, err := s.put(ctx, sender.Sender, member, m, force)
	if err == nil {
		sender.put = append(sender.put, d)
	}
	return view.Sent(d), err
}

// prompter puts user prompts into the queue of one member, as [relay.Prompts] does.
type prompter func(ctx context.Context, ins ...relay.Input) ([]relay.PromptResult, error)

// promptable returns what takes user prompts for a member: a relay of this service, or the
// launcher of a session that can move. If there is none, or the sender is no person, it
// returns the reason.
func (s *Server) promptable(ctx context.Context, sender *mail.Sender, member string) (prompts prompter, reason string, err error) {
	if !Person(ctx) {
		return nil, "a program sends them", nil
	}
	t := sender.Team()
	ours, err := mail.Ours(ctx, s.ledger, t, sender.Config())
	if err != nil {
		return nil, "", err
	}
	if !slices.Contains(ours, sender.From()) {
		return nil, fmt.Sprintf("%q is not one of your names", sender.From()), nil
	}
	if s.fleet != nil {
		id, serving, err := s.fleet.Serving(ctx, t, member)
		if err != nil {
			return nil, "", err
		}
		if serving {
			return func(ctx context.Context, ins ...relay.Input) ([]relay.PromptResult, error) {
				return s.fleet.Prompts(ctx, id, ins...)
			}, "", nil
		}
	}
	info, _, err := relay.Stat(ctx, s.ledger, s.opts.State, t, sender.Config(), member)
	if err != nil {
		return nil, "", err
	}
	if info.Handoff == nil {
		return nil, "no relay of this service serves " + member, nil
	}
	return func(ctx context.Context, ins ...relay.Input) ([]relay.PromptResult, error) {
		results, err := relay.Prompts(ctx, s.ledger, info.InboxKey, ins...)
		if err == nil {
			s.replicator.Poke()
		}
		return results, err
	}, "", nil
}

// prompt sends a message as a user prompt. If that is impossible, it returns the reason.
func (s *Server) prompt(ctx context.Context, sender *mail.Sender, member string, m mail.Message, opts promptOptions) (answer api.Sent, reason string, err error) {
	start := time.Now()
	answer = api.Sent{Team: sender.Team().Name(), Member: member, ID: m.ID, State: api.Failed}
	prompts, reason, err := s.promptable(ctx, sender, member)
	if err != nil || reason != "" {
		return answer, reason, err
	}
	if err := sender.Validate(m); err != nil {
		return answer, "", err
	}
	if m.ID == "" {
		m.ID = uuid.NewString()
	}
	results, err := prompts(ctx, relay.Input{
		Text: m.Text, Mode: opts.mode, Isolated: opts.isolated, ID: m.ID, From: sender.From(), DefaultFrom: sender.DefaultFrom(), Summary: m.Summary, Color: m.Color,
		Protocol: m.Protocol,
	})
	switch {
	case errors.Is(err, ledger.ErrWritten):
		return answer, "it was put into the inbox before", nil // and putting it again tells what happened to it
	case errors.Is(err, fleet.ErrNotRunning), errors.Is(err, fleet.ErrUnknown):
		return answer, err.Error(), nil
	case err != nil:
		return answer, "", err
	}
	answer = s.sentPrompt(ctx, sender, member)
	answer.ID, answer.Deduplicated, answer.Delivery = results[0].ID, results[0].Again, results[0].Delivery
	answer.WaitedMs = time.Since(start).Milliseconds()
	return answer, "", nil
}

// sentPrompt is the part of an answer that is the same for all prompts to a member.
func (s *Server) sentPrompt(ctx context.Context, sender *mail.Sender, member string) api.Sent {
	t := sender.Team()
	answer := api.Sent{Team: t.Name(), Member: member, State: api.Verified, Recorded: true}
	reach := sender.Config().Deliverability(member, s.facts(ctx, t, sender.Config(), member))
	if reach == teams.AtTerminal {
		reach = teams.Reachable // a prompt moves the session
	}
	if answer.Reachable = reach == teams.Reachable; !answer.Reachable {
		answer.Reach = string(reach)
	}
	return answer
}

// facts returns what is known of a member's relay. Errors are only logged: facts are for
// hints.
func (s *Server) facts(ctx context.Context, t *teams.Team, c *teams.Config, member string) teams.Facts {
	f, err := relay.Facts(ctx, s.ledger, s.opts.State, t, c, member)
	if err != nil {
		s.log.Debug("the relay of a member is not known", "team", t.Name(), "member", member, "err", err)
	}
	return f
}

// put puts one message into the inbox, and records that.
func (s *Server) put(ctx context.Context, sender *mail.Sender, member string, m mail.Message, force bool) (mail.Delivered, error) {
	d, err := sender.Put(ctx, member, m, inbox.AppendOptions{Force: force, Track: true})
	if err != nil {
		return d, err
	}
	if d.Unrecorded != nil {
		s.log.Warn("a message is in the inbox, but was not recorded", "id", d.ID, "err", d.Unrecorded)
	}
	if err := s.recordSent(ctx, sender.Key(d), d); err != nil {
		s.log.Warn("a sent message was not recorded", "id", d.ID, "err", view.Describe(err))
	}
	d.Seen = nil // not needed any more
	s.news.tell()
	if d.Reachable() && sender.Waiting(ctx, d) {
		d.Reach = teams.Unread
	}
	return d, nil
}

// recordSent records a message, which the tap can miss, and then its receipt, even if the
// client has gone away. A receipt without its message would be useless.
func (s *Server) recordSent(ctx context.Context, key inbox.SendKey, d mail.Delivered) error {
	ctx = context.WithoutCancel(ctx)
	var ahead []string
	if d.Tracked != nil {
		ahead = d.Tracked.Ahead
	}
	if d.Seen != nil {
		// The follower looks next, whether or not the journal wants another look.
		if _, err := s.journal.Observe(ctx, journal.SnapshotOf(key, d.Seen)); err != nil {
			return err
		}
	}
	_, err := s.journal.Verified(ctx, key, time.Now(), ahead...)
	return err
}
