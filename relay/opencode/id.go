package opencode

import (
	"strings"

	"github.com/google/uuid"
)

// SessionID is the id that OpenCode knows a conversation by. One of OpenCode's own stays as
// it is.
func SessionID(id string) string {
	if strings.HasPrefix(id, "ses_") {
		return id
	}
	return "ses_" + strings.ReplaceAll(id, "-", "")
}

// MessageID is the id that OpenCode knows a message by.
func MessageID(id string) string { return "msg_" + strings.ReplaceAll(id, "-", "") }

// UUID is the id that [SessionID] or [MessageID] made id of. ok is false for an id that
// OpenCode chose.
func UUID(id string) (string, bool) {
	_, hex, _ := strings.Cut(id, "_")
	if len(hex) != 32 {
		return "", false
	}
	u, err := uuid.Parse(hex)
	return u.String(), err == nil
}

// isID reports whether id can be one of OpenCode's.
func isID(id string) bool {
	return strings.Trim(id, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" && len(id) < 100
}
