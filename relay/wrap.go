package relay

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"teambridge/inbox"
	"teambridge/inbox/ledger"
	"teambridge/relay/claim"
	"teambridge/teams"
)

// wrapperTag matches a tag in a text that could begin or end a wrapper. It is compiled on first use, to keep
// the start of commands short.
var wrapperTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<(\s*/?\s*teammate-message)`) })

// attribute makes text safe inside double quotes, on one line.
var attribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\n", " ", "\r", " ", "\t", " ")

// Wrap returns a row in the form in which Claude Code shows a teammate's message to a model:
//
//	<teammate-message teammate_id="NAME" color="blue" summary="…">
//	TEXT
//	</teammate-message>
//
// verified="false" is added unless the sender is a member of the team. A row without a sender is from
// "(unknown)". No text can leave its wrapper: the "<" of a wrapper tag in the text is escaped, as are quotes
// and angle brackets in attributes.
func Wrap(row *inbox.Row, verified bool) string {
	from := row.From
	if strings.TrimSpace(from) == "" {
		from, verified = "(unknown)", false
	}
	var b strings.Builder
	b.WriteString(`<teammate-message teammate_id="` + attribute.Replace(from) + `"`)
	if row.Color != "" {
		b.WriteString(` color="` + attribute.Replace(row.Color) + `"`)
	}
	if row.Summary != "" {
		b.WriteString(` summary="` + attribute.Replace(row.Summary) + `"`)
	}
	if !verified {
		b.WriteString(` verified="false"`)
	}
	b.WriteString(">\n")
	b.WriteString(wrapperTag().ReplaceAllString(row.Text, "&lt;$1"))
	b.WriteString("\n</teammate-message>")
	return b.String()
}

// text returns the text that the agent gets for a delivery.
func text(verified func(sender string) bool, d ledger.Delivery) string {
	if d.Person {
		return string(d.Raw)
	}
	row := claim.Row(d)
	if row == nil { // it was a row when it was claimed
		return Wrap(&inbox.Row{From: d.From, Text: string(d.Raw)}, false)
	}
	return Wrap(row, verified(row.From))
}

// verifies returns a function that reports whether a sender is a member of the team. A stand-in's name does not
// count: only the other machine vouches for messages under that name.
func verifies(config *teams.Config, team inbox.InboxKey, standIns []ledger.StandIn) func(sender string) bool {
	return func(sender string) bool {
		_, member := config.Member(sender)
		team.Inbox = sender
		return member && !slices.ContainsFunc(standIns, func(s ledger.StandIn) bool { return s.InboxKey == team })
	}
}

// TextOf returns a delivery's text as its author wrote it.
func TextOf(d ledger.Delivery) string {
	if row := claim.Row(d); row != nil && !d.Person {
		return row.Text
	}
	return string(d.Raw)
}
