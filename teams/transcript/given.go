package transcript

import (
	"encoding/json"
	"strings"
	"time"
)

// givenTail is how much of the end of a transcript is searched for a message.
const givenTail = 8 << 20

// Given counts how often, since a time, the model of a conversation was given a text
// that came from a sender. Only a message that was given alone counts: where several
// are given at once, a text can pretend to be several.
func Given(path, from, text string, since time.Time) (times int) {
	want := "\n" + text + "\n</teammate-message>"
	backward(path, givenTail, func(line []byte) bool {
		var r struct {
			Type      string
			Timestamp time.Time
			Message   struct{ Content json.RawMessage }
		}
		if json.Unmarshal(line, &r) != nil || r.Timestamp.IsZero() {
			return true
		}
		if r.Timestamp.Before(since) {
			return false
		}
		if r.Type != "user" {
			return true
		}
		said, ok := strings.CutPrefix(content(r.Message.Content), `<teammate-message teammate_id="`+from+`"`)
		if !ok {
			return true
		}
		if attributes, ok := strings.CutSuffix(said, want); ok && !strings.Contains(attributes, "\n") && strings.HasSuffix(attributes, ">") {
			times++
		}
		return true
	})
	return times
}

// content is the text of a record, which is a string or a list with one text.
func content(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil || len(parts) != 1 || parts[0].Type != "text" {
		return ""
	}
	return parts[0].Text
}
