package transcript

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Given is one time that the model of a conversation was given a message, without its text.
type Given struct {
	At      time.Time // of the record, in UTC
	Version string    // of the Claude Code that wrote it
	Alone   bool      // no other message was given with it

	summary digest
}

// Summarized reports whether it was given with that summary, spelled as in the record;
// empty: without one.
func (g Given) Summarized(summary string) bool { return g.summary == digestOf(summary) }

// digest stands for texts: what was said in a conversation is not kept.
type digest [16]byte

func digestOf(texts ...string) digest {
	h := sha256.New()
	for _, s := range texts {
		// The lengths keep ("a", "b") and ("ab", "") apart.
		h.Write([]byte{byte(len(s) >> 24), byte(len(s) >> 16), byte(len(s) >> 8), byte(len(s))})
		h.Write([]byte(s))
	}
	return digest(h.Sum(nil)[:16])
}

// plain is the sender of a text that a model was given without a wrapper. It is no name.
const plain = "\x00"

var (
	attribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
	tag       = strings.NewReplacer(closed, `<\/teammate-message`, open, `<\teammate-message`)
)

// EscapeName returns a sender or a summary as newer versions spell it.
func EscapeName(s string) string { return attribute.Replace(s) }

// EscapeText returns a text as newer versions spell it. 2.1.181 does not escape opening
// tags.
func EscapeText(s string) string { return tag.Replace(s) }

// A block is one message of what a model was given at once, as it is spelled there.
type block struct{ from, summary, text string }

const (
	open   = "<teammate-message"
	closed = "</teammate-message"
	// What newer leads write around the messages.
	before = "Another Claude session sent a message:\n"
	behind = "\n\nThis came from another Claude session"
)

// A summary can hold quotes where Claude Code does not escape them. The expression is compiled
// when it is used first, and not by each command when it starts.
var header = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + open + ` teammate_id="([^"]*)"(?: verified="false")?(?: color="[^"]*")?(?: summary="(.*)")?>$`)
})

// blocks splits what a model was given into messages. It returns none unless the text can
// be read as messages in one way only: a closing tag that does not end a message makes the
// whole text unreadable. Where Claude Code does not escape tags, a text can still pretend
// to be several messages.
func blocks(text string) (list []block) {
	text, led := strings.CutPrefix(text, before)
	for {
		head, rest, ok := strings.Cut(text, "\n")
		if !ok || !strings.HasPrefix(head, open+" ") || !strings.HasSuffix(head, ">") {
			return nil
		}
		body, rest, ok := strings.Cut(rest, "\n"+closed+">")
		if !ok || strings.Contains(body, closed) {
			return nil
		}
		b := block{text: body}
		if m := header().FindStringSubmatch(head); m != nil {
			b.from, b.summary = m[1], m[2]
		}
		list = append(list, b)
		if rest == "" || led && strings.HasPrefix(rest, behind) && !strings.Contains(rest, open) && !strings.Contains(rest, closed) {
			return list
		}
		if text, ok = strings.CutPrefix(rest, "\n\n"); !ok {
			return nil
		}
	}
}

// userRecord is the part of a record that says what the model was given.
type userRecord struct {
	Type        string
	UUID        string
	Timestamp   time.Time
	Version     string
	IsSidechain bool
	IsMeta      bool
	Origin      struct{ Kind string }
	Message     struct{ Content json.RawMessage }
}

// messages are those that a record gives to the model.
func (r *userRecord) messages() []block {
	if r.Type != "user" || r.IsMeta || r.Origin.Kind == "human" || r.Timestamp.IsZero() {
		return nil
	}
	text, ok := content(r.Message.Content)
	switch {
	case !ok:
		return nil
	case strings.Contains(text, open), strings.Contains(text, closed):
		return blocks(text)
	case r.IsSidechain:
		return []block{{from: plain, text: text}}
	}
	return nil
}

// content is the text of a record, which is a string or a list with one text.
func content(raw json.RawMessage) (text string, ok bool) {
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(raw, &parts) != nil || len(parts) != 1 || parts[0].Type != "text" {
		return "", false
	}
	return parts[0].Text, true
}

// parseGiven reads a line that may give messages to the model.
func parseGiven(line []byte) (r userRecord, ok bool) {
	if !bytes.Contains(line, []byte(`"type":"user"`)) || bytes.Contains(line, []byte(`"tool_result"`)) && !bytes.Contains(line, []byte(open)) {
		return r, false
	}
	return r, json.Unmarshal(line, &r) == nil
}
