package transcript

import (
	"bytes"
	"crypto/sha256"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Given is one time that the model of a conversation got a message, without its text.
type Given struct {
	At      time.Time // of the record, in UTC
	Version string    // of the Claude Code that wrote it

	summary digest
}

// Summarized reports whether the message had that summary, spelled as in the record; "" is none.
func (g Given) Summarized(summary string) bool { return g.summary == digestOf(summary) }

// digest is a hash of texts: the texts of a conversation are not kept.
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

var (
	attribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
	tag       = strings.NewReplacer(closed, `<\/teammate-message`, opened, `<\teammate-message`)

	unattribute = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&amp;", "&")
	untag       = strings.NewReplacer(`<\/teammate-message`, closed, `<\teammate-message`, opened)
)

// EscapeName returns a sender or a summary as it is spelled in transcripts.
func EscapeName(s string) string { return attribute.Replace(s) }

// EscapeText returns a text as it is spelled in transcripts.
func EscapeText(s string) string { return tag.Replace(s) }

// A Message is one message of a text for a model.
type Message struct{ From, Text string }

// Messages returns the messages that a text for a model consists of; none if it is no such text. others reports whether
// it has messages that cannot be told apart.
func Messages(text string) (list []Message, others bool) {
	for _, b := range blocks(text) {
		list = append(list, Message{unattribute.Replace(b.from), untag.Replace(b.text)})
	}
	return list, list == nil && strings.Contains(text, opened+" ")
}

// A block is one message of a text that the model got, spelled as in that text.
type block struct{ from, summary, text string }

const (
	opened = "<teammate-message"
	closed = "</teammate-message"
	// The text that leads write around the messages.
	before = "Another Claude session sent a message:\n"
	behind = "\n\nThis came from another Claude session"
)

// header is compiled on first use, to keep the start of commands short.
var header = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + opened + ` teammate_id="([^"]*)"(?: verified="false")?(?: color="[^"]*")?(?: summary="([^"]*)")?>$`)
})

// blocks splits a text that the model got into messages. It returns none unless the text can be read as messages in
// one way only: a closing tag that does not end a message makes the whole text unreadable.
func blocks(text string) (list []block) {
	text, led := strings.CutPrefix(text, before)
	for {
		head, rest, ok := strings.Cut(text, "\n")
		if !ok || !strings.HasPrefix(head, opened+" ") || !strings.HasSuffix(head, ">") {
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
		if rest == "" || led && strings.HasPrefix(rest, behind) && !strings.Contains(rest, opened) && !strings.Contains(rest, closed) {
			return list
		}
		if text, ok = strings.CutPrefix(rest, "\n\n"); !ok {
			return nil
		}
	}
}

// messages returns the messages that a record gives to the model.
func (r *Record) messages() []block {
	if r.Type != "user" || r.Meta || r.Origin.Kind == "human" || r.Time().IsZero() {
		return nil
	}
	list := r.Blocks()
	if len(list) != 1 || list[0].Type != "text" {
		return nil
	}
	return blocks(list[0].Text)
}

// parseGiven reads a line that may give messages to the model.
func parseGiven(line []byte) (r Record, ok bool) {
	if !bytes.Contains(line, []byte(`"type":"user"`)) || bytes.Contains(line, []byte(`"tool_result"`)) && !bytes.Contains(line, []byte(opened)) {
		return r, false
	}
	return Parse(line)
}
