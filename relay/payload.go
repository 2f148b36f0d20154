package relay

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"teambridge/inbox"
	"teambridge/relay/mode"
	"teambridge/relay/wire"
	"teambridge/teams/rawjson"
)

// ModernVariable is the environment variable for [Payloads.Modern], the same one that front ends of the
// session protocol use; see [ParseSwitch].
const ModernVariable = "ENABLE_SESSION_PROTOCOL_SEND"

// ParseSwitch reports whether a value of [ModernVariable] means on: 1, true or yes, in any case.
func ParseSwitch(value string) bool {
	return slices.Contains([]string{"1", "true", "yes"}, strings.ToLower(value))
}

// Payloads turns payloads of the session protocol into prompts. Front ends that are moving from legacy user
// messages to envelopes may send each message in both forms, so one form is accepted and the other dropped.
type Payloads struct {
	Modern          bool // accept envelopes and drop legacy messages; otherwise the reverse
	PermissionModes PermissionModes
}

// Dropped returns the name of the dropped form.
func (p Payloads) Dropped() string {
	if p.Modern {
		return "legacy"
	}
	return "modern"
}

// Parse reads one payload from a user. taken is false if its form is dropped.
//
// Its meta sets the prompt's mode, and its id (localKey in the legacy form) the prompt's ID. The agent gets
// the text. A displayText that differs becomes the one-line summary, so that people always see what the agent
// got.
//
// Parse refuses payloads from the agent, events that are not text, and values that decoding would change (see
// [rawjson.Exact]).
func (p Payloads) Parse(data []byte) (in Input, taken bool, err error) {
	if err := rawjson.Exact(data); err != nil {
		return Input{}, false, err
	}
	content, err := wire.ParseMessageContent(data)
	if err != nil {
		return Input{}, false, err
	}
	var id *string
	var meta *wire.MessageMeta
	switch m := content.(type) {
	case *wire.AgentMessage:
		return Input{}, false, errors.New("role: must be user or session; an agent's payload is not a prompt")
	case *wire.UserMessage:
		in.Text, id, meta, taken = m.Text, m.LocalKey, m.Meta, !p.Modern
	case *wire.SessionProtocolMessage:
		if m.Content.Role != wire.RoleUser {
			return Input{}, false, errors.New("content.role: must be user; an agent's payload is not a prompt")
		}
		if !p.Modern {
			break
		}
		text, ok := m.Content.Event.(*wire.Text)
		if !ok {
			return Input{}, false, errors.New("content.ev.t: must be text; nothing else can be a prompt")
		}
		if m.Content.Subagent != nil {
			return Input{}, false, errors.New("content.subagent: must be missing; a prompt goes to the agent itself")
		}
		in.Text, id, meta, taken = text.Text, &m.Content.ID, m.Meta, true
	}
	if !taken {
		return Input{}, false, nil
	}
	if id != nil {
		if in.ID = *id; in.ID == "" {
			return Input{}, false, &inbox.InvalidError{Field: "id", Reason: "is blank"}
		}
	}
	if strings.ContainsRune(in.Text, 0) {
		return Input{}, false, &inbox.InvalidError{Field: "text", Reason: "has a NUL character"}
	}
	if meta != nil {
		if in.Mode, err = p.mode(meta); err != nil {
			return Input{}, false, err
		}
		if meta.DisplayText != nil && *meta.DisplayText != in.Text {
			in.Summary = oneLine(*meta.DisplayText, inbox.MaxSummary)
		}
	}
	m := inbox.Message{From: "user", ID: in.ID, Text: in.Text, Summary: in.Summary}
	if err := m.Check(); err != nil {
		return Input{}, false, err
	}
	return in, true, nil
}

// mode returns the mode that a payload asks for.
func (p Payloads) mode(meta *wire.MessageMeta) (m mode.Mode, err error) {
	if meta.PermissionMode != nil {
		name, err := p.PermissionModes.resolve(*meta.PermissionMode)
		if err != nil {
			return mode.Mode{}, err
		}
		m.PermissionMode = mode.Set(name)
	}
	m.Model = setting(meta.Model)
	m.FallbackModel = setting(meta.FallbackModel)
	m.CustomSystemPrompt = setting(meta.CustomSystemPrompt)
	m.AppendSystemPrompt = setting(meta.AppendSystemPrompt)
	m.AllowedTools = setting(meta.AllowedTools)
	m.DisallowedTools = setting(meta.DisallowedTools)
	return m, nil
}

func setting[T string | []string](n wire.Nullable[T]) mode.Setting[T] {
	if v, ok := n.Value(); ok {
		return mode.Set(v)
	}
	if n.IsNull() {
		return mode.Default[T]()
	}
	return mode.Setting[T]{}
}

// oneLine replaces each run of spaces and control characters by one space, and cuts the text to limit bytes.
func oneLine(text string, limit int) string {
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) <= limit {
		return text
	}
	const dots = "…"
	end := limit - len(dots)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + dots
}

// PermissionModes maps the permission modes of payloads to those of Claude Code. A mode that is not listed
// must be Claude Code's own.
type PermissionModes map[string]string

// ParsePermissionModes parses a list such as "yolo=bypassPermissions,read-only=plan".
func ParsePermissionModes(list string) (PermissionModes, error) {
	if list == "" {
		return nil, nil
	}
	modes := PermissionModes{}
	for item := range strings.SplitSeq(list, ",") {
		name, target, ok := strings.Cut(item, "=")
		_, twice := modes[name]
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("%q is not NAME=MODE", item)
		case twice:
			return nil, fmt.Errorf("%q is listed twice", name)
		case !slices.Contains(mode.Permissions(), target):
			return nil, fmt.Errorf("%q is not a permission mode of Claude Code, such as %s", target, strings.Join(mode.Permissions(), ", "))
		}
		modes[name] = target
	}
	return modes, nil
}

// String returns the list in the form that [ParsePermissionModes] reads.
func (m PermissionModes) String() string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		items = append(items, name+"="+m[name])
	}
	return strings.Join(items, ",")
}

// PermissionModeError reports a payload's permission mode that neither [PermissionModes] nor Claude Code has.
type PermissionModeError struct{ Name string }

func (e *PermissionModeError) Error() string {
	return fmt.Sprintf("meta.permissionMode: %.40q is not a permission mode of Claude Code; --permission-mode-map %s=MODE says what it stands for",
		e.Name, cmp.Or(oneLine(e.Name, 40), "NAME"))
}

func (m PermissionModes) resolve(name string) (string, error) {
	if target, ok := m[name]; ok {
		return target, nil
	}
	if !slices.Contains(mode.Permissions(), name) {
		return "", &PermissionModeError{name}
	}
	return name, nil
}
