// Package mode describes the settings of an agent, and changes of them.
//
// A [Mode] is the set of settings that a message may request. Each [Setting] has three states: absent (no
// change), default (null in JSON: the agent's own default), or a value. Modes are comparable: == and
// [Mode.Hash] always agree.
package mode

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"teambridge/teams/rawjson"
)

// Mode is the requested settings of an agent. The zero value requests nothing. Modes are comparable with ==,
// and may be keys of maps.
type Mode struct {
	PermissionMode     Setting[string]
	Model              Setting[string]
	FallbackModel      Setting[string]
	CustomSystemPrompt Setting[string]
	AppendSystemPrompt Setting[string]
	AllowedTools       Setting[[]string]
	DisallowedTools    Setting[[]string]
}

// field is a setting of a mode, with its key in JSON.
type field struct {
	key  string
	json *string
	list bool
}

// fields returns the settings sorted by key.
func (m *Mode) fields() [7]field {
	return [7]field{
		{"allowedTools", &m.AllowedTools.json, true},
		{"appendSystemPrompt", &m.AppendSystemPrompt.json, false},
		{"customSystemPrompt", &m.CustomSystemPrompt.json, false},
		{"disallowedTools", &m.DisallowedTools.json, true},
		{"fallbackModel", &m.FallbackModel.json, false},
		{"model", &m.Model.json, false},
		{"permissionMode", &m.PermissionMode.json, false},
	}
}

// Parse reads a mode from a JSON object with the keys permissionMode, model,
// fallbackModel, customSystemPrompt and appendSystemPrompt (texts), allowedTools
// and disallowedTools (lists of texts); each may be missing, or null.
//
// Parse is strict, because a misspelt setting would let an agent run with wider permissions than requested. It
// refuses, with an *[Error], an unknown key (keys are case-sensitive), a repeated one, a value of another type, bytes
// that are not UTF-8, half of a surrogate pair, and anything after the object. It does not check the names of models
// and permission modes, which only the agent knows.
func Parse(data []byte) (Mode, error) {
	var m Mode
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			err = fmt.Errorf("not one JSON object, at byte %d: %w", syntax.Offset, err)
		}
		return Mode{}, &Error{Err: err}
	}
	if inexact, ok := errors.AsType[*rawjson.InexactError](rawjson.Exact(data)); ok {
		return Mode{}, &Error{Key: inexact.Path, Err: errors.New(inexact.Reason)}
	}
	if rawjson.Kind(whole) != '{' {
		return Mode{}, &Error{Err: fmt.Errorf("is %s, must be an object", rawjson.Word(whole))}
	}
	members, err := rawjson.Fields(whole)
	if err != nil {
		return Mode{}, &Error{Err: err}
	}
	fields := m.fields()
	for _, member := range members {
		if err := set(fields[:], member.Name, member.Value.Of(whole)); err != nil {
			return Mode{}, &Error{Key: member.Name, Err: err}
		}
	}
	return m, nil
}

// set sets the field with that key to a value of valid JSON.
func set(fields []field, key string, value json.RawMessage) error {
	i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
	if i < 0 {
		var known []string
		for _, f := range fields {
			known = append(known, f.key)
		}
		return fmt.Errorf("is no setting of a mode, must be one of %s", strings.Join(known, ", "))
	}
	b, err := canonical(value, fields[i].list)
	*fields[i].json = string(b)
	return err
}

// canonical returns a value of valid JSON in the form of [Setting], or an error about its type. encoding/json would
// accept null as an empty text here.
func canonical(value json.RawMessage, list bool) ([]byte, error) {
	switch kind := rawjson.Word(value); {
	case kind == "null":
		return value, nil
	case !list && kind == "a text":
		var text string
		err := json.Unmarshal(value, &text)
		return rawjson.AppendText(nil, text), err
	case !list:
		return nil, fmt.Errorf("is %s, must be a text or null", kind)
	case kind != "a list":
		return nil, fmt.Errorf("is %s, must be a list of texts or null", kind)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(value, &entries); err != nil {
		return nil, err
	}
	texts := make([]string, len(entries))
	for i, entry := range entries {
		if kind := rawjson.Word(entry); kind != "a text" {
			return nil, fmt.Errorf("entry %d is %s, must be a text", i+1, kind)
		}
		if err := json.Unmarshal(entry, &texts[i]); err != nil {
			return nil, err
		}
	}
	return appendList(nil, texts), nil
}

// Merge applies a change to m: settings that are absent in change stay as in m, all others are replaced.
func (m Mode) Merge(change Mode) Mode {
	to, from := m.fields(), change.fields()
	for i := range from {
		if *from[i].json != "" {
			*to[i].json = *from[i].json
		}
	}
	return m
}

// WithoutDefaults returns m with its default settings absent.
func (m Mode) WithoutDefaults() Mode {
	for _, f := range m.fields() {
		if *f.json == null {
			*f.json = ""
		}
	}
	return m
}

// Hash returns the SHA-256, in hexadecimal, of the mode as JSON with its keys
// sorted (RFC 8785): absent settings are left out, default ones are null. It is
// the same in every process and version, so it may be stored.
func (m Mode) Hash() string {
	sum := sha256.Sum256(m.appendJSON(nil))
	return hex.EncodeToString(sum[:])
}

// String returns the mode as JSON, for people. It includes whole prompts.
func (m Mode) String() string { return string(m.appendJSON(nil)) }

// MarshalJSON returns the JSON that [Mode.Hash] hashes.
func (m Mode) MarshalJSON() ([]byte, error) { return m.appendJSON(nil), nil }

// UnmarshalJSON is [Parse]: it replaces all of m, and leaves m unchanged on an error. Unlike most types, a Mode
// refuses null.
func (m *Mode) UnmarshalJSON(data []byte) error {
	parsed, err := Parse(data)
	if err != nil {
		return err
	}
	*m = parsed
	return nil
}

func (m Mode) appendJSON(b []byte) []byte {
	b = append(b, '{')
	for _, f := range m.fields() {
		if *f.json == "" {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendText(b, f.key), ':')
		b = append(b, *f.json...)
	}
	return append(b, '}')
}

// Error is an error in the JSON form of a [Mode].
type Error struct {
	Key string // the key with the error; "" if the JSON as a whole is invalid
	Err error
}

func (e *Error) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("mode: %v", e.Err)
	}
	// The key can be any text of any length.
	return fmt.Sprintf("mode: %.64q: %v", e.Key, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
