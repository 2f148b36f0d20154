package server

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"teambridge/inbox"
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
	if !utf8.ValidString(key) {
		return "", &inbox.InvalidError{Field: "id", Reason: "is not valid UTF-8"}
	}
	if key == "" {
		return "", api.Decide(api.CodeUsage, "without the header, the service chooses an id", "the header Idempotency-Key is blank")
	}
	return key, nil
}

// sending is a sender, and what it has put into inboxes.
type sending struct {
	*mail.Sender
	put []mail.Delivered
}

// sendFrom sends messages to the team that a request names, follows those in inboxes,
// and answers as send says.
func (s *Server) sendFrom(w http.ResponseWriter, r *http.Request, from string, send func(*sending) (code int, answer any, err error)) (any, error) {
	t, err := s.opts.Root.Team(r.PathValue("team"))
	if err != nil {
		return nil, err
	}
	followed := false // the follower has the team
	defer func() {
		if !followed {
			_ = t.Close()
		}
	}()
	sender, err := s.sender(r.Context(), t, from)
	if err != nil {
		return nil, err
	}
	all := &sending{Sender: sender}
	code, answer, err := send(all)
	if err != nil {
		return nil, err
	}
	followed = s.follower.follow(sender, all.put)
	return nil, write(w, code, answer)
}

func (s *Server) send(w http.ResponseWriter, r *http.Request) (any, error) {
	if payloads, err := isPayloads(r); err != nil {
		return nil, err
	} else if payloads {
		return s.sendPayloads(w, r)
	}
	m, err := body[api.NewMessage](r)
	if err != nil {
		return nil, err
	}
	opts, err := promptOptionsOf(m)
	if err != nil {
		return nil, err
	}
	id, err := idempotencyKey(r)
	if err != nil {
		return nil, err
	}
	if to, found, err := s.paneFor(r.Context(), r.PathValue("team"), r.PathValue("member"), m.PaneOptions); err != nil {
		return nil, err
	} else if found {
		answer, err := s.sendToPane(r.Context(), to, id, m)
		if err != nil {
			return nil, err
		}
		if answer.Deduplicated {
			return answer, nil
		}
		return nil, write(w, http.StatusCreated, answer)
	}
	return s.sendFrom(w, r, m.From, func(sender *sending) (int, any, error) {
		member, err := sender.Resolve(r.PathValue("member"), m.Force)
		if err != nil {
			return 0, nil, err
		}
		message := mail.Message{ID: id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
		answer, err := s.deliver(r.Context(), sender, member, message, opts, m.Force)
		if answer.Deduplicated {
			return http.StatusOK, answer, err
		}
		return http.StatusCreated, answer, err
	})
}

// broadcast sends a message to every agent, even if one of them cannot be written to.
func (s *Server) broadcast(w http.ResponseWriter, r *http.Request) (any, error) {
	m, err := body[api.NewBroadcast](r)
	if err != nil {
		return nil, err
	}
	id, err := idempotencyKey(r)
	if err != nil {
		return nil, err
	}
	if panes, err := s.registered(r.Context(), r.PathValue("team")); err != nil {
		return nil, err
	} else if len(panes) > 0 {
		return s.broadcastToPanes(w, r, panes, id, m)
	} else if m.PaneOptions != (api.PaneOptions{}) {
		return nil, onlyForPanes()
	}
	return s.sendFrom(w, r, m.From, func(sender *sending) (int, any, error) {
		message := mail.Message{ID: id, Text: m.Text, Summary: m.Summary, Color: m.Color, Protocol: m.Protocol}
		if err := sender.Validate(message); err != nil {
			return 0, nil, err
		}
		to, err := sender.Audience(m.Except, m.IncludeLead)
		if err != nil {
			return 0, nil, err
		}
		if len(to) == 0 {
			return 0, nil, api.Decide(api.CodeNotFound, "includeLead sends it to the lead too", "no agent of %s to send to", sender.Team().Name())
		}
		answers := make([]api.Sent, 0, len(to))
		code := http.StatusCreated
		for _, member := range to {
			if id != "" {
				message.ID = id + "-" + member // each message has an id of its own
			}
			answer, err := s.deliver(r.Context(), sender, member, message, promptOptions{}, false)
			if err != nil {
				answer.Error = new(view.Explain(err))
				code = http.StatusMultiStatus
			}
			answers = append(answers, answer)
		}
		return code, answers, nil
	})
}
