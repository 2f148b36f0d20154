package session

import (
	"strconv"
	"strings"

	"teambridge/relay/toolcall"
	"teambridge/relay/wire"
)

// mailTags are those around what others wrote to a session: through its socket, and by the waiting hook.
var mailTags = []string{"cross-session-message", "teambridge-message"}

// mail is what others wrote in a text for the model, each with who wrote it.
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

// mailed tells what others wrote, and reports whether there is something.
func (c *conversation) mailed(uuid, text string) bool {
	list := mail(text)
	for i, one := range list {
		c.envelope(wire.DerivedID("text", uuid, strconv.Itoa(i)), uuid, &wire.Text{Text: toolcall.Cut(one)}).Role = wire.RoleUser
	}
	return len(list) > 0
}
