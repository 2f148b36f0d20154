package inbox

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"teambridge/teams"
)

// Names that Claude Code itself uses as senders. Agents obey them, even if config.json has no such member.
const (
	leadName   = "team-lead"
	systemName = "system"
)

// ProtocolError means that the text of a message is an object of Claude Code's own protocol. An agent's
// program would obey it.
type ProtocolError struct {
	Type string // the type of the object
	From string // the agent in whose name it would be sent; "" if Protocol was not set
}

func (e *ProtocolError) Error() string {
	if e.From != "" {
		return fmt.Sprintf("the text is a %s of Claude Code's own protocol, and %q is the name of an agent", e.Type, e.From)
	}
	return fmt.Sprintf("the text is a %s of Claude Code's own protocol, which agents obey", e.Type)
}

// ProtocolType returns the type of a text that is an object of Claude Code's own protocol, or "". Such a text
// is a JSON object whose "type" has a meaning in some version. Each of repeated keys counts, because readers
// differ in which one they use.
func ProtocolType(text string) string {
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
	if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return ""
	}
	// Parse token by token: encoding/json limits the depth of values, unlike JavaScript, and a map would keep
	// only one of repeated keys.
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var found, key string
	depth, wantKey := 0, false
	for {
		token, err := dec.Token()
		if err == io.EOF && depth == 0 {
			return found
		}
		if err != nil {
			return "" // not JSON: to agents it is plain text
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
				wantKey = depth == 1
				continue
			}
			if depth--; depth == 0 && dec.More() {
				return "" // more text follows the object
			}
		case string:
			switch {
			case depth == 1 && wantKey:
				key, wantKey = t, false
				continue
			case depth == 1 && key == "type" && found == "" && isProtocolType(t):
				found = t
			}
		}
		if depth == 1 {
			wantKey = true // a member has ended
		}
	}
}

// isProtocolType knows the types of all examined versions.
func isProtocolType(s string) bool {
	switch s {
	case "idle_notification", "teammate_terminated", "task_assignment", "task_completed", "mode_set_request", "team_permission_update":
		return true
	}
	return slices.ContainsFunc([]string{"shutdown_", "permission_", "sandbox_permission_", "plan_approval_"},
		func(prefix string) bool { return strings.HasPrefix(s, prefix) })
}

// CheckProtocol returns a [*ProtocolError] if the text of m is an object of Claude Code's own protocol. Such
// a text is allowed if m.Own is set, or if m.Protocol is set and the sender is not an agent of the team.
func (m *Message) CheckProtocol(c *teams.Config) error {
	if m.Own {
		return nil
	}
	kind := ProtocolType(m.Text)
	if kind == "" {
		return nil
	}
	if isAgent(c, m.From) {
		return &ProtocolError{Type: kind, From: m.From}
	}
	if !m.Protocol {
		return &ProtocolError{Type: kind}
	}
	return nil
}

// isAgent reports whether a sender's name belongs to an agent of the team, or to Claude Code itself. Guests
// are people.
func isAgent(c *teams.Config, name string) bool {
	is := func(agent string) bool { return strings.EqualFold(strings.TrimSpace(name), agent) }
	if is(leadName) || is(systemName) {
		return true
	}
	lead, _ := c.Lead()
	for _, member := range c.Members {
		if is(member.Name) && (!member.Guest() || member.Name == lead.Name) {
			return true
		}
	}
	return false
}
