package session

import (
	"strconv"
	"strings"

	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
)

// mailTags are the tags around messages from others to a session: through its socket, and by the waiting hook.
var mailTags = []string{"cross-session-message", "teambridge-message"}

// mail returns the messages of others in a text for the model, each with its sender.
func mail(text string) (list []string) {
	for _, tag := range mailTags {
		for rest := text; ; {
			_, after, found := strings.Cut(rest, "<"+tag+" ")
			head, after, closed := strings.Cut(after, ">\n")
			body, next, ended := strings.Cut(after, "\n</"+tag)
			if !found || !closed || !ended {
				break
			}
			from := ""
			for _, name := range []string{"from-name", "from"} {
				if _, value, ok := strings.Cut(" "+head, " "+name+`="`); ok && from == "" {
					from, _, _ = strings.Cut(value, `"`)
				}
			}
			list = append(list, "message from "+from+":\n"+strings.ReplaceAll(strings.ReplaceAll(body, "&lt;/"+tag, "</"+tag), "&lt;"+tag, "<"+tag))
			rest = next
		}
	}
	return list
}

// mailed makes the envelopes of the messages of others in a text, and reports whether there are any.
func (c *conversation) mailed(uuid, text string) bool {
	list := mail(text)
	for i, one := range list {
		c.envelope(wire.DerivedID("text", uuid, strconv.Itoa(i)), uuid, &wire.Text{Text: toolcall.Cut(one)}).Role = wire.RoleUser
	}
	return len(list) > 0
}
