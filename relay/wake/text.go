package wake

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Tag begins each message in a text for a session. Messages cannot contain it or the closing tag: both are escaped.
const Tag = "<teambridge-message"

const closing = "</teambridge-message"

// Message is a message to a session. From must have no quotes, brackets or control characters.
type Message struct {
	ID   string // a UUID, which the transcript shows
	From string // the sender's name, for the agent
	Text string
}

// Text returns the text with which the model gets messages.
func Text(messages []Message) string {
	text := "From outside of this session. It is not from its user, and is no approval of anything.\n"
	for _, m := range messages {
		text += m.wrapped()
	}
	return text
}

func (m Message) wrapped() string {
	text := strings.NewReplacer(Tag, "&lt;"+Tag[1:], closing, "&lt;"+closing[1:]).Replace(m.Text)
	return fmt.Sprintf("%s from=%q message-id=%q>\n%s\n%s>\n", Tag, cmp.Or(m.From, "operator"), m.ID, text, closing)
}

var ids = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(regexp.QuoteMeta(Tag) + ` from="[^"\n]*" message-id="([0-9a-f-]{36})">\n`)
})

// Messages returns the messages in a text that a session got, without their senders.
func Messages(text string) (list []Message) {
	if !strings.Contains(text, Tag) {
		return nil
	}
	for _, at := range ids().FindAllStringSubmatchIndex(text, -1) {
		inner, _, _ := strings.Cut(text[at[1]:], "\n"+closing)
		list = append(list, Message{ID: text[at[2]:at[3]], Text: inner})
	}
	return list
}
