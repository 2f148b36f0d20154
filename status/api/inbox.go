package api

import (
	"slices"
	"strings"
)

// An InboxQuery says what [Bridge.Inbox] returns.
type InboxQuery struct {
	Team     string `json:"team,omitempty"`     // "": of all teams
	Protocol bool   `json:"protocol,omitempty"` // confirmations of Claude Code's own protocol, too
	Read     bool   `json:"read,omitempty"`     // all messages to the person, those that were read too, and nothing else that waits
}

// An Inbox is what needs the person. What waits of kind [WaitsUnread] has its messages.
type Inbox struct {
	Items    []Attention `json:"items"`
	Hidden   int         `json:"hidden"`             // confirmations that were left out
	Problems []Error     `json:"problems,omitempty"` // with what is not in Items
}

// Messages returns the messages to the person, by team and time.
func (in Inbox) Messages() (all []Message) {
	for _, i := range in.Items {
		all = append(all, i.Messages...)
	}
	slices.SortStableFunc(all, func(a, b Message) int {
		if a.Team != b.Team {
			return strings.Compare(a.Team, b.Team)
		}
		return strings.Compare(a.Timestamp, b.Timestamp)
	})
	return all
}
