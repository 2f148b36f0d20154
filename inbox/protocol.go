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

// Names that Claude Code itself uses as senders. Agents obey them, even if config.json has no
// such member.
const (
	leadName   = "team-lead"
	systemName = "system"
)

// ProtocolError says that the text of a message is an object of Claude Code's own protocol,
// which an agent's program would obey.
type ProtocolError struct {
	Type string // of the object
	From string // the agent in whose name it would be sent; empty if Protocol was not set
}

func (e *ProtocolError) Error() string {
	if e.From != "" {
		return fmt.Sprintf("the text is a %s of Claude Code's own protocol, and %q is the name of an agent", e.Type, e.From)
	}
	return fmt.Sprintf("the text is a %s of Claude Code's own protocol, which agents obey", e.Type)
}

// ProtocolType returns the type of a text that is an object of Claude Code's own protocol, or
// "": a JSON object whose "type" means something to some version. Of repeated keys each
// counts, since readers differ in which they take.
func ProtocolType(text string) string {
	text = strings.TrimFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' })
	if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return ""
	}
	// Token by token: unlike in JavaScript, the depth of values is limited here, and a map
	// keeps only one of repeated keys.
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
			return "" // no JSON: to agents it is plain text
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				depth++
				wantKey = depth == 1
				continue
			}
			if depth--; depth == 0 && dec.More() {
				return "" // something follows the object
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
			wantKey = true // a member ended
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

// CheckProtocol returns a [*ProtocolError] if the text of m is an object of Claude Code's team protocol. It
// is allowed if m.Own is set, or if m.Protocol is set and the sender is not an agent of the team.
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

// isAgent reports whether a sender's name belongs to an agent of the team, or to
// Claude Code itself. Guests are people.
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
