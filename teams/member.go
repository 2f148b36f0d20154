package teams

import (
	"cmp"
	"time"
)

// Member is one entry of members in config.json. Members who shut down are
// taken out of it by Claude. Keys that are not here stay in the file unread.
type Member struct {
	AgentID          string // "name@team"
	Name             string // has passed CheckName
	AgentType        string // "team-lead", "general-purpose", …; newer versions write it of the lead alone
	Model            string
	Prompt           Secret // what the member was started with; it can hold secrets
	Color            string
	PlanModeRequired bool
	JoinedAt         time.Time // UTC, to the millisecond
	TmuxPaneID       string    // a tmux pane, or "leader", "in-process", ""
	Cwd              string
	BackendType      string // "in-process", "tmux"; empty for a lead up to 2.1.177
}

// Guest reports whether m is a person, who has an entry as [Team.Join] writes it, without
// a type, model, prompt, color, backend and pane, of which every agent has some.
func (m Member) Guest() bool {
	return m.AgentType == "" && m.Model == "" && m.Prompt == "" && m.Color == "" &&
		m.BackendType == "" && m.TmuxPaneID == ""
}

// String returns the agent id, or the name if there is none.
func (m Member) String() string {
	return cmp.Or(m.AgentID, m.Name)
}

// millis is the number that JavaScript's Date.now gives for at; 0 for none.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}
