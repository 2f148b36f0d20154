package mode

import (
	"encoding/json"

	"teambridge/teams/rawjson"
)

// Setting is one setting of a [Mode], in one of three states. The zero value is
// absent. Settings are comparable with ==.
type Setting[T string | []string] struct {
	// json is the setting as RFC 8785 writes it: "" absent, "null" default.
	// Kept in this form, a list can be compared, hashed and shared without
	// being copied.
	json string
}

// Set returns a setting with a value, which may be empty: a text, or a list whose
// order counts. What is not UTF-8 in it is replaced by U+FFFD.
func Set[T string | []string](value T) Setting[T] {
	var b []byte
	switch v := any(value).(type) {
	case string:
		b = rawjson.AppendText(b, v)
	case []string:
		b = appendList(b, v)
	}
	return Setting[T]{json: string(b)}
}

// Default returns the setting that asks for what the agent does by itself, null
// in JSON.
func Default[T string | []string]() Setting[T] { return Setting[T]{json: null} }

// IsAbsent reports whether the setting says nothing.
func (s Setting[T]) IsAbsent() bool { return s.json == "" }

// IsDefault reports whether the setting asks for the agent's default.
func (s Setting[T]) IsDefault() bool { return s.json == null }

// Value returns the value, the caller's own; ok is false where the setting is
// absent or default.
func (s Setting[T]) Value() (value T, ok bool) {
	if s.IsAbsent() || s.IsDefault() {
		return value, false
	}
	err := json.Unmarshal([]byte(s.json), &value)
	return value, err == nil
}

const null = "null"

func appendList(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, text := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = rawjson.AppendText(b, text)
	}
	return append(b, ']')
}
