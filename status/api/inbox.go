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
	Read     bool   `json:"read,omitempty" query:"read"`         // all messages to the person, those that were read too, and nothing else that waits
}

// An Inbox is what needs the person. What waits of kind [WaitsUnread] has its messages.
type Inbox struct {
	Items    []Attention `json:"items"`              // what of it is unread has its messages
	Hidden   int         `json:"hidden"`             // confirmations that were left out
	Problems []Error     `json:"problems,omitempty"` // with what is not in Items
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
