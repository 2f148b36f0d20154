package alert

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"teambridge/status/api"
	"teambridge/status/plain"
	"teambridge/teams/excerpt"
)

// Limits of an alert, in bytes of UTF-8 but for the first. ntfy accepts 4096 bytes, and Telegram 4096 characters.
const (
	maxLines = 10   // things that are named
	maxBody  = 3000 // all lines together
	maxText  = 2400 // the text of one thing
	maxShare = 400  // the same, if there are several things
	maxID    = 500  // an id, which has names in it
	maxName  = 80   // a name, or the sender of messages, which can be any text
)

// where is the last line of every alert. It has no address of the page, since that is valid only on this machine.
const where = "See: teambridge inbox"

// alert is one message to a destination.
type alert struct {
	Title  string
	Lines  string // below it
	Things []thing
	More   int // number of things left out of Things
}

// thing is one [api.Attention], without its texts.
type thing struct {
	ID     string     `json:"id"`
	Kind   string     `json:"kind"`
	Team   string     `json:"team"`
	Member string     `json:"member"`
	From   string     `json:"from,omitempty"`
	Count  int        `json:"count,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Text   string     `json:"text,omitempty"` // only with [Options.Text]
}

// who returns the agent that a thing is about, or the team. Messages to the person are about their sender.
func who(w api.Attention) string {
	if w.Kind == api.WaitsUnread {
		return short(w.From, maxName) + "@" + short(w.Team, maxName)
	}
	if w.Member == "" {
		return "team " + short(w.Team, maxName)
	}
	return short(w.Member, maxName) + "@" + short(w.Team, maxName)
}

// what describes a thing without any text of an agent.
func what(w api.Attention) string {
	if w.Kind == api.WaitsUnread {
		return plain.Plural(max(w.Count, 1), "unread message") + " to you"
	}
	return api.WaitOf(w.Kind).Words
}

// compose makes an alert about things. If before is not negative, it is the first alert ever, and also mentions that
// number of earlier things.
func (a *Alerter) compose(ctx context.Context, list []api.Attention, before int) alert {
	m := alert{Title: fmt.Sprintf("%d things need you", len(list)), Things: []thing{}}
	var lines []string
	alone, share := len(list) == 1 && before < 0, maxShare
	if before >= 0 {
		m.Title = "teambridge alerts begin"
		lines = append(lines, fmt.Sprintf("From now on, what needs you is sent here. Already waiting: %d.", before))
	}
	if alone {
		m.Title, share = who(list[0])+": "+what(list[0]), maxText
	}
	size := 0
	for i, w := range list {
		t := thing{short(w.ID, maxID), w.Kind, short(w.Team, maxName), short(w.Member, maxName), short(w.From, maxName), w.Count, w.Since, ""}
		if a.opts.Text != nil && i < maxLines {
			t.Text = short(a.opts.Text(ctx, w), share)
		}
		line := t.Text
		if !alone {
			line = strings.TrimSuffix(who(w)+": "+what(w)+": "+t.Text, ": ")
		}
		if size += len(line) + 1; i == maxLines || i > 0 && size > maxBody {
			m.More = len(list) - i
			lines = append(lines, fmt.Sprintf("and %d more", m.More))
			break
		}
		if m.Things = append(m.Things, t); line != "" {
			lines = append(lines, line)
		}
	}
	m.Lines = strings.Join(append(lines, where), "\n")
	return m
}

// references escapes Slack's markup for links and mentions, which other servers understand as well: <!channel> would
// notify everybody.
var references = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// markdown escapes a text so that servers such as Mattermost show it as it is: without markup, disguised links, or
// mentions. A zero-width space after an @ keeps it from being a mention. The @ in worker@team stays, since a person may
// copy the address.
func markdown(text string) string {
	text = regexp.MustCompile("[\\\\`*_\\[\\]()#~|!]").ReplaceAllString(references.Replace(text), `\$0`)
	return regexp.MustCompile(`(^|[^\pL\pN_.-])@+`).ReplaceAllString(text, "$0\u200b")
}

// short returns a text on one escaped line of at most most bytes.
func short(s string, most int) string {
	if len(s) > 2*most { // escaping makes it only longer
		s = strings.ToValidUTF8(s[:2*most], "")
	}
	s = plain.Escape(strings.Join(strings.Fields(s), " "), false)
	if len(s) > most {
		s = excerpt.Bytes(s, most-len("…"))
	}
	return s
}
