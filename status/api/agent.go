package api

// Agents are all agents that live, on this machine and, as far as they are shared, on others.
type Agents struct {
	Agents  []Agent       `json:"agents"`            // those that can be written to first; of these, those that need the person, are stuck, work, are idle
	Unknown []UnknownTeam `json:"unknown,omitempty"` // teams whose agents are not all in Agents
}

// UnknownTeam is a team of which it is not known who is in it, or what they do.
type UnknownTeam struct {
	Team string `json:"team"`
	Why  string `json:"why"`
}

// Agent is an agent: where it is, what it does, and how a message reaches it.
type Agent struct {
	Name    string `json:"name"`   // as [Bridge.Target] takes it, if no team is named
	Team    string `json:"team"`   // [TeamSessions] for a session in no team
	Member  string `json:"member"` // in Team; the id of a session if another one has its name
	Session string `json:"session,omitempty"`
	Kind    string `json:"kind"` // in words: "member", "headless member", "pane", "session", or with the program, such as "codex session"

	Word string `json:"word"`          // what it does: [WordIdle] and its like
	Why  string `json:"why,omitempty"` // as of [Status]
	Does string `json:"does"`          // in words, with the reason if that concerns the person

	Way     string `json:"way,omitempty"` // how a message reaches it: [WayInbox] and its like; empty: not at all
	Promise string `json:"promise"`       // what that way can promise, in words

	Overview
}
