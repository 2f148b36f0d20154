package api

// Agents are all agents that live, on this machine and, as far as they are shared, on others.
type Agents struct {
	Agents  []Agent       `json:"agents"`            // those that can be written to first; of these, those that need the person, are stuck, work, are idle
	Unknown []UnknownTeam `json:"unknown,omitempty"` // teams whose agents are not all in Agents
}

// UnknownTeam is a team whose members, or what they do, are not known.
type UnknownTeam struct {
	Team string `json:"team"`
	Why  string `json:"why"`
}

// Agent is an agent: where it is, what it does, and how a message reaches it.
type Agent struct {
	Name    string `json:"name"`              // as /v1/target takes it, if no team is named
	Team    string `json:"team"`              // sessions for a session in no team
	Member  string `json:"member"`            // its name in team; the id of a session if another one has its name
	Session string `json:"session,omitempty"` // the id of its session, if that is known
	Kind    string `json:"kind"`              // in words: "member", "headless member", "pane", "session", or with the program, such as "codex session"

	Word string `json:"word" enum:"working,waiting for you,idle,blocked,ended,unknown"` // what it does: [WordIdle] and its like
	Why  string `json:"why,omitempty"`                                                  // as of [Status]
	Does string `json:"does"`                                                           // in words, with the reason if that concerns the person

	Overview
}
