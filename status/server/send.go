package server

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"teambridge/inbox"
	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
	"teambridge/teams"
)

// idempotencyKey returns the id that a message is to be sent under, "" for a new
// one. The header may be a text in quotes, as its draft standard has it.
func idempotencyKey(r *http.Request) (string, error) {
	keys := r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1:
		return "", api.Decide(api.CodeUsage, "", "the header Idempotency-Key stands there twice")
	}
	key := strings.TrimSpace(keys[0])
	if len(key) > 1 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if key == "" {
		return "", api.Decide(api.CodeUsage, "leave it out, and an id is chosen", "the header Idempotency-Key is blank")
	}
	return key, nil
}

func (s *Server) send(w http.ResponseWriter, r *http.Request) error {
	var m api.NewMessage
	if err := body(r, &m); err != nil {
		return err
	}
	how, err := mannerOf(m)
	if err != nil {
		return err
	}
	id, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	t, err := s.opts.Root.Team(r.PathValue("team"))
	if err != nil {
		return err
	}
	keep := false // the follower has the team
	defer func() {
		if !keep {
			_ = t.Close()
		}
	}()
	sender, err := s.sender(ctx, t, m.From)
	if err != nil {
		return err
	}
	member, err := sender.Resolve(r.PathValue("member"), m.Force)
	if err != nil {
		return err
	}
	message := mail.Message{ID: id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
	answer, d, err := s.pass(ctx, t, sender, member, message, how, m.Force)
	if err != nil {
		return err
	}
	if d != nil {
		keep = s.follower.follow(sender, []mail.Delivered{*d})
	}
	code := http.StatusCreated
	if answer.Deduplicated {
		code = http.StatusOK
	}
	return write(w, code, answer)
}

// broadcast sends a message to every agent. One that cannot be written to does
// not keep the others from getting theirs.
func (s *Server) broadcast(w http.ResponseWriter, r *http.Request) error {
	var m api.NewBroadcast
	if err := body(r, &m); err != nil {
		return err
	}
	id, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	ctx := r.Context()
	t, err := s.opts.Root.Team(r.PathValue("team"))
	if err != nil {
		return err
	}
	keep := false
	defer func() {
		if !keep {
			_ = t.Close()
		}
	}()
	sender, err := s.sender(ctx, t, m.From)
	if err != nil {
		return err
	}
	message := mail.Message{ID: id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
	if err := sender.Validate(message); err != nil {
		return err
	}
	to, err := sender.Audience(m.Except, m.IncludeLead)
	if err != nil {
		return err
	}
	if len(to) == 0 {
		return api.Decide(api.CodeNotFound, "with includeLead it goes to the lead too", "there is nobody to send to in %s", t.Name())
	}
	answers := make([]api.Sent, 0, len(to))
	var sent []mail.Delivered
	code := http.StatusCreated
	for _, member := range to {
		if id != "" {
			message.ID = id + "-" + member // each message has an id of its own
		}
		answer, d, err := s.pass(ctx, t, sender, member, message, manner{}, false)
		switch {
		case err != nil:
			answer.Error = new(view.Explain(err))
			code = http.StatusMultiStatus
		case d != nil:
			sent = append(sent, *d)
		}
		answers = append(answers, answer)
	}
	keep = s.follower.follow(sender, sent)
	return write(w, code, answers)
}

// markRead marks messages as read in an inbox of the person.
func (s *Server) markRead(w http.ResponseWriter, r *http.Request) error {
	var m api.MarkRead
	if err := body(r, &m); err != nil {
		return err
	}
	if len(m.IDs) == 0 {
		return api.Decide(api.CodeInvalid, "", "there are no ids to mark as read")
	}
	return s.within(r, func(t *teams.Team) error {
		ctx := r.Context()
		c, err := t.Config(ctx)
		if err != nil {
			return err
		}
		ours, err := mail.Ours(ctx, s.ledger, t, c)
		if err != nil {
			return err
		}
		name := cmp.Or(m.Inbox, mail.User)
		if !slices.Contains(ours, name) {
			return api.Decide(api.CodeRefused, "only messages to you can be marked as read", "messages to %s are not marked as read: they would never reach it", name)
		}
		box, err := inbox.Open(t, name, s.locker)
		if err != nil {
			return err
		}
		n, err := box.MarkRead(ctx, m.IDs...)
		if err != nil {
			return err
		}
		return write(w, http.StatusOK, api.Marked{Inbox: name, Marked: n})
	})
}
