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

// wrapperTag finds what could end or begin a wrapper inside of one. It is compiled when it is
// used first, and not by each command when it starts.
var wrapperTag = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<(\s*/?\s*teammate-message)`) })

// attribute makes text safe between double quotes, on one line.
var attribute = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "\n", " ", "\r", " ", "\t", " ")

// Wrap returns a row as Claude Code shows a teammate's message to a model:
//
//	<teammate-message teammate_id="NAME" color="blue" summary="…">
//	TEXT
//	</teammate-message>
//
// verified="false" is there unless the sender is a member of the team. A row without a
// sender is from "(unknown)". No row can leave its wrapper: a tag of that name in its text
// has its "<" escaped, and so have quotes and angle brackets in the attributes.
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

// text is what the agent gets of a delivery.
func text(verified func(sender string) bool, d ledger.Delivery) string {
	if d.Person {
		return string(d.Raw)
	}
	row := claim.Row(d)
	if row == nil { // it was one when it was claimed
		return Wrap(&inbox.Row{From: d.From, Text: string(d.Raw)}, false)
	}
	return Wrap(row, verified(row.From))
}

// verifies returns what reports whether a sender is a member of the team. A name that stands for a
// member on another machine is none: who writes under it is what that machine says.
func verifies(config *teams.Config, team inbox.InboxKey, standIns []ledger.StandIn) func(sender string) bool {
	return func(sender string) bool {
		_, member := config.Member(sender)
		team.Inbox = sender
		return member && !slices.ContainsFunc(standIns, func(s ledger.StandIn) bool { return s.InboxKey == team })
	}
}

// TextOf is what was written in a delivery, as its author wrote it.
func TextOf(d ledger.Delivery) string {
	if row := claim.Row(d); row != nil && !d.Person {
		return row.Text
	}
	return string(d.Raw)
}
