package server

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"teambridge/inbox"
	"teambridge/status/api"
	"teambridge/status/api/op"
)

// idempotencyKey returns the message id in the header Idempotency-Key, or "" without the header. The value may be in
// quotes, as in the draft standard.
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

// send sends a message, or payloads of the session protocol.
func (s *Server) send(w http.ResponseWriter, r *http.Request) (any, error) {
	if payloads, err := isPayloads(r); err != nil {
		return nil, err
	} else if payloads {
		return s.sendPayloads(w, r)
	}
	return s.asking(&op.Send)(w, r)
}
