package inbox

import (
	"strconv"
	"strings"

	"teambridge/teams"
)

// InboxKey identifies an inbox: a member's name in one team instance under one Claude directory. A team that
// is made again under the same name is another instance. Other types embed InboxKey, so none of its methods
// may have the name of a field.
type InboxKey struct {
	Root      string // real path of the Claude directory
	Team      string // the team's name
	CreatedAt int64  // of the team, in milliseconds since 1970; 0 if config.json has no time
	Inbox     string // the name of the inbox
}

// Key returns the key of the inbox of a name in a team.
func Key(root string, team teams.Instance, name string) InboxKey {
	return InboxKey{Root: root, Team: team.Team, CreatedAt: team.CreatedAt, Inbox: name}
}

// KeyOf returns the key of a member's inbox, given the member's name in config.json.
func KeyOf(t *teams.Team, c *teams.Config, member string) InboxKey {
	return Key(t.Root().Path(), c.Instance(), member)
}

// Instance returns the team instance of the inbox.
func (k InboxKey) Instance() teams.Instance {
	return teams.Instance{Team: k.Team, CreatedAt: k.CreatedAt}
}

// Identity returns the key as one text. Stored ids are derived from it, so its form must never change.
func (k InboxKey) Identity() string {
	return strings.Join([]string{k.Root, k.Team, strconv.FormatInt(k.CreatedAt, 10), k.Inbox}, "\n")
}
