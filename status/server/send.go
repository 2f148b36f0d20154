package server

import (
	"net/http"
	"strings"

	"teambridge/inbox/mail"
	"teambridge/status/api"
	"teambridge/status/view"
)

// idempotencyKey returns the id under which to send a message, or "" for a new one. The
// header may be in quotes, as the draft standard has it.
func idempotencyKey(r *http.Request) (string, error) {
	keys := r.Header.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1:
		return "", api.Decide(api.CodeUsage, "", "the header Idempotency-Key is given twice")
	}
	key := strings.TrimSpace(keys[0])
	if len(key) > 1 && key[0] == '"' && key[len(key)-1] == '"' {
		key = key[1 : len(key)-1]
	}
	if key == "" {
		return "", api.Decide(api.CodeUsage, "without the header, the service chooses an id", "the header Idempotency-Key is blank")
	}
	return key, nil
}

// sendFrom sends messages to the team that a request names: send returns those to
// follow, and the answer with its HTTP status.
func (s *Server) sendFrom(w http.ResponseWriter, r *http.Request, from string, send func(*mail.Sender) (sent []mail.Delivered, code int, answer any, err error)) error {
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
	sender, err := s.sender(r.Context(), t, from)
	if err != nil {
		return err
	}
	sent, code, answer, err := send(sender)
	if err != nil {
		return err
	}
	keep = s.follower.follow(sender, sent)
	return write(w, code, answer)
}

func (s *Server) send(w http.ResponseWriter, r *http.Request) error {
	var m api.NewMessage
	if err := body(r, &m); err != nil {
		return err
	}
	opts, err := promptOptionsOf(m)
	if err != nil {
		return err
	}
	id, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	return s.sendFrom(w, r, m.From, func(sender *mail.Sender) (sent []mail.Delivered, code int, _ any, err error) {
		member, err := sender.Resolve(r.PathValue("member"), m.Force)
		if err != nil {
			return nil, 0, nil, err
		}
		message := mail.Message{ID: id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
		answer, d, err := s.deliver(r.Context(), sender, member, message, opts, m.Force)
		if err != nil {
			return nil, 0, nil, err
		}
		if d != nil {
			sent = append(sent, *d)
		}
		code = http.StatusCreated
		if answer.Deduplicated {
			code = http.StatusOK
		}
		return sent, code, answer, nil
	})
}

// broadcast sends a message to every agent. If one cannot be written to, the others
// still get theirs.
func (s *Server) broadcast(w http.ResponseWriter, r *http.Request) error {
	var m api.NewBroadcast
	if err := body(r, &m); err != nil {
		return err
	}
	id, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	return s.sendFrom(w, r, m.From, func(sender *mail.Sender) (sent []mail.Delivered, code int, _ any, err error) {
		message := mail.Message{ID: id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
		if err := sender.Validate(message); err != nil {
			return nil, 0, nil, err
		}
		to, err := sender.Audience(m.Except, m.IncludeLead)
		if err != nil {
			return nil, 0, nil, err
		}
		if len(to) == 0 {
			return nil, 0, nil, api.Decide(api.CodeNotFound, "includeLead sends it to the lead too", "no agent of %s to send to", sender.Team().Name())
		}
		answers := make([]api.Sent, 0, len(to))
		code = http.StatusCreated
		for _, member := range to {
			if id != "" {
				message.ID = id + "-" + member // each message has an id of its own
			}
			answer, d, err := s.deliver(r.Context(), sender, member, message, promptOptions{}, false)
			switch {
			case err != nil:
				answer.Error = new(view.Explain(err))
				code = http.StatusMultiStatus
			case d != nil:
				sent = append(sent, *d)
			}
			answers = append(answers, answer)
		}
		return sent, code, answers, nil
	})
}
