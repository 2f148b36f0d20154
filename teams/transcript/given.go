package transcript

import (
	"encoding/json"
	"strings"
	"time"
)

// givenTail is how much of the end of a transcript is searched for a message.
const givenTail = 8 << 20

// Given says when, since a time, the model of a conversation was first given a text that
// came from a sender, and how often. Only a message that was given alone counts: where
// several are given at once, a text can pretend to be several.
func Given(path, from, text string, since time.Time) (first time.Time, times int) {
	for _, size := range []int64{shortTail, longTail, givenTail} {
		first, times = time.Time{}, 0
		over := false
		whole := backward(path, size, func(line []byte) bool {
			at, told := given(line, from, text)
			if !at.IsZero() && at.Before(since) {
				over = true
				return false
			}
			if told {
				first, times = at, times+1
			}
			return true
		})
		if over || whole {
			break
		}
	}
	return first, times
}

// given returns when a record was written, and whether it gives the model that text from
// that sender, alone.
func given(line []byte, from, text string) (at time.Time, told bool) {
	var r struct {
		Type      string
		Timestamp time.Time
		Message   struct{ Content json.RawMessage }
	}
	if json.Unmarshal(line, &r) != nil {
		return time.Time{}, false
	}
	if r.Type != "user" {
		return r.Timestamp, false
	}
	said, ok := strings.CutPrefix(content(r.Message.Content), `<teammate-message teammate_id="`+from+`"`)
	if !ok {
		return r.Timestamp, false
	}
	attributes, ok := strings.CutSuffix(said, "\n"+text+"\n</teammate-message>")
	return r.Timestamp, ok && !r.Timestamp.IsZero() && strings.HasSuffix(attributes, ">") && !strings.Contains(attributes, "\n")
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
