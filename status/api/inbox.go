package api

import (
	"slices"
	"strings"
	"time"
)

// An InboxQuery says what [Bridge.Inbox] returns.
type InboxQuery struct {
	Team     string `json:"team,omitempty" query:"team"`         // only of this team
	Protocol bool   `json:"protocol,omitempty" query:"protocol"` // also confirmations that nobody needs to read
	Read     bool   `json:"read,omitempty" query:"read"`         // all messages to the person, also read ones, and no other items
}

// An Inbox has the items that need the person. Those of kind [WaitsUnread] have their messages.
type Inbox struct {
	Items    []Attention `json:"items"`              // those of kind unread have their messages
	Hidden   int         `json:"hidden"`             // confirmations that were left out
	Problems []Error     `json:"problems,omitempty"` // why some items are missing
}

// Messages returns the messages to the person, by team and time; those without a valid time come first.
func (in Inbox) Messages() (all []Message) {
	for _, i := range in.Items {
		all = append(all, i.Messages...)
	}
	slices.SortStableFunc(all, func(a, b Message) int {
		if a.Team != b.Team {
			return strings.Compare(a.Team, b.Team)
		}
		sentA, _ := time.Parse(time.RFC3339, a.Timestamp)
		sentB, _ := time.Parse(time.RFC3339, b.Timestamp)
		return sentA.Compare(sentB)
	})
	return all
}
