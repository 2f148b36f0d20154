package server

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"teambridge/inbox"
	"teambridge/status/api"
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
	id, err := idempotencyKey(r)
	if err != nil {
		return nil, err
	}
	sent, err := s.local.Send(r.Context(), r.PathValue("team"), r.PathValue("member"), id, m)
	if err != nil || sent.Deduplicated || m.DryRun {
		return sent, err
	}
	return nil, write(w, http.StatusCreated, sent)
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
	all, err := s.local.Broadcast(r.Context(), r.PathValue("team"), id, m)
	if err != nil {
		return nil, err
	}
	code := http.StatusCreated
	if slices.ContainsFunc(all, func(s api.Sent) bool { return s.Error != nil }) {
		code = http.StatusMultiStatus
	}
	return nil, write(w, code, all)
}
