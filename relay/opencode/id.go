package opencode

import (
	"strings"

	"github.com/google/uuid"
)

// SessionID returns OpenCode's id of a conversation. It does not change an id that OpenCode chose.
func SessionID(id string) string {
	if strings.HasPrefix(id, "ses_") {
		return id
	}
	return "ses_" + strings.ReplaceAll(id, "-", "")
}

// MessageID returns OpenCode's id of a message.
func MessageID(id string) string { return "msg_" + strings.ReplaceAll(id, "-", "") }

// UUID is the inverse of [SessionID] and [MessageID]. ok is false for an id that OpenCode chose.
func UUID(id string) (string, bool) {
	_, hex, _ := strings.Cut(id, "_")
	if len(hex) != 32 {
		return "", false
	}
	u, err := uuid.Parse(hex)
	return u.String(), err == nil
}

// isID reports whether id has the form of OpenCode's ids.
func isID(id string) bool {
	return strings.Trim(id, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && len(id) < 100
}
