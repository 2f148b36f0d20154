package mode

import (
	"encoding/json"

	"teambridge/teams/rawjson"
)

// Setting is one setting of a [Mode], in one of three states. The zero value is
// absent. Settings are comparable with ==.
type Setting[T string | []string] struct {
	// json is the setting in the form of RFC 8785: "" is absent, "null" is the default. In this form, a list can be
	// compared, hashed and shared without a copy.
	json string
}

// Set returns a setting with a value, which may be empty: a text, or a list whose order counts. Bytes that are not
// UTF-8 are replaced by U+FFFD.
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

// Default returns the setting that requests the agent's own default, which is null in JSON.
func Default[T string | []string]() Setting[T] { return Setting[T]{json: null} }

// IsAbsent reports whether the setting is absent: it requests no change.
func (s Setting[T]) IsAbsent() bool { return s.json == "" }

// IsDefault reports whether the setting requests the agent's default.
func (s Setting[T]) IsDefault() bool { return s.json == null }

// Value returns the value, which the caller owns. ok is false if the setting is absent or default.
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
