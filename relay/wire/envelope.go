package wire

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// Envelope is one event of a session, with its source, its time and its place in the session.
type Envelope struct {
	ID          string
	Time        float64 // milliseconds since January 1, 1970 UTC
	Role        Role
	Turn        *string // groups the envelopes of one turn
	Subagent    *string // the subagent that it comes from; a cuid2
	ClaudeUUID  *string // the id of Claude Code's own record; not empty
	CodexItemID *string // the id of Codex's own record; not empty
	Usage       *Usage
	Event       Event
}

// Role is the author of an event.
type Role string

const (
	RoleUser  Role = "user"
	RoleAgent Role = "agent"
)

// Usage is the number of tokens that a model's answer took.
type Usage struct {
	InputTokens              int64
	CacheCreationInputTokens *int64
	CacheReadInputTokens     *int64
	OutputTokens             int64
	ContextWindow            *int64 // size of the model's context; at least 1
	ServiceTier              *string
	Extra                    Object // all other keys
}

// Add returns the sum of the token counts, without the other fields. If one of the two is nil, it returns the other
// one unchanged.
func (u *Usage) Add(v *Usage) *Usage {
	switch {
	case u == nil:
		return v
	case v == nil:
		return u
	}
	add := func(a, b *int64) *int64 {
		if a == nil {
			return b
		} else if b == nil {
			return a
		}
		return new(*a + *b)
	}
	return &Usage{
		InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		CacheCreationInputTokens: add(u.CacheCreationInputTokens, v.CacheCreationInputTokens),
		CacheReadInputTokens:     add(u.CacheReadInputTokens, v.CacheReadInputTokens),
	}
}

// DerivedID returns an id in the form of a cuid2 that depends only on the parts and their order, so that the same
// event always has the same id. It is 115 bits of a SHA-256 digest.
func DerivedID(parts ...string) string {
	var b []byte
	for _, part := range parts {
		b = append(binary.AppendUvarint(b, uint64(len(part))), part...)
	}
	digest := sha256.Sum256(b)
	return "e" + strings.ToLower(base32.StdEncoding.EncodeToString(digest[:])[:23])
}

// isCUID2 reports whether s has the form of a cuid2. The protocol also accepts ids that begin with a digit, although
// no generator makes them.
func isCUID2(s string) bool {
	return len(s) >= 2 && len(s) <= 32 && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz") == ""
}

func (e *Envelope) fields(o *object) {
	required(o, "id", &e.ID, text)
	required(o, "time", &e.Time, number)
	required(o, "role", &e.Role, oneOf(RoleUser, RoleAgent))
	optional(o, "turn", &e.Turn, text)
	optional(o, "subagent", &e.Subagent, check(text, isCUID2, "must be a cuid2: 2 to 32 lower-case letters and digits"))
	optional(o, "claudeUuid", &e.ClaudeUUID, check(text, notEmpty, "must not be empty"))
	optional(o, "codexItemId", &e.CodexItemID, check(text, notEmpty, "must not be empty"))
	optional(o, "usage", &e.Usage, structure)
	required(o, "ev", &e.Event, event)
	if e.Role == RoleUser {
		switch e.Event.(type) {
		case *Service:
			o.fail("role", `must be "agent" for a service event`)
		case *Start:
			o.fail("role", `must be "agent" for a start event`)
		case *Stop:
			o.fail("role", `must be "agent" for a stop event`)
		}
	}
}

func (u *Usage) fields(o *object) {
	tokens := check(integer, func(n int64) bool { return n >= 0 }, "must be at least 0")
	size := check(integer, func(n int64) bool { return n >= 1 }, "must be at least 1")
	required(o, "input_tokens", &u.InputTokens, tokens)
	optional(o, "cache_creation_input_tokens", &u.CacheCreationInputTokens, tokens)
	optional(o, "cache_read_input_tokens", &u.CacheReadInputTokens, tokens)
	required(o, "output_tokens", &u.OutputTokens, tokens)
	optional(o, "context_window", &u.ContextWindow, size)
	optional(o, "service_tier", &u.ServiceTier, text)
	rest(o, &u.Extra)
}

func notEmpty(s string) bool { return s != "" }
