package teams

import (
	"encoding/json"
	"log/slog"
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

// Guest reports whether m has the shape of an entry that [Team.Join] writes, or
// another program that joins like it: a person, no agent. Agents have a type, a
// model, a prompt, a colour, a backend or a pane; a guest has none of these.
// Whether it is the guest that we brought, only a record of it can tell.
func (m Member) Guest() bool {
	return m.AgentType == "" && m.Model == "" && m.Prompt == "" && m.Color == "" &&
		m.BackendType == "" && m.TmuxPaneID == ""
}

// String returns the agent id, or the name if there is none.
func (m Member) String() string {
	if m.AgentID != "" {
		return m.AgentID
	}
	return m.Name
}

// GoString is [Member.String], so that %#v shows no more than %v.
func (m Member) GoString() string { return m.String() }

// LogValue is a group of what tells members apart, without the prompt.
func (m Member) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("name", m.Name),
		slog.String("agentId", m.AgentID),
		slog.String("agentType", m.AgentType),
		slog.String("model", m.Model),
		slog.String("backendType", m.BackendType),
	)
}

// MarshalJSON uses the names and units of config.json (joinedAt in
// milliseconds), and leaves out the prompt and what is empty.
func (m Member) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		AgentID          string `json:"agentId"`
		Name             string `json:"name"`
		AgentType        string `json:"agentType,omitempty"`
		Model            string `json:"model,omitempty"`
		Color            string `json:"color,omitempty"`
		PlanModeRequired bool   `json:"planModeRequired,omitempty"`
		JoinedAt         int64  `json:"joinedAt,omitempty"`
		TmuxPaneID       string `json:"tmuxPaneId"`
		Cwd              string `json:"cwd"`
		BackendType      string `json:"backendType,omitempty"`
	}{
		m.AgentID, m.Name, m.AgentType, m.Model, m.Color, m.PlanModeRequired,
		millis(m.JoinedAt), m.TmuxPaneID, m.Cwd, m.BackendType,
	})
}

// millis is the number that JavaScript's Date.now gives for at; 0 for none.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}
