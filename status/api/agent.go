package api

// Agents are all living agents: those on this machine, and those that other machines share.
type Agents struct {
	Agents  []Agent       `json:"agents"`            // reachable ones first, in the order of their sections: needs-you, stuck, working, idle
	Unknown []UnknownTeam `json:"unknown,omitempty"` // teams whose agents are not all in Agents
}

// UnknownTeam is a team whose members or their states are not known.
type UnknownTeam struct {
	Team string `json:"team"`
	Why  string `json:"why"`
}

// Agent is an agent: where it is, what it does, and how a message reaches it.
type Agent struct {
	Name    string `json:"name"`              // as /v1/target takes it, if no team is named
	Team    string `json:"team"`              // sessions for a session in no team
	Member  string `json:"member"`            // its name in team; for a session, its id if another session has that name
	Session string `json:"session,omitempty"` // the id of its session, if that is known
	Kind    string `json:"kind"`              // in words: "member", "headless member", "pane", "session", or with the program, such as "codex session"

	Word string `json:"word" enum:"working,waiting for you,idle,blocked,ended,unknown"` // what it does: [WordIdle] and its like
	Why  string `json:"why,omitempty"`                                                  // as of [Status]
	Does string `json:"does"`                                                           // its state in words, with the reason if it concerns the person

	Overview
}
