package teams

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that is stored but never shown. All verbs of fmt, slog, and encoders of JSON or text print
// "[withheld]", even for a field. string(s) is the text itself.
type Secret string

const withheld = "[withheld]"

// Format prints "[withheld]" for every verb, including %#v and %x.
func (Secret) Format(s fmt.State, _ rune) { io.WriteString(s, withheld) }

// MarshalText returns "[withheld]"; encoding/json uses it, too.
func (Secret) MarshalText() ([]byte, error) { return []byte(withheld), nil }

// LogValue returns "[withheld]".
func (Secret) LogValue() slog.Value { return slog.StringValue(withheld) }
